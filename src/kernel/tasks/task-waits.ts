/**
 * Checkpoints inside a task: its finished steps and runs, and the waits of a suspended task. The answer to a wait (a signal or a
 * timeout) is journaled as a step, so that later attempts find it.
 */
import { DURATION_MAX_MS } from "../../std/duration.ts";
import { isRejection } from "../../std/rejection.ts";
import { advance } from "../advance.ts";
import type { Place, TaskStep } from "../event.ts";
import type { Execution, HandlerState } from "../execution.ts";
import type { Answer, CheckpointMessage, CodeNotes, TaskWait } from "../message.ts";
import { isPublished } from "../published.ts";
import type { Step } from "../step.ts";
import { clearTimer } from "../timer-ids.ts";
import { ENGINE, waitTimeout } from "../timers.ts";
import { isUpdate, shownSignal } from "../updates.ts";
import { BulkRecorder } from "./bulk-recorder.ts";
import { CHECKPOINTS_MAX, type TaskProgress, type Waiting } from "./checkpoint.ts";
import { matchesPayload } from "./payload-match.ts";
import { delayMs } from "./retry.ts";
import { runNotice } from "./run-notices.ts";
import { placeRun } from "./script-runs.ts";
import { type AskedInVain, startTaskChild } from "./task-children.ts";
import { closeWait, timerOf } from "./wait-timers.ts";

/** Journals, once, a finished step or run of an attempt that holds its lease, or a notice about a run. */
export function checkpoint(step: Step, message: CheckpointMessage): Answer {
  const { execution } = step;
  const { task, attempt, done } = message;
  const handler = execution.handlerAt(message);
  const visit = execution.current;
  if (handler === undefined || visit === null || execution.ended || visit.status !== "running")
    return { kind: "ignored", why: "the phase is over", verdicts: ["gone"] };
  const progress = handler.progress.tasks.get(task);
  const isLive =
    // @plant step journaled though stale
    message.live &&
    message.round === visit.round &&
    !handler.plan.waits &&
    handler.plan.mode !== "workflow" &&
    Number.isInteger(task) &&
    task >= 0 &&
    task < handler.offered &&
    !handler.isClosed(task) &&
    // @plant step journaled though stale 2
    attempt > handler.tasks.ended(task);
  // The report is stale even if the same step is journaled: an attempt without its lease must not go on with its own value of the
  // step.
  if (!isLive) return { kind: "ignored", why: "the attempt is over", verdicts: ["stale"] };
  if (done.kind === "run.started" || done.kind === "run.crashed")
    return runNotice(step, handler, message, done);
  const at = { ...visit.place(message.handler), task, attempt };
  if (done.kind === "run") {
    const place = placeRun(handler, message, done);
    if (isRejection(place)) return { kind: "ignored", why: place.message, verdicts: [place] };
    if (place.isRepeat) return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
    const { name, state, oversized, stats } = done;
    step.emit({ kind: "task.run", ...at, name, index: place.index, state, oversized, stats });
    return { kind: "applied", seq: execution.seq, verdicts: ["accepted"] };
  }
  if (done.kind === "published") {
    if (isPublished(execution, done.values))
      return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
    step.emit({ ...at, ...done });
    return { kind: "applied", seq: execution.seq, verdicts: ["accepted"] };
  }
  if (done.kind === "noted") return codeNoted(step, at, progress, done);
  const { name } = done;
  const unseen = progress?.answersSince(message.seen) ?? [];
  const order = unseen.length === 0 ? {} : { unseen };
  const known = progress?.named.get(name);
  if (known?.kind === "step") return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
  if (known === undefined && (progress?.size ?? 0) >= CHECKPOINTS_MAX)
    return { kind: "ignored", why: `a task may have at most ${CHECKPOINTS_MAX} steps`, verdicts: ["stale"] };
  if (done.kind === "child") {
    // A later attempt requests a child that is already running. The request changes nothing.
    if (known?.kind === "child") return { kind: "ignored", why: "the child runs", verdicts: ["duplicate"] };
    // The attempt was asked to stop, so it must not begin anything more.
    if (execution.draining) return { kind: "ignored", why: "the phase drains", verdicts: ["stale"] };
    const error = startTaskChild(step, handler, { task, attempt }, done);
    if (error !== null) failAttempt(step, handler, { task, attempt }, error);
    return { kind: "applied", seq: execution.seq, verdicts: [error === null ? "accepted" : "stale"] };
  }
  if (done.kind === "step") {
    closeWait(step, handler, task, name);
    const { result, map, answers } = done;
    const items = map === undefined ? {} : { map };
    // If no wait has taken the update, or it is answered already, the step is recorded without a reference to the update.
    const isAnswer = answers !== undefined && execution.unanswered.has(answers);
    // @plant answer without its update
    const answer = isAnswer ? { answers } : {};
    step.emit({
      kind: "task.step",
      ...at,
      name,
      result,
      error: null,
      reason: "done",
      ...items,
      ...answer,
      ...order,
    });
    return { kind: "applied", seq: execution.seq, verdicts: ["accepted"] };
  }
  const { tries, error } = done;
  // A repeated report has the same number of tries. But a step may still fail for good with the same number, after a retry of that
  // try was planned.
  const isFinal = done.kind === "step.failed";
  if (known?.kind === "tries" && (isFinal ? known.tries > tries : known.tries >= tries))
    return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
  if (done.kind === "step.failed")
    step.emit({ kind: "task.step.failed", ...at, name, tries, error, ...order });
  else {
    const until = step.now + Math.min(done.forMs, DURATION_MAX_MS);
    step.emit({ kind: "task.step.retrying", ...at, name, tries, until, error });
  }
  return { kind: "applied", seq: execution.seq, verdicts: ["accepted"] };
}

