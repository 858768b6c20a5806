/** Applies events about checkpoints to the state: steps, sleeps, waits, notes and runs of tasks. */
import { assert } from "../../std/assert.ts";
import { byteLength } from "../../std/json.ts";
import type {
  Place,
  TaskNoted,
  TaskRun,
  TaskStep,
  TaskStepFailed,
  TaskStepRetrying,
  TasksWaiting,
  TaskWaiting,
} from "../event.ts";
import type { Execution, HandlerState } from "../execution.ts";
import { isUpdate } from "../updates.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { NEVER } from "./task-table.ts";

export function tasksWaiting(execution: Execution, event: TasksWaiting): void {
  const handler = at(execution, event);
  const { round } = execution.currentVisit();
  for (let i = 0; i < event.tasks.length; i++) {
    const task = event.tasks[i] as number;
    const attempt = event.attempts[i] as number;
    const name = event.names[i] as string;
    const signal = event.signals[i] ?? null;
    const due = signal === null ? (event.dues[i] as number) : null;
    const by = { task, attempt, round };
    noteSleepsOver(execution, handler, { task, waits: [{ name }] });
    if (due !== null) handler.progress.note(by, { kind: "sleep", name, due });
    handler.progress.wait(by, [{ name, due, signals: signal === null ? [] : [signal], alone: true }]);
    handler.notices.delete(task);
    handler.tasks.endAttempt(task, attempt, {
      // @plant suspended task uses up an attempt
      burns: "nothing",
      // @plant sleep does not wait
      until: due ?? NEVER,
    });
  }
}

/** Suspends a task with several waits. If one of them was answered while the attempt ran, the task continues at once. */
export function taskWaiting(execution: Execution, { task, attempt, waits, ...place }: TaskWaiting): void {
  const handler = at(execution, place);
  const { progress, tasks } = handler;
  const by = { task, attempt, round: execution.currentVisit().round };
  noteSleepsOver(execution, handler, { task, waits });
  // The attempt has waited for these answers, so its code does not know them.
  const known = progress.tasks.get(task);
  known?.postpone(known.answeredMeanwhile.filter((name) => waits.some((wait) => wait.name === name)));
  const answered = (name: string): boolean => progress.tasks.get(task)?.named.get(name)?.kind === "step";
  const open = waits.filter(({ name }) => !answered(name));
  for (const { name, due, retry } of open)
    if (due !== undefined && retry !== true) progress.note(by, { kind: "sleep", name, due });
  progress.wait(
    by,
    open.map(({ due = null, retry: _, signals = [], ...wait }) => ({ ...wait, due, signals })),
  );
  handler.notices.delete(task);
  const until = progress.tasks.get(task)?.due ?? NEVER;
  tasks.endAttempt(task, attempt, { burns: "nothing", until });
  if (open.length === waits.length) return;
  progress.resume(task);
  tasks.release(task, execution.now);
}

export function taskStep(execution: Execution, event: TaskStep): void {
  const handler = at(execution, event);
  const { task, attempt } = event;
  const { round } = execution.currentVisit();
  noteSleepsOver(execution, handler, { task });
  const before = handler.progress.tasks.get(task);
  const isSuspended = before?.isSuspended === true;
  const isWaiting = before?.isWaiting(execution.now) === true;
  const wait = handler.progress.answer(task, event.name);
  handler.progress.note({ task, attempt, round }, stepDone(event, execution.seq));
  if (event.reason === "done") postpone(handler, event);
  else if (!isWaiting) handler.progress.answerMeanwhile(task, event.name);
  // @plant answered update counts as unanswered
  if (event.answers !== undefined) execution.unanswered.delete(event.answers);
  if (event.reason === "done") return;
  // While an attempt runs, the answer is only recorded as a checkpoint, which the attempt finds when it suspends the task. A child
  // may also end while its task waits for something else; then the task stays suspended.
  if (isSuspended && wait !== undefined) handler.tasks.release(task, execution.now);
  if (event.reason !== "signalled") return;
  const { signal = wait?.signals[0], id } = event.takes ?? {};
  // @plant signal taken twice
  if (signal !== undefined) consumeSignal(execution, signal, id);
  if (signal !== undefined && id !== undefined && isUpdate(signal)) execution.unanswered.set(id, signal);
}

