/** The page of tasks that wait for a worker, or for a place under a limit. */
import { useState } from "preact/hooks";
import { change, get, may } from "../../api/client.ts";
import type { Limit, Overview, Page, PausedQueue, Worker, WorkflowName } from "../../api/shapes.ts";
import { reloadAll, useLive } from "../../api/use-live.ts";
import { addressOf } from "../../core/address.ts";
import { count, short } from "../../core/format.ts";
import { useSession } from "../../shell/frame.tsx";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { ReasonDialog } from "../../ui/reason-dialog.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell, tellUndo } from "../../ui/toast.tsx";
import { Wide } from "../../ui/wide.tsx";
import "./queues.css";

const EVERY_MS = 10_000;
/** Workers and pauses change rarely. */
const RARELY_MS = 30_000;

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
    RARELY_MS,
  );
  const paused = useLive(
    who.project === null ? "paused queues" : null,
    (signal) => get<Page<PausedQueue>>("/v1/queues/paused", { signal }),
    RARELY_MS,
  );
  const { data, problem } = overview;
  if (data === null)
    return problem === null ? <Loading rows={6} /> : <Trouble problem={problem} onRetry={overview.reload} />;
  return (
    <>
      <PageHead title="Queues and limits" about="tasks that wait for a worker, and limits" />
      <div class="stack">
        {who.project === null ? (
          <Ready ready={data.ready} workers={workers.data?.data ?? null} paused={paused.data?.data ?? []} />
        ) : null}
        <Limits limits={limits.data?.data ?? null} ready={data.ready} />
      </div>
    </>
  );
}

