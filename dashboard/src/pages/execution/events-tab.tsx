/** The tab with the journal, event by event, each of which can be selected; and with messages that changed nothing. */
import { get } from "../../api/client.ts";
import type { Dropped, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { clock, count, plural } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { Button } from "../../ui/button.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import { Ago } from "../../ui/time.tsx";
import { Wide } from "../../ui/wide.tsx";
import { Audit } from "./audit.tsx";
import { describeEvent } from "./describe-event.ts";
import type { About } from "./execution.tsx";
import { useExecutionPlace } from "./place.ts";
import { useEvents } from "./use-events.ts";

export function EventsTab({ path, facts, at }: About) {
  const { span } = useExecutionPlace();
  const { all, hasMore, more, earlier, problem } = useEvents(path, {
    revision: facts.revision,
    since: span?.from ?? null,
    at,
  });
  const events = span === null ? all : all.filter((event) => event.at <= span.to);
  const chosen = events.find(({ seq }) => seq === at);
  return (
    <>
      {problem === null ? null : <Trouble problem={problem} />}
      {earlier === null ? null : (
        <p class="tab-filter">
          <Button onClick={earlier}>Earlier events</Button>
        </p>
      )}
      {events.length === 0 && (all.length > 0 || !hasMore) ? (
        <Empty title="No events in the selected time." />
      ) : events.length === 0 ? (
        <Loading />
      ) : (
        <Table
          label="Events"
          rows={events}
          rowHeight={28}
          narrowHeight={44}
          height={380}
          keyOf={({ seq }) => String(seq)}
          onOpen={({ seq }) => choose({ at: seq === facts.revision ? null : String(seq) })}
          onEnd={hasMore && events.length === all.length ? more : undefined}
          chosen={at === null ? null : String(at)}
          columns={[
            {
              id: "seq",
              head: "No.",
              width: "72px",
              isNumber: true,
              isExtra: true,
              cell: ({ seq }) => count(seq),
            },
            {
              id: "at",
              head: "Time",
              width: "110px",
              cell: (event) => <span class="mono muted">{clock(event.at, { withMs: true })}</span>,
            },
            {
              id: "what",
              head: "Event",
              width: "minmax(200px, 1fr)",
              cell: (event, _, isNarrow) =>
                isNarrow ? (
                  <div class="two-lines">
                    <span class="muted">{count(event.seq)}</span> {describeEvent(event)}
                  </div>
                ) : (
                  describeEvent(event)
                ),
            },
          ]}
        />
      )}
      {chosen === undefined ? null : (
        <div class="pad">
          <JsonView value={chosen} label={`Event ${chosen.seq}`} />
        </div>
      )}
      <Audit path={path} />
      <DroppedList path={path} isOver={facts.finishedAt !== null} />
    </>
  );
}

function DroppedList({ path, isOver }: { readonly path: string; readonly isOver: boolean }) {
  const { data } = useLive(
    `${path} dropped`,
    (signal) => get<Page<Dropped>>(`${path}/dropped`, { signal }),
    isOver ? null : 3_000,
  );
  const dropped = data?.data ?? [];
  return (
    <section class="dropped">
      <h3>Ignored messages</h3>
      {dropped.length === 0 ? (
        <Empty title="No duplicate or stale message was ignored." />
      ) : (
        <>
          <p class="muted small">
            {plural(dropped.length, "duplicate or stale message", "duplicate or stale messages")}, the newest
            first. They are kept in memory only.
          </p>
          <Wide label="Dropped messages">
            <table class="rows">
              <thead>
                <tr>
                  <th>When</th>
                  <th>What</th>
                  <th>Why</th>
                  <th>Task</th>
                  <th>Worker</th>
                </tr>
              </thead>
              <tbody>
                {[...dropped].reverse().map((one, i) => (
                  <tr key={i}>
                    <td>
                      <Ago at={one.at} />
                    </td>
                    <td>{one.what}</td>
                    <td>{one.verdict}</td>
                    <td>
                      {one.handler} {one.task}, attempt {one.attempt}
                    </td>
                    <td class="mono">{one.worker}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
        </>
      )}
    </section>
  );
}
