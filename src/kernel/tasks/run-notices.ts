/**
 * Notices about open attempts: that a worker accepted an attempt, and which run of a script is open. They change no outcome. When an
 * attempt ends, none of its runs stays open: a run without an end counts as crashed.
 */
import { isRejection } from "../../std/rejection.ts";
import type { TaskRunCrashed, TaskRunStarted } from "../event.ts";
import type { HandlerState } from "../execution.ts";
import type { AcceptedMessage, Answer, CheckpointMessage, RunNotice } from "../message.ts";
import type { Step } from "../step.ts";
import { placeRun } from "./script-runs.ts";

/** The notices about the open attempt of a task. */
export interface Notices {
  readonly attempt: number;
  /** The worker that accepted the attempt; null if none has reported that. */
  readonly worker: string | null;
  /** The run that began or crashed last; null if there is none, or if that run is finished. */
  readonly run: { readonly name: string; readonly index: number; readonly isOpen: boolean } | null;
}

/** Records that workers have accepted attempts at open tasks, once for each attempt. */
export function attemptsAccepted(step: Step, message: AcceptedMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  const visit = execution.current;
  if (handler === undefined || visit === null || handler.finished || visit.round !== message.round)
    return { kind: "ignored", why: "the phase is over" };
  const fresh = message.attempts.filter(({ task, attempt, worker }) => {
    const known = handler.notices.get(task);
    const isKnown = known?.attempt === attempt && (known.worker ?? worker) === worker;
    return (
      !isKnown && task < handler.offered && !handler.isClosed(task) && attempt > handler.tasks.ended(task)
    );
  });
  if (fresh.length === 0) return { kind: "ignored", why: "nothing to record" };
  step.emit({
    kind: "tasks.accepted",
    ...visit.place(message.handler),
    tasks: fresh.map(({ task }) => task),
    attempts: fresh.map(({ attempt }) => attempt),
    workers: fresh.map(({ worker }) => worker),
  });
  return { kind: "applied", seq: execution.seq };
}

/** Records once that the next run of an attempt began or crashed, if the attempt holds its lease. */
export function runNotice(
  step: Step,
  handler: HandlerState,
  message: CheckpointMessage,
  notice: RunNotice,
): Answer {
  const { task, attempt } = message;
  const place = placeRun(handler, message, notice);
  if (isRejection(place)) return { kind: "ignored", why: place.message, verdicts: [place] };
  const { index, isRepeat } = place;
  const known = handler.notices.get(task);
  const run = known?.attempt === attempt ? known.run : null;
  // A run that crashed may begin again, so the notice is a repeat only if the run is in the same state.
  const isKnown = run?.index === index && run.isOpen === (notice.kind === "run.started");
  if (isRepeat || isKnown) return { kind: "ignored", why: "it is journaled", verdicts: ["duplicate"] };
  const at = { ...step.execution.currentVisit().place(handler.plan.name), task, attempt };
  const { name } = notice;
  if (notice.kind === "run.started") step.emit({ kind: "task.run.started", ...at, name, index });
  else {
    const { message: text, stats } = notice;
    step.emit({ kind: "task.run.crashed", ...at, name, index, reason: "crashed", message: text, stats });
  }
  return { kind: "applied", seq: step.execution.seq, verdicts: ["accepted"] };
}

/** Records the open run of a task as crashed, because the attempt of the task ends. */
export function closeRun(
  step: Step,
  handler: HandlerState,
  task: number,
  reason: Exclude<TaskRunCrashed["reason"], "crashed">,
): void {
  const { attempt, run } = handler.notices.get(task) ?? NONE;
  if (run?.isOpen !== true) return;
  const at = { ...step.execution.currentVisit().place(handler.plan.name), task, attempt };
  const { name, index } = run;
  step.emit({ kind: "task.run.crashed", ...at, name, index, reason, message: null, stats: null });
}

const NONE: Notices = { attempt: 0, worker: null, run: null };

/** Applies the event that a run began or crashed. */
export function applyRunNotice({ notices }: HandlerState, event: TaskRunStarted | TaskRunCrashed): void {
  const { kind, task, attempt, name, index } = event;
  const known = notices.get(task);
  const worker = known?.attempt === attempt ? known.worker : null;
  notices.set(task, { attempt, worker, run: { name, index, isOpen: kind === "task.run.started" } });
}