export function taskStepFailed(execution: Execution, event: TaskStepRetrying | TaskStepFailed): void {
  const handler = at(execution, event);
  const { task, attempt, name } = event;
  const by = { task, attempt, round: execution.currentVisit().round };
  noteSleepsOver(execution, handler, { task });
  if (event.kind === "task.step.retrying")
    // @plant tries of a step forgotten
    handler.progress.note(by, { kind: "tries", name, tries: event.tries, due: event.until });
  else {
    handler.progress.answer(task, name);
    handler.progress.note(by, { kind: "step", name, seq: execution.seq, failed: true });
    postpone(handler, event);
  }
}

/** Puts the answers that the code of an attempt did not know after the step that this attempt has ended. */
function postpone({ progress }: HandlerState, { task, unseen = [] }: TaskStep | TaskStepFailed): void {
  progress.tasks.get(task)?.postpone(unseen);
}

/**
 * Marks the sleeps of a task that are over. So later attempts know too that these sleeps ended before the next checkpoint. If the task
 * is suspended with new waits, the sleeps among them are not over for its code.
 */
function noteSleepsOver(
  { now }: Execution,
  { progress }: HandlerState,
  { task, waits = [] }: { readonly task: number; readonly waits?: readonly { readonly name: string }[] },
): void {
  const known = progress.tasks.get(task);
  if (known === undefined || (known.waits.length === 0 && !known.hasLooseSleeps)) return;
  known.endSleeps(
    now,
    waits.map(({ name }) => name),
  );
}

export function taskNoted(execution: Execution, event: TaskNoted): void {
  const { task, attempt, times = {}, failures = [] } = event;
  const { progress } = at(execution, event);
  const by = { task, attempt, round: execution.currentVisit().round };
  // @plant times that code has read are forgotten
  progress.noteTimes(by, times);
  progress.notePassed(by, failures);
}

export function taskRun(execution: Execution, event: TaskRun): void {
  const { task, attempt, index, name } = event;
  const { round } = execution.currentVisit();
  const handler = at(execution, event);
  handler.progress.noteRun({ task, attempt, round }, { index, name, seq: execution.seq });
  const notices = handler.notices.get(task);
  if (notices !== undefined) handler.notices.set(task, { ...notices, run: null });
}

function stepDone(
  { name, error, reason, map }: TaskStep,
  seq: number,
): Extract<Checkpoint, { kind: "step" }> {
  if (error === null) return { kind: "step", name, seq, ...(map === undefined ? {} : { map }) };
  return reason === "child"
    ? { kind: "step", name, seq, failed: true }
    : { kind: "step", name, seq, timedOut: true };
}

/** Removes the signal that a wait takes: the signal with this id, or else the oldest one of its name. */
export function consumeSignal(execution: Execution, name: string, id?: string): void {
  const queue = execution.signals.get(name);
  const at = id === undefined ? 0 : (queue?.findIndex((kept) => kept.id === id) ?? -1);
  if (at > 0) queue?.unshift(...queue.splice(at, 1));
  // @plant newest signal first
  const taken = queue?.shift();
  assert(
    queue !== undefined && taken !== undefined,
    "a wait that a signal answered must consume a kept signal",
  );
  if (queue.length === 0) execution.signals.delete(name);
  execution.signalCount--;
  execution.signalBytes -= byteLength(taken.data);
}

function at(execution: Execution, place: Place): HandlerState {
  const handler = execution.handlerAt(place);
  assert(
    handler !== undefined,
    `the event must name a handler of the current visit (${place.phase}/${place.handler})`,
  );
  return handler;
}
