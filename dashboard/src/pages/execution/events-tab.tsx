/** The tab with the journal, event by event, each of which can be selected; and with messages that changed nothing. */
import { get } from "../../api/client.ts";
import type { Dropped, JournalEvent, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { clock, count, plural } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { JsonView } from "../../ui/json.tsx";
import { SaveAll } from "../../ui/save-all.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import { Ago } from "../../ui/time.tsx";
import { copy } from "../../ui/toast.tsx";
import { Wide } from "../../ui/wide.tsx";
import { Audit } from "./audit.tsx";
import { describeEvent } from "./describe-event.ts";
import type { About } from "./execution.tsx";
import { useExecutionPlace } from "./place.ts";
import { useEvents } from "./use-events.ts";

/** The events of a request. */
const PAGE = 1_000;

export function EventsTab({ id, path, facts, at }: About) {
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
      <Export id={id} path={path} />
      <Audit path={path} />
      <DroppedList path={path} isOver={facts.finishedAt !== null} />
    </>
  );
}

/** Saves all events as a file, and copies the commands that print them. */
function Export({ id, path }: { readonly id: string; readonly path: string }) {
  const who = useSession();
  // Without any token, the node lets every process of its machine in, under the name "local".
  const header = who.name === "local" ? "" : '-H "Authorization: Bearer $RONDO_TOKEN" ';
  return (
    <div class="row tab-filter">
      <SaveAll
        label="Download events"
        file={`${id}.events.jsonl`}
        page={(cursor) =>
          get<Page<JournalEvent>>(`${path}/events`, { query: { detail: "full", limit: PAGE, cursor } })
        }
        write={(events) => events.map((event) => `${JSON.stringify(event)}\n`).join("")}
      />
      <Button icon="copy" onClick={() => copy(`rondo events ${shellText(id)} --full --json`)}>
        Copy as command
      </Button>
      <Button
        icon="copy"
        onClick={() =>
          copy(`curl ${header}${shellText(`${location.origin}${path}/events?detail=full&limit=${PAGE}`)}`)
        }
      >
        Copy as curl
      </Button>
    </div>
  );
}

/** Quotes a text for a shell. */
function shellText(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
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
