/** The details of one task: its data, its result or error, and its log lines. */
import { get } from "../../api/client.ts";
import type { LogLine, Page, TaskRow } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { clock, count, duration, workerName } from "../../core/format.ts";
import { choose } from "../../core/router.ts";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { ErrorView } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import type { About } from "./execution.tsx";
import { type LaneName, laneText } from "./place.ts";

const LINES = 50;

export function TaskDetail({
  path,
  at,
  isOver,
  lane,
  task,
  facts,
}: About & { readonly lane: LaneName; readonly task: number }) {
  const key = `${path} task ${laneText(lane)} ${task} ${at ?? ""}`;
  const everyMs = isOver || at !== null ? null : 2_000;
  const { data, problem } = useLive(
    `${key} ${isOver ? facts.revision : ""}`,
    (signal) =>
      get<Page<TaskRow>>(`${path}/tasks`, {
        query: { ...lane, at, from: task, limit: 1, detail: "full" },
        signal,
      }),
    everyMs,
  );
  const logs = useLive(
    `${key} logs`,
    (signal) => get<Page<LogLine>>(`${path}/logs`, { query: { ...lane, task, limit: LINES }, signal }),
    everyMs,
  );
  const row = data?.data.find(({ n }) => n === task);
  return (
    <section class="task-detail" aria-label={`Task ${task}`}>
      <header class="row spread">
        <div class="row">
          <h2>Task {count(task)}</h2>
          {row === undefined ? null : (
            <>
              <Badge state={row.status} />
              <span class="muted">
                {row.attempts} {row.attempts === 1 ? "attempt" : "attempts"}
                {row.ms === null ? "" : `, ran ${duration(row.ms)}`}
                {row.worker === null ? "" : ` on ${workerName(row.worker)}`}
                {row.reason === null ? "" : row.reason === "attempts" ? ", none is left" : `, ${row.reason}`}
              </span>
            </>
          )}
        </div>
        <Button kind="bare" icon="close" label="Close the task" onClick={() => choose({ task: null })} />
      </header>
      {row === undefined ? (
        problem === null ? (
          <Loading rows={2} />
        ) : (
          <Trouble problem={problem} />
        )
      ) : (
        <div class="columns">
          {row.task === undefined ? null : (
            <div>
              <h3>Given</h3>
              <JsonView value={row.task} label={`Data of task ${task}`} />
            </div>
          )}
          {row.error === undefined ? (
            row.result === undefined ? null : (
              <div>
                <h3>Result</h3>
                <JsonView value={row.result} label={`The result of task ${task}`} />
              </div>
            )
          ) : (
            <ErrorView error={row.error} />
          )}
        </div>
      )}
      {logs.data === null || logs.data.data.length === 0 ? null : (
        <div>
          <h3>Log</h3>
          {byAttempt(logs.data.data).map(({ attempt, attemptId, lines }) => (
            <div key={attemptId}>
              <p class="muted">
                Attempt {attempt}, <code>{attemptId}</code>
              </p>
              <pre class="lines" tabIndex={0} aria-label={`Log of attempt ${attempt} of task ${task}`}>
                {lines
                  .map((line) => `${clock(line.at, { withMs: true })} ${line.level.padEnd(5)} ${line.text}\n`)
                  .join("")}
              </pre>
            </div>
          ))}
        </div>
      )}
    </section>
  );
}

/** The log lines of each attempt, in the order in which the attempts first logged. */
function byAttempt(
  lines: readonly LogLine[],
): { readonly attempt: number; readonly attemptId: string; readonly lines: LogLine[] }[] {
  const groups = new Map<string, { attempt: number; attemptId: string; lines: LogLine[] }>();
  for (const line of lines) {
    const { attempt, attemptId } = line;
    const group = groups.get(attemptId) ?? { attempt, attemptId, lines: [] };
    group.lines.push(line);
    groups.set(attemptId, group);
  }
  return [...groups.values()];
}
