/** The tab with runs of scripts and steps of handlers, in order: each with its state, its log lines and its cost. */
import { useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { JournalEvent, LogLine, Page } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { bytes, clock, duration } from "../../core/format.ts";
import { Badge } from "../../ui/badge.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import type { About } from "./execution.tsx";
import type { LaneName } from "./place.ts";
import { TaskLink } from "./task-link.tsx";
import { textOf } from "./text-of.ts";
import { useKinds } from "./use-kinds.ts";

/** The number of runs that are shown expanded at first. */
const OPEN = 8;
/** The most log lines of one run that are shown. */
const LINES = 100;

interface Run {
  readonly key: string;
  readonly isScript: boolean;
  readonly name: string;
  readonly lane: LaneName;
  readonly task: number;
  readonly attempt: number;
  readonly at: number;
  readonly state: "running" | "done" | "crashed";
  /** Why the run crashed: the worker's message, or the end of its attempt. */
  readonly why: string | null;
  readonly costs: readonly string[];
  /** The state or the result of the run; undefined if it has none. */
  readonly value: unknown;
}

export function StepsTab({ id, path, facts, at }: About) {
  const { events, problem } = useKinds(path, "task.run,task.step", { revision: facts.revision, at });
  if (events === null) return problem === null ? <Loading /> : <Trouble problem={problem} />;
  const runs = runsIn(events);
  if (runs.length === 0) return <Empty title="This execution has no steps and no script runs." />;
  return (
    <ol class="runs">
      {runs.map((run, i) => (
        <RunRow key={`${run.key} ${run.at}`} run={run} execution={id} path={path} opens={i < OPEN} />
      ))}
    </ol>
  );
}

/** Runs and steps in the order in which they began. The end of a run replaces its begin. */
function runsIn(events: readonly JournalEvent[]): Run[] {
  const runs = new Map<string, Run>();
  for (const event of events) {
    const run = runOf(event);
    const begun = runs.get(run.key);
    runs.set(run.key, begun === undefined ? run : { ...run, at: begun.at });
  }
  return [...runs.values()];
}

function runOf(event: JournalEvent): Run {
  const [name, handler] = [textOf(event["name"]), textOf(event["handler"])];
  const [task, attempt] = [Number(event["n"]), Number(event["attempt"])];
  const lane = { phase: textOf(event["phase"]), visit: Number(event["visit"]), handler };
  const stats = (event["stats"] ?? {}) as { durationMs?: number; memoryBytes?: number };
  const costs = [
    ...(stats.durationMs === undefined ? [] : [duration(stats.durationMs)]),
    ...((stats.memoryBytes ?? 0) === 0 ? [] : [bytes(stats.memoryBytes ?? 0)]),
  ];
  const isStep = event.kind.includes(".task.step");
  const isRetrying = event.kind.endsWith("task.step.retrying");
  const isStarted = event.kind.endsWith("task.run.started");
  const isCrashed = event.kind.endsWith("task.run.crashed") || event.kind.endsWith("task.step.failed");
  const error = (event["error"] ?? {}) as { message?: unknown };
  return {
    key: `${isStep} ${lane.phase} ${lane.visit} ${handler} ${task} ${attempt} ${name}`,
    isScript: !isStep,
    ...{ name, lane, task, attempt, costs, at: event.at },
    state: isStarted || isRetrying ? "running" : isCrashed ? "crashed" : "done",
    why: isCrashed ? (WHY[textOf(event["reason"])] ?? textOf(event["message"] ?? error.message)) : null,
    value: isStarted || isCrashed || isRetrying ? undefined : (event["state"] ?? event["result"] ?? null),
  };
}

/** Texts for crashes that the worker did not report. */
const WHY: Readonly<Record<string, string>> = {
  lost: "The attempt was lost: its worker stopped or was cut off.",
  ended: "The attempt ended during this run.",
};

function RunRow({
  run,
  execution,
  path,
  opens,
}: {
  readonly run: Run;
  readonly execution: string;
  readonly path: string;
  readonly opens: boolean;
}) {
  const { name, lane, task, attempt, at, state, why, costs, value, isScript } = run;
  const [isOpen, setIsOpen] = useState(opens);
  return (
    <li>
      <details open={opens} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>
          <b>{name}</b>
          {state === "crashed" ? <Badge state="failed" /> : <Badge state={state} />}
          <span class="muted">
            {isScript ? "run" : "step"} of {lane.handler} {task}, attempt {attempt}
          </span>
          <span class="muted mono">{clock(at, { withMs: true })}</span>
          {costs.map((cost) => (
            <span key={cost} class="muted">
              {cost}
            </span>
          ))}
        </summary>
        {isOpen ? (
          <div class="columns">
            {value === undefined ? null : (
              <div>
                <h3>{isScript ? "State" : "Result"}</h3>
                <JsonView value={value} label={`Result of ${name}`} />
              </div>
            )}
            {why === null ? null : (
              <div>
                <h3>Error</h3>
                <p class="failed-text">{why}</p>
              </div>
            )}
            {isScript ? <RunLines run={run} path={path} /> : null}
            <div>
              <h3>Task</h3>
              <TaskLink execution={execution} lane={lane} task={task} />
            </div>
          </div>
        ) : null}
      </details>
    </li>
  );
}

function RunLines({ run, path }: { readonly run: Run; readonly path: string }) {
  const { lane, task, attempt, name } = run;
  const { data } = useLive(`${path} ${run.key} lines ${run.state}`, (signal) =>
    get<Page<LogLine>>(`${path}/logs`, {
      query: { phase: lane.phase, handler: lane.handler, task, attempt, run: name, limit: LINES },
      signal,
    }),
  );
  const lines = data?.data.filter(({ level }) => level !== "run") ?? [];
  return (
    <div>
      <h3>Log</h3>
      {data === null ? (
        <Loading rows={2} />
      ) : lines.length === 0 ? (
        <p class="muted">No log lines.</p>
      ) : (
        <pre class="lines mono">{lines.map(({ text }) => text).join("\n")}</pre>
      )}
    </div>
  );
}