/**
 * Journals the times that the code of a task has read, and the failures after which it has gone on, unless they are journaled
 * already.
 */
function codeNoted(
  step: Step,
  at: Place & { readonly task: number; readonly attempt: number },
  progress: TaskProgress | undefined,
  { times = {}, failures = [] }: CodeNotes,
): Answer {
  const fresh = Object.entries(times).filter(([name]) => progress?.times.has(name) !== true);
  const passed = failures.filter((name) => {
    const failed = progress?.named.get(name);
    return failed?.kind === "step" && failed.failed === true && failed.passed !== true;
  });
  if (fresh.length === 0 && passed.length === 0)
    return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
  if ((progress?.size ?? 0) + fresh.length > CHECKPOINTS_MAX)
    return {
      kind: "ignored",
      why: `a task may have at most ${CHECKPOINTS_MAX} steps, sleeps, waits and noted times`,
      verdicts: ["stale"],
    };
  step.emit({
    kind: "task.noted",
    ...at,
    ...(fresh.length === 0 ? {} : { times: Object.fromEntries(fresh) }),
    ...(passed.length === 0 ? {} : { failures: passed }),
  });
  return { kind: "applied", seq: step.execution.seq, verdicts: ["accepted"] };
}

/** Ends an attempt that cannot go on, as if the attempt had failed with this error. */
function failAttempt(
  step: Step,
  handler: HandlerState,
  { task, attempt }: { readonly task: number; readonly attempt: number },
  { fatal, ...error }: AskedInVain,
): void {
  const recorder = new BulkRecorder(step, handler);
  const fails = handler.tasks.fails(task) + 1;
  const payload = JSON.stringify(error);
  const over = fatal === true ? "fatal" : fails >= handler.plan.attempts ? "attempts" : null;
  if (over !== null)
    recorder.settle({ task, attempt, status: "failed", reason: over, worker: ENGINE, ms: 0, payload });
  else {
    const id = `${step.execution.id}/${handler.plan.name}/${task}/${attempt}`;
    const delay = delayMs(handler.plan, fails, { id, retryAfterMs: undefined });
    recorder.retry({ task, attempt, reason: "failed", until: step.now + delay, error: payload });
  }
  recorder.flush();
  advance(step);
}

