/**
 * Checkpoints inside a task: its finished steps and runs, and the wait of a suspended task. The answer to a wait (a
 * signal, or a timeout) is journaled as a step, so that later attempts find it.
 */
import { DURATION_MAX_MS } from "../../std/duration.ts";
import { isRejection } from "../../std/rejection.ts";
import type { HandlerState } from "../execution.ts";
import type { Answer, CheckpointMessage } from "../message.ts";
import type { Step } from "../step.ts";
import { clearTimer, taskTimerId, waitTimeout } from "../timers.ts";
import { CHECKPOINTS_MAX } from "./checkpoint.ts";
import { runNotice } from "./run-notices.ts";
import { placeRun } from "./script-runs.ts";

/** Journals a finished step or run of a live attempt, or a notice about a run, once. */
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
  // The report is stale even if the step is journaled: an attempt without its lease must not go on with a value of its own.
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
  const known = progress?.checkpoints ?? [];
  if (known.some(({ kind, name }) => kind === "step" && name === done.name))
    return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
  if (known.length >= CHECKPOINTS_MAX)
    return { kind: "ignored", why: `a task has at most ${CHECKPOINTS_MAX} steps`, verdicts: ["stale"] };
  step.emit({
    kind: "task.step",
    ...at,
    name: done.name,
    result: done.result,
    error: null,
    reason: "done",
  });
  return { kind: "applied", seq: execution.seq, verdicts: ["accepted"] };
}

/** Starts the wait of a suspended task: takes a signal that arrived before, or sets the timer of the wait. */
export function armTask(
  step: Step,
  handler: HandlerState,
  task: number,
  timeoutMs: number | undefined,
): void {
  const signal = handler.progress.tasks.get(task)?.waiting?.signal ?? null;
  const timer = taskTimerId(step, handler, task);
  if (signal === null || step.execution.timers.has(timer)) return;
  if (
    giveSignal(step, handler, task, signal) ||
    /* @plant time limit of a wait forgotten */ timeoutMs === undefined
  )
    return;
  step.emit({
    kind: "timer.set",
    timer,
    purpose: "task",
    due: step.now + Math.min(timeoutMs, DURATION_MAX_MS),
  });
}

/** Passes the oldest kept signal to a task that waits for it; false if there is none. */
export function giveSignal(step: Step, handler: HandlerState, task: number, signal: string): boolean {
  const kept = step.execution.signals.get(signal)?.[0];
  if (kept === undefined) return false;
  clearTimer(step, taskTimerId(step, handler, task));
  answerWait(step, handler, task, { result: kept.data, error: null, reason: "signalled" });
  return true;
}

/** Answers a wait inside a task with its timeout. */
export function waitOutOfTime(step: Step, handler: HandlerState, task: number): void {
  const waiting = handler.progress.tasks.get(task)?.waiting;
  if (waiting === undefined || waiting === null) return;
  answerWait(step, handler, task, { result: null, error: waitTimeout(waiting.signal), reason: "timer" });
}

function answerWait(
  step: Step,
  handler: HandlerState,
  task: number,
  answer: { result: string | null; error: string | null; reason: "signalled" | "timer" },
): void {
  const progress = handler.progress.tasks.get(task);
  if (progress === undefined || progress.waiting === null) return;
  step.emit({
    kind: "task.step",
    ...step.execution.currentVisit().place(handler.plan.name),
    task,
    attempt: progress.attempt,
    name: progress.waiting.name,
    ...answer,
  });
}
