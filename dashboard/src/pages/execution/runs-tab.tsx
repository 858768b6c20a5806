/** The runs of scripts and the steps of handlers: in order, each with the state it left, what it logged and what it cost. */
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

/** Those that are shown with all they left at once. */
const OPEN = 8;
/** Starts of runs that are looked at, and lines of one run that are shown. */
const STARTS = 1_000;
const LINES = 100;

interface Run {
  readonly key: string;
  readonly isScript: boolean;
  readonly name: string;
  readonly lane: LaneName;
  readonly task: number;
  readonly attempt: number;
  readonly at: number;
  /** Null: it began, and nothing was journaled of its end. */
  readonly left: { readonly value: unknown; readonly costs: readonly string[] } | null;
}

/** The tab. */
export function RunsTab({ id, path, facts, at, isOver }: About) {
  const { events, problem } = useKinds(path, "task.run,task.step", { revision: facts.revision, at });
  const starts = useLive(`${path} run starts ${facts.revision}`, (signal) =>
    get<Page<LogLine>>(`${path}/logs`, { query: { level: "run", limit: STARTS }, signal }),
  );
  if (events === null || starts.data === null) {
    const trouble = problem ?? starts.problem;
    return trouble === null ? <Loading /> : <Trouble problem={trouble} />;
  }
  const ended = events.map(endedRun);
  const known = new Set(ended.map(({ key }) => key));
  const open = at === null ? starts.data.data.map(startedRun).filter(({ key }) => !known.has(key)) : [];
  const runs = [...ended, ...open].toSorted((a, b) => a.at - b.at);
  if (runs.length === 0) return <Empty title="It has no script runs and no journaled steps." />;
  return (
    <ol class="runs">
      {runs.map((run, i) => (
        <RunRow
          key={`${run.key} ${run.at}`}
          run={run}
          execution={id}
          path={path}
          isOver={isOver}
          opens={i < OPEN}
        />
      ))}
    </ol>
  );
}

function keyOf(handler: string, task: number, attempt: number, name: string): string {
  return `${handler} ${task} ${attempt} ${name}`;
}

function endedRun(event: JournalEvent): Run {
  const [name, handler] = [textOf(event["name"]), textOf(event["handler"])];
  const [task, attempt] = [Number(event["n"]), Number(event["attempt"])];
  const stats = (event["stats"] ?? {}) as { durationMs?: number; memoryBytes?: number };
  const costs = [
    ...(stats.durationMs === undefined ? [] : [duration(stats.durationMs)]),
    ...((stats.memoryBytes ?? 0) === 0 ? [] : [bytes(stats.memoryBytes ?? 0)]),
  ];
  return {
    key: keyOf(handler, task, attempt, name),
    isScript: event.kind.endsWith("run"),
    name,
    lane: { phase: textOf(event["phase"]), visit: Number(event["visit"]), handler },
    task,
    attempt,
    at: event.at,
    left: { value: event["state"] ?? event["result"] ?? null, costs },
  };
}

function startedRun({ run = "", phase, visit, handler, task, attempt, at }: LogLine): Run {
  const key = keyOf(handler, task, attempt, run);
  const lane = { phase, visit, handler };
  return { key, isScript: true, name: run, lane, task, attempt, at, left: null };
}

function RunRow({
  run,
  execution,
  path,
  isOver,
  opens,
}: {
  readonly run: Run;
  readonly execution: string;
  readonly path: string;
  readonly isOver: boolean;
  readonly opens: boolean;
}) {
  const { name, lane, task, attempt, at, left, isScript } = run;
  const [isOpen, setIsOpen] = useState(opens);
  return (
    <li>
      <details open={opens} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
        <summary>
          <b>{name}</b>
          {left !== null ? (
            <Badge state="done" />
          ) : isOver ? (
            <Badge state="failed" text="did not end" />
          ) : (
            <Badge state="running" />
          )}
          <span class="muted">
            {isScript ? "run" : "step"} of {lane.handler} {task}, attempt {attempt}
          </span>
          <span class="muted mono">{clock(at, { withMs: true })}</span>
          {left?.costs.map((cost) => (
            <span key={cost} class="muted">
              {cost}
            </span>
          ))}
        </summary>
        {isOpen ? (
          <div class="columns">
            {left === null ? null : (
              <div>
                <h3>{isScript ? "State" : "Result"}</h3>
                <JsonView value={left.value} label={`What ${name} left`} />
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
  const { data } = useLive(`${path} ${run.key} lines ${run.left === null}`, (signal) =>
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
        <p class="muted">Nothing was logged.</p>
      ) : (
        <pre class="lines mono">{lines.map(({ text }) => text).join("\n")}</pre>
      )}
    </div>
  );
}
