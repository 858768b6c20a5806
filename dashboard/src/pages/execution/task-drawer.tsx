/**
 * One task, in a drawer beside the page: its error with the stack trace, every attempt with its own error and log, its input,
 * result and steps. Failures are walked through with n and p while it stays open.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { LogLine, Page, TaskHistory } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { addressOf, executionPage } from "../../core/address.ts";
import { clock, count, duration, moment, plural, relative, workerName } from "../../core/format.ts";
import { useNow } from "../../core/now.ts";
import { choose } from "../../core/router.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { ErrorView, errorText } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import { Loading, Trouble } from "../../ui/state.tsx";
import { copy } from "../../ui/toast.tsx";
import type { About } from "./execution.tsx";
import { type LaneName, laneText } from "./place.ts";
import { RetryDialog, whyNoRetry } from "./retry-dialog.tsx";
import { type Attempt, type ReadHistory, readHistory, reasonText } from "./task-history.ts";

const LINES = 500;

export function TaskDrawer(
  props: About & { readonly lane: LaneName; readonly task: number; readonly walk: (by: 1 | -1) => void },
) {
  const { path, at, lane, task, facts, stamp, walk, id } = props;
  const key = `${path} task ${laneText(lane)} ${task} ${at ?? ""}`;
  const follows = at === null ? stamp : null;
  const { data, problem } = useLive(
    key,
    (signal) => get<TaskHistory>(`${path}/tasks/${task}/history`, { query: { ...lane, at }, signal }),
    { follows, gapMs: 1_000 },
  );
  const logs = useLive(
    `${key} logs`,
    (signal) => get<Page<LogLine>>(`${path}/logs`, { query: { ...lane, task, limit: LINES }, signal }),
    { follows, gapMs: 2_000 },
  );
  const close = (): void => choose({ task: null });
  useKeys("Task", [{ keys: "Escape", label: "Close the task", run: close, isHidden: true }]);
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) head.current?.focus({ preventScroll: true });
  }, []);
  const row = data?.task;
  const history = data === null ? null : readHistory(data.events);
  return (
    <section class="drawer" aria-label={`Task ${count(task)}`}>
      <header class="drawer-head">
        <div class="row spread">
          <h2 ref={head} tabIndex={-1}>
            Task {count(task)} <span class="muted">of {lane.handler}</span>
          </h2>
          <div class="row drawer-walk">
            <Button kind="bare" icon="back" label="Previous failed task" keys="p" onClick={() => walk(-1)} />
            <Button kind="bare" icon="right" label="Next failed task" keys="n" onClick={() => walk(1)} />
            <Button kind="bare" icon="close" label="Close the task" keys="Esc" onClick={close} />
          </div>
        </div>
        {row === undefined || history === null ? null : (
          <>
            <p class="row">
              <Badge state={row.status} />
              <span class="muted">
                {plural(row.attempts, "attempt")}
                {row.ms === null ? "" : `, ran ${duration(row.ms)}`}
                {row.reason === null ? "" : `, ${reasonText(row.reason)}`}
              </span>
            </p>
            <Actions {...props} row={row} />
          </>
        )}
      </header>
      <div class="drawer-body">
        {row === undefined || history === null || data === null ? (
          problem === null ? (
            <Loading rows={6} />
          ) : (
            <Trouble problem={problem} />
          )
        ) : (
          <Body
            data={data}
            history={history}
            lines={logs.data?.data ?? []}
            execution={id}
            isOver={facts.finishedAt !== null}
          />
        )}
      </div>
    </section>
  );
}

function whyNotTask(status: TaskHistory["task"]["status"], hasEnded: boolean): string | null {
  if (status === "done") return "The task is done.";
  return status === "failed" || hasEnded ? null : "The task has not failed.";
}

function Actions({
  path,
  lane,
  task,
  facts,
  at,
  row,
  id,
}: About & { readonly lane: LaneName; readonly task: number; readonly row: TaskHistory["task"] }) {
  const [isRetrying, setIsRetrying] = useState(false);
  const whyNot = whyNoRetry({ at, facts }, useSession()) ?? whyNotTask(row.status, facts.finishedAt !== null);
  const everything = (): string =>
    [
      `execution ${id}, ${lane.phase}/${lane.handler}, task ${task}: ${row.status}`,
      ...(row.task === undefined ? [] : [`input: ${JSON.stringify(row.task, null, 2)}`]),
      ...(row.error === undefined ? [] : [errorText(row.error)]),
      ...(row.result === undefined ? [] : [`result: ${JSON.stringify(row.result, null, 2)}`]),
    ].join("\n");
  return (
    <div class="row">
      <Button icon="retry" kind="main" whyNot={whyNot} onClick={() => setIsRetrying(true)}>
        Retry…
      </Button>
      <Button icon="copy" onClick={() => copy(everything())}>
        Copy
      </Button>
      {row.worker === null ? null : (
        <a class="button" href={addressOf("/workers", { worker: row.worker })}>
          Open worker
        </a>
      )}
      {row.child === undefined ? null : (
        <a class="button" href={executionPage(row.child)}>
          Open child
        </a>
      )}
      {isRetrying ? (
        <RetryDialog
          path={path}
          choice={{ ...lane, numbers: [task] }}
          what={`task ${count(task)} of ${lane.handler}`}
          onClose={() => setIsRetrying(false)}
        />
      ) : null}
    </div>
  );
}

function Body({
  data,
  history,
  lines,
  execution,
  isOver,
}: {
  readonly data: TaskHistory;
  readonly history: ReadHistory;
  readonly lines: readonly LogLine[];
  readonly execution: string;
  readonly isOver: boolean;
}) {
  const { task: row, more, isKept } = data;
  const [newest, ...earlier] = history.attempts;
  const isInTop = (attempt: Attempt): boolean => attempt === newest && row.error !== undefined;
  return (
    <>
      {row.error === undefined ? null : <ErrorView error={row.error} isOpen />}
      {row.child === undefined ? null : (
        <p>
          This task is the child execution{" "}
          <a class="mono" href={executionPage(row.child)}>
            {row.child}
          </a>
          .
        </p>
      )}
      {newest === undefined ? (
        isOver ? null : (
          <p class="muted">No attempt yet.</p>
        )
      ) : (
        <section>
          <h3>Attempts</h3>
          <ol class="attempts">
            {[newest, ...earlier].map((attempt) => (
              <AttemptRow
                key={attempt.n}
                attempt={attempt}
                isOpen={attempt === newest}
                hasError={!isInTop(attempt)}
                lines={lines.filter((line) => line.attempt === attempt.n)}
              />
            ))}
          </ol>
          {history.retries.map(({ at, by }) => (
            <p key={at} class="muted small">
              Retried by {by}, {moment(at)}
            </p>
          ))}
          {more > 0 ? <p class="muted small">{plural(more, "earlier event")} not shown.</p> : null}
          {isKept ? null : (
            <p class="muted small">Earlier attempts are not shown: the handler has too many events.</p>
          )}
        </section>
      )}
      <Steps steps={history.steps} />
      {row.task === undefined ? null : (
        <section>
          <h3>Input</h3>
          <JsonView value={row.task} label={`Input of task ${row.n}`} />
        </section>
      )}
      {row.result === undefined ? null : (
        <section>
          <h3>Result</h3>
          <JsonView value={row.result} label={`Result of task ${row.n}`} />
        </section>
      )}
      <p class="muted small">
        <a href={executionPage(execution, { lane: laneText(data), task: row.n, tab: "logs" })}>
          All log lines of this task
        </a>
      </p>
    </>
  );
}

function Steps({ steps }: Pick<ReadHistory, "steps">) {
  if (steps.length === 0) return null;
  return (
    <section>
      <h3>Steps</h3>
      <ol class="task-steps">
        {steps.map((step) => (
          <li key={`${step.attempt} ${step.name}`}>
            <details>
              <summary>
                <Badge state={step.state} /> <b>{step.name}</b>{" "}
                <span class="muted">
                  {clock(step.at, { withMs: true })}
                  {step.ms === null ? "" : `, ${duration(step.ms)}`}, attempt {step.attempt}
                </span>
              </summary>
              {step.error === undefined ? (
                <JsonView value={step.result ?? null} label={`Result of ${step.name}`} />
              ) : (
                <ErrorView error={step.error} />
              )}
            </details>
          </li>
        ))}
      </ol>
    </section>
  );
}

const STATES: Readonly<Record<Attempt["state"], "failed" | Attempt["state"]>> = {
  running: "running",
  waiting: "waiting",
  retrying: "failed",
  failed: "failed",
  done: "done",
  cancelled: "cancelled",
  lost: "lost",
  pending: "pending",
};

function AttemptRow({
  attempt,
  isOpen,
  hasError,
  lines,
}: {
  readonly attempt: Attempt;
  readonly isOpen: boolean;
  readonly hasError: boolean;
  readonly lines: readonly LogLine[];
}) {
  const now = useNow();
  const { n, state, startedAt, endedAt, worker, ms, reason, error, until, wait } = attempt;
  const ranMs = ms ?? (startedAt === null ? null : (endedAt ?? now) - startedAt);
  const says = [
    endedAt === null ? (startedAt === null ? null : clock(startedAt)) : clock(endedAt),
    ranMs === null ? null : duration(ranMs),
    worker === null ? null : workerName(worker),
    state === "retrying" || state === "failed" ? reasonText(reason) : wait,
  ].filter((text) => text !== null && text !== "");
  return (
    <li>
      <details open={isOpen}>
        <summary>
          <Badge state={STATES[state]} /> <b>Attempt {n}</b> <span class="muted">{says.join(", ")}</span>
        </summary>
        {until === null || until <= now ? null : <p>Next attempt {relative(until, now)}.</p>}
        {error === undefined || !hasError ? null : <ErrorView error={error} />}
        {lines.length === 0 ? (
          <p class="muted small">No log lines.</p>
        ) : (
          <pre class="lines" tabIndex={0} aria-label={`Log of attempt ${n}`}>
            {lines.map((line) => (
              <span key={line.id} class={`level-${line.level}`}>
                {clock(line.at, { withMs: true })} {line.level.padEnd(5)} {line.text}
                {"\n"}
              </span>
            ))}
          </pre>
        )}
      </details>
    </li>
  );
}