function Ready({
  ready,
  workers,
  paused,
}: {
  readonly ready: Overview["ready"];
  readonly workers: readonly Worker[] | null;
  readonly paused: readonly PausedQueue[];
}) {
  const waiting = [...ready].sort((a, b) => b.tasks - a.tasks);
  const names = new Set(waiting.map(({ use }) => use));
  // A paused queue is listed even if nothing waits in it, so that it can be resumed.
  const sorted: Overview["ready"] = [
    ...waiting,
    ...paused.filter(({ use }) => !names.has(use)).map(({ use }) => ({ use, tasks: 0 })),
  ];
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
                <th class="queue-bar">Share</th>
                <th class="num">Queued</th>
                <th class="wide-only">Last taken</th>
                <th>Served by</th>
                <th>
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {sorted.map(({ use, tasks, since, workflows }) => (
                <tr key={use}>
                  <td class="mono">
                    <UseLink use={use} workflows={workflows} />
                  </td>
                  <td class="queue-bar">
                    <span class="ready-bar">
                      <i style={{ width: `${Math.max(1, (tasks / most) * 100)}%` }} />
                    </span>
                  </td>
                  <td class="num">{short(tasks)}</td>
                  <td class="nowrap wide-only">{since === undefined ? "" : <Ago at={since} />}</td>
                  <td>
                    <PausedState queue={paused.find((one) => one.use === use)} />
                    {workers === null || paused.some((one) => one.use === use) ? (
                      ""
                    ) : served(use) === 0 ? (
                      <Badge state="worker" />
                    ) : (
                      `${count(served(use))} ${served(use) === 1 ? "worker" : "workers"}`
                    )}
                  </td>
                  <td class="queue-action">
                    <QueueButton use={use} isPaused={paused.some((one) => one.use === use)} />
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

/**
 * The name of a handler, as a link to the open executions that wait in its queue. If executions of several workflows do, each
 * workflow has a link. A queue in which nothing waits belongs to the workflow with whose name it begins.
 */
function UseLink(props: {
  readonly use: string;
  readonly text?: string;
  readonly workflows: readonly string[] | undefined;
}) {
  const { use, text = use, workflows = [] } = props;
  const { data } = useLive("workflow names", (signal) =>
    get<Page<WorkflowName>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
  );
  const named = data?.data.find(({ name }) => use.startsWith(`${name}.`))?.name;
  const known = workflows.length > 0 || named === undefined ? workflows : [named];
  const [first] = known;
  if (first === undefined) return <>{text}</>;
  if (known.length === 1) return <WorkflowLink workflow={first} text={text} />;
  return (
    <>
      {text}
      <div class="small">
        {known.map((workflow, i) => (
          <span key={workflow}>
            {i === 0 ? "" : ", "}
            <WorkflowLink workflow={workflow} text={workflow} />
          </span>
        ))}
      </div>
    </>
  );
}

function WorkflowLink({ workflow, text }: { readonly workflow: string; readonly text: string }) {
  return (
    <a
      href={addressOf("/executions", { workflow, status: "running" })}
      title={`Open executions of ${workflow}`}
    >
      {text}
    </a>
  );
}

function PausedState({ queue }: { readonly queue: PausedQueue | undefined }) {
  if (queue === undefined) return null;
  const { by, at, reason } = queue;
  return (
    <>
      <Badge state="paused" />{" "}
      <span class="muted small">
        by {by}, <Ago at={at} />
        {reason === null ? "" : `: ${reason}`}
      </span>
    </>
  );
}

/** A button that pauses or resumes a queue at all nodes. */
function QueueButton({ use, isPaused }: { readonly use: string; readonly isPaused: boolean }) {
  const who = useSession();
  const [isAsking, setIsAsking] = useState(false);
  const whyNot = may("operator", who) ? null : `This needs the role operator; ${who.name} is ${who.role}.`;
  const path = `/v1/queues/${encodeURIComponent(use)}`;
  const resume = async (): Promise<void> => {
    await change("POST", `${path}/resume`);
    tell(`${use} is resumed.`);
    reloadAll();
  };
  return (
    <>
      {isPaused ? (
        <Button icon="play" whyNot={whyNot} label={`Resume ${use}`} onClick={() => attempt(resume)}>
          Resume
        </Button>
      ) : (
        <Button icon="pause" whyNot={whyNot} label={`Pause ${use}`} onClick={() => setIsAsking(true)}>
          Pause…
        </Button>
      )}
      {isAsking ? (
        <ReasonDialog
          title={`Pause the queue of ${use}?`}
          text="Its tasks are not given out, at any node, until it is resumed. Running attempts go on."
          action="Pause"
          onClose={() => setIsAsking(false)}
          run={async (reason) => {
            await change("POST", `${path}/pause`, reason === undefined ? {} : { reason });
            tellUndo(`${use} is paused.`, resume);
          }}
        />
      ) : null}
    </>
  );
}

/** The handler of a limit, which is named `project/handler`. */
function useOf(limit: string): string {
  return limit.slice(limit.indexOf("/") + 1);
}

function Limits({
  limits,
  ready,
}: {
  readonly limits: readonly Limit[] | null;
  readonly ready: Overview["ready"];
}) {
  const workflowsOf = (use: string): readonly string[] | undefined =>
    ready.find((one) => one.use === use)?.workflows;
  return (
    <Panel title="Limits" isFlush>
      {limits === null ? (
        <Loading rows={3} />
      ) : limits.length === 0 ? (
        <Empty title="No limits in use.">
          <span>
            A handler has one by <code>concurrency</code>, <code>concurrencyPerKey</code>, <code>rate</code>{" "}
            or <code>ratePerKey</code>, a project by <code>projects</code> in the configuration.
          </span>
        </Empty>
      ) : (
        <Wide label="Limits">
          <table class="rows">
            <thead>
              <tr>
                <th>Limit</th>
                <th class="queue-bar">Use</th>
                <th class="num">In use</th>
                <th class="num wide-only">Waiting executions</th>
              </tr>
            </thead>
            <tbody>
              {[...limits]
                .sort((a, b) => b.waiting - a.waiting || b.held / b.max - a.held / a.max)
                .map(({ name, max, held, waiting }) => (
                  <tr key={name}>
                    <td class="mono">
                      <UseLink use={useOf(name)} text={name} workflows={workflowsOf(useOf(name))} />
                    </td>
                    <td class="queue-bar">
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
                    <td class="num wide-only">
                      {waiting === 0 ? <span class="muted">0</span> : count(waiting)}
                    </td>
                  </tr>
                ))}
            </tbody>
          </table>
        </Wide>
      )}
      {limits === null || limits.length === 0 ? null : (
        <p class="muted limits-note">
          A limit is part of the workflow’s definition (<code>concurrency</code>, <code>rate</code>), or of{" "}
          <code>projects</code> in the configuration. To change it, deploy a new version of the workflow: it
          applies to open executions too. To stop a handler at once, pause its queue.
        </p>
      )}
    </Panel>
  );
}