/**
 * Starts the waits of a suspended task. Each wait takes a signal that arrived before, or sets its timer. A wait that was already open
 * has its timer.
 */
export function armTask(step: Step, handler: HandlerState, task: number, asked: readonly TaskWait[]): void {
  for (const { name, timeoutMs } of asked) {
    const wait = handler.progress.tasks.get(task)?.waits.find((one) => one.name === name);
    if (wait === undefined || wait.signals.length === 0) continue;
    const timer = timerOf(step, handler, task, wait);
    if (giveSignal(step, handler, { task, wait })) continue;
    if (
      /* @plant time limit of a wait forgotten */ timeoutMs === undefined ||
      step.execution.timers.has(timer)
    )
      continue;
    const due = step.now + Math.min(timeoutMs, DURATION_MAX_MS);
    step.emit({ kind: "timer.set", timer, purpose: "task", due });
  }
}

/** Gives the oldest kept signal that matches to a wait. Returns false if there is none. */
export function giveSignal(
  step: Step,
  handler: HandlerState,
  { task, wait }: { readonly task: number; readonly wait: Waiting },
): boolean {
  const kept = oldestFor(step.execution, wait);
  if (kept === null) return false;
  const { signal, id } = kept;
  clearTimer(step, timerOf(step, handler, task, wait));
  const isChosen = wait.any === true || wait.match !== undefined || isUpdate(signal);
  answerWait(
    step,
    handler,
    { task, wait },
    {
      result: resultOf(wait, kept),
      error: null,
      reason: "signalled",
      ...(isChosen ? { takes: { signal, id } } : {}),
    },
  );
  return true;
}

/** Returns the result of a wait that takes this signal. For an update, the result has its id, by which the code answers it. */
function resultOf(wait: Waiting, { signal, id, data }: { signal: string; id: string; data: string }): string {
  if (wait.any === true) return `{"name":${JSON.stringify(signal)},"value":${data}}`;
  return isUpdate(signal) ? `{"id":${JSON.stringify(id)},"data":${data}}` : data;
}

/** Returns the oldest kept signal that a wait takes; null if there is none. */
function oldestFor(
  { signals, applied }: Execution,
  wait: Waiting,
): { signal: string; id: string; data: string } | null {
  let oldest: { signal: string; id: string; data: string } | null = null;
  for (const signal of wait.signals) {
    const kept = signals
      .get(signal)
      ?.find(({ data }) => wait.match === undefined || matchesPayload(data, wait.match));
    if (kept === undefined) continue;
    if (oldest === null || (applied.get(kept.id) ?? 0) < (applied.get(oldest.id) ?? 0))
      oldest = { signal, ...kept };
  }
  return oldest;
}

/**
 * Called when the time of a wait inside a task is over: answers the wait with a signal that arrived while its task ran, or else with
 * a timeout.
 */
export function waitOutOfTime(
  step: Step,
  handler: HandlerState,
  { task, wait: name }: { readonly task: number; readonly wait: string | undefined },
): void {
  const waits = handler.progress.tasks.get(task)?.waits ?? [];
  const wait = waits.find((one) => (name === undefined ? one.alone === true : one.name === name));
  // While the visit drains, the wait takes no signal: in the next round, tasks that have waited longer must get signals first.
  if (wait === undefined || (!step.execution.draining && giveSignal(step, handler, { task, wait }))) return;
  const error = waitTimeout(wait.signals.map((signal) => shownSignal(signal).name).join('" or "'));
  answerWait(step, handler, { task, wait }, { result: null, error, reason: "timer" });
}

function answerWait(
  step: Step,
  handler: HandlerState,
  { task, wait }: { readonly task: number; readonly wait: Waiting },
  answer: Pick<TaskStep, "result" | "error" | "takes"> & { readonly reason: "signalled" | "timer" },
): void {
  const progress = handler.progress.tasks.get(task);
  if (progress === undefined) return;
  step.emit({
    kind: "task.step",
    ...step.execution.currentVisit().place(handler.plan.name),
    task,
    attempt: progress.attempt,
    name: wait.name,
    ...answer,
  });
}
