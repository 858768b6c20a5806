/** The page of tasks that wait for a worker, or for a place under a limit. */
import { get } from "../../api/client.ts";
import type { Limit, Overview, Page, Worker } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, short } from "../../core/format.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { Wide } from "../../ui/wide.tsx";
import "./queues.css";

const EVERY_MS = 8_000;

export function Queues() {
  const who = useSession();
  const overview = useLive(
    "queues",
    (signal) => get<Overview>("/v1/overview", { query: { seconds: 1 }, signal }),
    EVERY_MS,
  );
  const limits = useLive("limits", (signal) => get<Page<Limit>>("/v1/limits", { signal }), EVERY_MS);
  const workers = useLive(
    who.project === null ? "workers" : null,
    (signal) => get<Page<Worker>>("/v1/workers", { signal }),
    20_000,
  );
  const { data, problem } = overview;
  if (data === null)
    return problem === null ? <Loading rows={6} /> : <Trouble problem={problem} onRetry={overview.reload} />;
  return (
    <>
      <PageHead title="Queues and limits" about="tasks that wait for a worker, and limits" />
      <div class="stack">
        {who.project === null ? <Ready ready={data.ready} workers={workers.data?.data ?? null} /> : null}
        <Limits limits={limits.data?.data ?? null} />
      </div>
    </>
  );
}

function Ready({
  ready,
  workers,
}: {
  readonly ready: Overview["ready"];
  readonly workers: readonly Worker[] | null;
}) {
  const sorted = [...ready].sort((a, b) => b.tasks - a.tasks);
  const most = Math.max(1, ...sorted.map(({ tasks }) => tasks));
  const served = (use: string): number =>
    workers?.filter(
      ({ handlers, topics }) =>
        handlers.some((one) => one.use === use) || topics.some((topic) => `topic:${topic}` === use),
    ).length ?? 0;
  return (
    <Panel title="Waiting for a worker" isFlush>
      {sorted.length === 0 ? (
        <Empty title="No tasks wait for a worker." />
      ) : (
        <Wide label="Tasks that wait">
          <table class="rows">
            <thead>
              <tr>
                <th>Handler</th>
                <th class="queue-bar">Tasks</th>
                <th class="num">Queued</th>
                <th>Last taken</th>
                <th>Served by</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map(({ use, tasks, since }) => (
                <tr key={use}>
                  <td class="mono">{use}</td>
                  <td>
                    <span class="ready-bar">
                      <i style={{ width: `${Math.max(1, (tasks / most) * 100)}%` }} />
                    </span>
                  </td>
                  <td class="num">{short(tasks)}</td>
                  <td class="nowrap">{since === undefined ? "" : <Ago at={since} />}</td>
                  <td>
                    {workers === null ? (
                      ""
                    ) : served(use) === 0 ? (
                      <Badge state="failed" text="no worker" />
                    ) : (
                      `${count(served(use))} ${served(use) === 1 ? "worker" : "workers"}`
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}

function Limits({ limits }: { readonly limits: readonly Limit[] | null }) {
  return (
    <Panel title="Limits" isFlush>
      {limits === null ? (
        <Loading rows={3} />
      ) : limits.length === 0 ? (
        <Empty title="No limits in use.">
          <span>
            A handler has one by <code>concurrency</code>, <code>concurrencyPerKey</code> or <code>rate</code>
            , a project by <code>projects</code> in the configuration.
          </span>
        </Empty>
      ) : (
        <Wide label="Limits">
          <table class="rows">
            <thead>
              <tr>
                <th>Limit</th>
                <th class="queue-bar">In use</th>
                <th class="num">Of</th>
                <th class="num">Waiting executions</th>
              </tr>
            </thead>
            <tbody>
              {[...limits]
                .sort((a, b) => b.waiting - a.waiting || b.held / b.max - a.held / a.max)
                .map(({ name, max, held, waiting }) => (
                  <tr key={name}>
                    <td class="mono">{name}</td>
                    <td>
                      <span
                        class={`limit-bar${held >= max ? " is-full" : ""}`}
                        role="img"
                        aria-label={`${held} of ${max} held`}
                      >
                        <i style={{ width: `${Math.min(100, (held / Math.max(1, max)) * 100)}%` }} />
                      </span>
                    </td>
                    <td class="num">
                      {count(held)} / {count(max)}
                    </td>
                    <td class="num">{waiting === 0 ? <span class="muted">0</span> : count(waiting)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}
