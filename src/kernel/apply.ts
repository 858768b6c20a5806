/**
 * Applies one event of the journal to the state of an execution (the fold). `step` uses it while it decides events, and replay uses
 * it while it reads them, so both come to the same state. It never refuses an event.
 */

import { assert, unreachable } from "../std/assert.ts";
import { byteLength } from "../std/json.ts";
import { TransientMap } from "../std/transient-map.ts";
import { applyMoved } from "./apply-moved.ts";
import { commandReceipted, commandStarted, reopenCommands, settleCommand } from "./command/command-state.ts";
import { applyPostOp, applyPostOpRetried } from "./command/owed-op.ts";
import { NEXT } from "./definition/plan.ts";
import type {
  Continuing,
  EndingEvent,
  Event,
  ExecutionError,
  Finished,
  NewestEvent,
  Recorded,
  TasksAccepted,
  TasksLate,
  TasksLost,
  TasksRetried,
  TasksRetrying,
  TasksSettled,
  TasksStarted,
  TimerEvent,
} from "./event.ts";
import {
  applyCreated,
  type Ending,
  type Execution,
  type FormerEnd,
  HandlerState,
  Visit,
} from "./execution.ts";
import { published } from "./published.ts";
import { applyGate } from "./relay/apply-gate.ts";
import { applyContinued, applyNewest } from "./succession.ts";
import {
  consumeSignal,
  taskNoted,
  taskRun,
  taskStep,
  taskStepFailed,
  tasksWaiting,
  taskWaiting,
} from "./tasks/apply-checkpoints.ts";
import { applyChild } from "./tasks/children.ts";
import { compensatedHandler } from "./tasks/compensation.ts";
import { applyRunNotice } from "./tasks/run-notices.ts";
import { noteError, readError } from "./tasks/stored-error.ts";
import { settleTaskChildren } from "./tasks/task-children.ts";

/** Applies the next event of the journal. */
export function apply(execution: Execution, recorded: Recorded): void {
  assert(recorded.seq === execution.seq + 1, "events must be applied in order");
  execution.seq = recorded.seq;
  execution.now = Math.max(execution.now, recorded.at);
  fold(execution, recorded.event);
}

type EventOf<Kind extends Event["kind"]> = Extract<Event, { readonly kind: Kind }>;
type ControlEvent = EventOf<"paused" | "resumed" | "cancelling">;

function fold(execution: Execution, event: Event): void {
  switch (event.kind) {
    case "created":
      return applyCreated(execution, event);
    case "phase.started":
      return phaseStarted(execution, event.phase, event.visit);
    case "phase.finished":
      return phaseFinished(execution, event);
    case "handler.started":
      return handlerStarted(execution, event.handler);
    case "handler.enumerated":
      return handlerEnumerated(execution, event);
    case "handler.finished":
      return handlerFinished(execution, event);
    case "handler.retrying":
    case "handler.lost":
      return enumerationEnded(execution, event);
    case "tasks.enumerated":
      return at(execution, event).addPage(event, execution.seq);
    case "tasks.accepted":
      return tasksAccepted(execution, event);
    case "tasks.started":
      return tasksStarted(execution, event);
    case "tasks.retrying":
      return tasksRetrying(execution, event);
    case "tasks.settled":
      return tasksSettled(execution, event);
    case "tasks.lost":
      return tasksLost(execution, event);
    case "tasks.late":
      return tasksLate(execution, event);
    case "tasks.retried":
      return tasksRetried(execution, event);
    case "tasks.waiting":
      return tasksWaiting(execution, event);
    case "task.waiting":
      return taskWaiting(execution, event);
    case "task.step":
      return taskStep(execution, event);
    case "task.step.retrying":
    case "task.step.failed":
      return taskStepFailed(execution, event);
    case "task.noted":
      return taskNoted(execution, event);
    case "published":
      return published(execution, event);
    case "task.run":
      return taskRun(execution, event);
    case "task.run.started":
    case "task.run.crashed":
      return applyRunNotice(at(execution, event), event);
    case "child.started":
    case "child.finished":
      return applyChild(execution, at(execution, event), event);
    case "command.receipted":
      return commandReceipted(execution, event);
    case "postop.done":
    case "postop.failed":
      return applyPostOp(execution, event);
    case "postop.retried":
      return applyPostOpRetried(execution, event);
    case "timer.set":
    case "timer.fired":
    case "timer.cleared":
      return timerChanged(execution, event);
    case "gate.taken":
    case "gate.passed":
    case "gate.dropped":
    case "gate.freed":
    case "gate.cancelled":
    case "gate.carried":
      return applyGate(execution, event);
    case "signalled":
      return signalled(execution, event);
    case "paused":
    case "resumed":
    case "cancelling":
      return controlled(execution, event);
    case "moved":
      return applyMoved(execution, event);
    case "retried":
    case "ending":
    case "continuing":
    case "newest":
    case "finished":
      return applyEnd(execution, event);
    default:
      unreachable(event);
  }
}

function at(execution: Execution, place: { phase: string; visit: number; handler: string }): HandlerState {
  const handler = execution.handlerAt(place);
  assert(
    handler !== undefined,
    `the event must name a handler of the current visit (${place.phase}/${place.visit}/${place.handler})`,
  );
  return handler;
}

function phaseStarted(execution: Execution, name: string, visit: number): void {
  const plan = execution.plan.byName.get(name);
  assert(plan !== undefined, `the plan must contain the phase ${name}`);
  const kept = execution.keptVisit(name, visit);
  execution.current =
    kept ??
    new Visit(plan, {
      visit,
      round: execution.round,
      repair: execution.dueRepair,
      firstSeq: execution.seq,
    });
  if (kept !== undefined) reopen(execution, kept);
  execution.visitCounts.set(name, visit);
  execution.due = -1;
  execution.dueRepair = false;
}

function handlerStarted(execution: Execution, name: string): void {
  const visit = execution.currentVisit();
  const plan =
    name === NEXT ? visit.plan.decision : visit.plan.handlers.find((handler) => handler.name === name);
  assert(plan, `the plan must contain the handler ${name}`);
  const handler = new HandlerState(plan);
  handler.total = handler.impliesTask || plan.waits ? 1 : 0;
  if (plan.waits) handler.sealed = true;
  if (plan.compensates) deriveTasks(execution, handler);
  if (plan.command !== null) commandStarted(execution, handler, plan.command);
  visit.handlers.push(handler);
}

/** Gives a compensating handler the tasks of the visit that it compensates. The tasks are not copied, only referred to. */
function deriveTasks(execution: Execution, handler: HandlerState): void {
  const origin = compensatedHandler(execution, handler);
  handler.sealed = true;
  handler.total = origin.total;
  for (const from of origin.pageFrom) handler.pageFrom.push(from);
  for (const seq of origin.pageSeq) handler.pageSeq.push(seq);
  for (let task = 0; task < origin.total; task++)
    if (!origin.tasks.mayHaveBegun(task)) handler.tasks.exemptTask(task);
}

function handlerEnumerated(execution: Execution, event: EventOf<"handler.enumerated">): void {
  const handler = at(execution, event);
  handler.total = event.total;
  handler.sealed = true;
  judge(execution, handler, { task: null, attempt: null, payload: null, fatal: false });
}

function handlerFinished(execution: Execution, event: EventOf<"handler.finished">): void {
  const handler = at(execution, event);
  handler.finished = true;
  handler.cancelled = event.cancelled;
  // If tasks add tasks, the total number of tasks is known only now. So the percentage of failures is checked now.
  if (handler.plan.adds && event.cancelled === 0 && execution.status !== "cancelling")
    judge(execution, handler, { task: null, attempt: null, payload: null, fatal: false });
  if (handler.plan.isCompensated) handler.tasks.endStarts();
  else handler.tasks.forgetStarts();
  handler.notices = new TransientMap();
}

function phaseFinished(execution: Execution, event: EventOf<"phase.finished">): void {
  const visit = execution.currentVisit();
  visit.status = event.status;
  visit.lastSeq = execution.seq;
  const handlers = visit.handlers.map((handler) => ({
    name: handler.plan.name,
    total: handler.total - handler.tasks.exempt,
    sealed: handler.sealed,
    done: handler.tasks.done,
    failed: handler.tasks.failed.size,
    cancelled: handler.cancelled,
    value: handler.value,
  }));
  const summary = {
    phase: event.phase,
    visit: event.visit,
    status: event.status,
    firstSeq: visit.firstSeq,
    lastSeq: visit.lastSeq,
    handlers,
  };
  const known = execution.visited.findIndex(
    (other) => other.phase === event.phase && other.visit === event.visit,
  );
  if (known >= 0) execution.visited[known] = summary;
  else execution.visited.push(summary);
  keepVisit(execution, visit);
  if (execution.formerEnd?.back === null) execution.formerEnd = null;
  if (event.next === null) return;
  execution.due = execution.plan.byName.get(event.next)?.index ?? -1;
  const isRepaired = event.status === "failed" && !visit.isRetried;
  execution.dueRepair = isRepaired;
  if (isRepaired) {
    execution.origin = visit;
    execution.error ??= visit.failing;
  }
}

/** Keeps a visit in the state if its tasks may be compensated, or may be retried because some are not done. */
function keepVisit(execution: Execution, visit: Visit): void {
  const isCompensated = visit.handlers.some(({ plan }) => plan.isCompensated);
  if (isCompensated || visit.status !== "done" || visit.hasFailures) execution.kept.push(visit);
}

/** Applies the end of an enumeration attempt after which the enumeration is not complete. */
function enumerationEnded(
  execution: Execution,
  event: EventOf<"handler.retrying"> | EventOf<"handler.lost">,
): void {
  const handler = at(execution, event);
  const { enumeration } = handler;
  enumeration.ended = Math.max(enumeration.ended, event.attempt);
  if (handler.total === 1 && !handler.paged) handler.total = 0;
  if (event.kind === "handler.lost") {
    enumeration.crashes++;
    return;
  }
  if (event.reason === "crashed") enumeration.crashes++;
  else if (event.reason !== "released") enumeration.fails++;
  enumeration.until = event.until ?? 0;
  noteError(handler, event.reason, event.error);
  if (event.until !== null) return;
  enumeration.failed = true;
  // In a clean-up, a failure does not stop the other handlers and tasks.
  if (execution.ending !== null) return;
  const visit = execution.currentVisit();
  const error = readError(event.error);
  visit.failing ??= {
    code: error.code ?? "enumeration_failed",
    message: error.message,
    phase: event.phase,
    handler: event.handler,
    attempt: event.attempt,
    ...(event.fatal === true ? { fatal: true } : {}),
    ...(error.cause === undefined ? {} : { cause: error.cause }),
  };
}

function tasksAccepted(execution: Execution, event: TasksAccepted): void {
  const { notices } = at(execution, event);
  event.tasks.forEach((task, i) =>
    notices.set(task, {
      attempt: event.attempts[i] as number,
      worker: event.workers[i] as string,
      run: null,
    }),
  );
}

function tasksStarted(execution: Execution, event: TasksStarted): void {
  const { tasks } = at(execution, event);
  event.tasks.forEach((task, i) =>
    tasks.recordStart(task, {
      attempt: event.attempts[i] as number,
      worker: event.workers[i] as string,
      epoch: event.epoch,
    }),
  );
}

function tasksRetrying(execution: Execution, event: TasksRetrying): void {
  const handler = at(execution, event);
  noteError(handler, event.reasons.at(-1), event.errors.at(-1));
  event.tasks.forEach((task, i) => {
    const reason = event.reasons[i];
    const burns = reason === "released" ? "nothing" : reason === "crashed" ? "crash" : "attempt";
    handler.notices.delete(task);
    handler.tasks.endAttempt(task, event.attempts[i] as number, { burns, until: event.untils[i] as number });
  });
}

function tasksLost(execution: Execution, event: TasksLost): void {
  const { tasks, notices } = at(execution, event);
  event.tasks.forEach((task, i) => {
    const attempt = event.attempts[i] as number;
    notices.delete(task);
    tasks.endAttempt(task, attempt, { burns: "crash", until: execution.now });
    tasks.noteLost(task, attempt);
  });
}

/** Applies a receipt that arrived after its visit had ended. The state changes only if the visit is still kept. */
function tasksLate(execution: Execution, event: TasksLate): void {
  // Each of these fields may refer to the visit. After a snapshot is read they are separate copies, so all of them are changed.
  const { current, origin, formerEnd } = execution;
  const kept = execution.keptVisit(event.phase, event.visit);
  for (const visit of [current, origin, formerEnd?.back?.visit, kept]) {
    if (visit?.plan.name !== event.phase || visit.visit !== event.visit) continue;
    const tasks = visit.handler(event.handler)?.tasks;
    event.tasks.forEach((task, i) => tasks?.forgetLost(task, event.attempts[i] as number));
  }
}

function tasksSettled(execution: Execution, event: TasksSettled): void {
  const handler = at(execution, event);
  const { tasks } = handler;
  for (let i = 0; i < event.tasks.length; i++) {
    const task = event.tasks[i] as number;
    const attempt = event.attempts[i] as number;
    const status = event.statuses[i] as TasksSettled["statuses"][number];
    tasks.settle(task, attempt, status);
    handler.notices.delete(task);
    if (handler.plan.command !== null)
      settleCommand(execution, handler, { task, status, payload: event.payloads[i] as string });
    if (status === "failed" || handler.plan.isCompensated) tasks.noteResult(task, execution.seq);
    if (handler.dependencies !== null) {
      if (status === "done") handler.dependencies.done(task, tasks, execution.now);
      else handler.dependencies.failed(task);
    }
    if (status === "done") handler.progress.forget(task);
    else handler.progress.settle(task, event.payloads[i] as string);
    if (handler.taskChildren.size > 0) settleTaskChildren(handler, task);
    if (handler.plan.mode === "waitFor" && status === "done") handler.value = event.payloads[i] as string;
    if (handler.plan.work !== "process" || (handler.plan.isOutput && status === "done"))
      execution.currentVisit().answer = event.payloads[i] as string;
    if (event.reasons[i] === "signalled") consumeSignal(execution, handler.plan.definition.waitFor as string);
    if (status === "failed")
      judge(execution, handler, {
        task,
        attempt: attempt === 0 ? null : attempt,
        payload: event.payloads[i] as string,
        fatal: event.reasons[i] === "fatal",
      });
  }
}

/** Marks the visit as failing once the failures of a handler exceed its tolerance. The mark is never removed. */
function judge(
  execution: Execution,
  handler: HandlerState,
  cause: { task: number | null; attempt: number | null; payload: string | null; fatal: boolean },
): void {
  const visit = execution.currentVisit();
  const failures = handler.tasks.failed.size;
  // If a clean-up task fails, the other tasks continue.
  // @plant failed clean-up stops the others
  if (execution.ending !== null) return;
  if (visit.failing !== null || failures === 0) return;
  if (!handler.exceedsTolerance) return;
  const error = readError(cause.payload);
  const failing: ExecutionError = {
    code: error.code ?? "task_failed",
    message: cause.payload === null ? `${failures} of ${handler.total} tasks failed` : error.message,
    phase: visit.plan.name,
    handler: handler.plan.name,
    ...(cause.task === null ? {} : { task: cause.task }),
    ...(cause.attempt === null ? {} : { attempt: cause.attempt }),
    ...(cause.fatal ? { fatal: true } : {}),
    ...(error.cause === undefined ? {} : { cause: error.cause }),
  };
  // In a round of chosen tasks, all of them run even if one fails. The result is decided at the end of the round.
  if (!execution.isChosenRound) visit.failing = failing;
  else if (execution.formerEnd !== null) execution.formerEnd.failure ??= failing;
}

function timerChanged(execution: Execution, { kind, timer, purpose, due }: TimerEvent): void {
  if (kind === "timer.set") {
    execution.timers.set(timer, { purpose, due });
    return;
  }
  execution.timers.delete(timer);
  // The start time is deleted only when its timer fires. If a cancel cleared the timer, the start time still applies after a retry.
  if (purpose === "start" && kind === "timer.fired") execution.startAt = null;
}

function signalled(execution: Execution, event: EventOf<"signalled">): void {
  execution.applied.set(event.id, execution.seq);
  const queue = execution.signals.get(event.signal) ?? [];
  queue.push({ id: event.id, data: event.data });
  execution.signals.set(event.signal, queue);
  execution.signalCount++;
  execution.signalBytes += byteLength(event.data);
}

function controlled(execution: Execution, event: ControlEvent): void {
  if (event.kind === "paused") paused(execution, event);
  else if (event.kind === "resumed") resumed(execution, event);
  else cancelling(execution, event);
}

function paused(execution: Execution, { id, by, reason }: ControlEvent): void {
  execution.applied.set(id, execution.seq);
  execution.paused = { by, reason, at: execution.now };
  if (execution.status === "running") execution.status = "paused";
}

function resumed(execution: Execution, { id }: ControlEvent): void {
  execution.applied.set(id, execution.seq);
  execution.paused = null;
  if (execution.status === "paused") execution.status = "running";
}

function cancelling(execution: Execution, { id, by, reason, force }: ControlEvent): void {
  execution.applied.set(id, execution.seq);
  const first = execution.status === "cancelling" ? execution.cancelling : null;
  execution.cancelling = { ...(first ?? { by, reason }), ...(force === true ? { force } : {}) };
  execution.paused = null;
  execution.status = "cancelling";
}

function continuing(execution: Execution, { input, cancel }: Continuing): void {
  execution.continuing = input;
  if (cancel === undefined) return;
  execution.applied.set(cancel.id, execution.seq);
  execution.nextCancelled = cancel;
}

/** Applies the end of the execution's work: no further phase of the work starts. */
function ending(execution: Execution, { status, output, error }: EndingEvent): void {
  execution.ending = { status, output, error, seq: execution.seq };
  execution.due = -1;
  execution.dueRepair = false;
  execution.formerEnd = null;
  if (execution.status === "cancelling") execution.status = "running";
}

/** Applies a retry of an execution whose clean-up has begun. Visits of the clean-up are reopened when they start again. */
function retriedCleanup(execution: Execution, { seq }: Ending): void {
  execution.redoneFrom = seq;
  execution.undeliveredAtRetry = [...execution.undelivered.values()];
}

function retried(execution: Execution, event: EventOf<"retried">): void {
  execution.applied.set(event.id, execution.seq);
  execution.round = event.round;
  execution.status = "running";
  execution.error = null;
  execution.output = null;
  execution.finishedAt = null;
  execution.cancelling = null;
  if (execution.ending !== null) return retriedCleanup(execution, execution.ending);
  const { origin } = execution;
  const visit =
    origin !== null && origin.plan.name === event.phase && origin.visit === event.visit
      ? origin
      : execution.current;
  execution.current = visit;
  execution.origin = null;
  if (origin !== null && visit === origin) execution.due = -1;
  const isReopened = visit !== null && (visit.status !== "done" || execution.due < 0);
  execution.redoneFrom = isReopened ? visit.firstSeq : execution.seq;
  execution.undeliveredAtRetry = [...execution.undelivered.values()];
  if (!isReopened) return;
  // Tasks that failed in later visits are no longer dead letters, because that work is done again.
  for (const { firstSeq, handlers } of execution.kept)
    if (firstSeq > visit.firstSeq) for (const { tasks } of handlers) tasks.forgetFailures();
  reopen(execution, visit);
}

/** Makes tasks pending again. If the execution has ended, a new round of their visit begins, with these tasks only. */
function tasksRetried(execution: Execution, event: TasksRetried): void {
  execution.applied.set(event.id, execution.seq);
  const visit = execution.visitAt(event);
  const handler = visit?.handler(event.handler);
  assert(
    visit !== undefined && handler !== undefined,
    "the state must contain the visit of a task that is retried",
  );
  const { tasks, skipped } = execution.retriedTasks.get(event.id) ?? {
    tasks: 0,
    skipped: execution.phasesSkippedBy(visit),
  };
  execution.retriedTasks.set(event.id, { tasks: tasks + event.tasks.length, skipped });
  execution.undeliveredAtRetry = [...execution.undelivered.values()];
  if (execution.ended) openChosenRound(execution, visit, event.round);
  handler.finished = false;
  for (const task of event.tasks) {
    handler.tasks.retry(task, execution.now);
    handler.progress.reopenTask(task);
  }
  handler.cancelled = handler.tasks.leftOut.size;
  // @plant retried tasks do not wait for their dependencies
  handler.dependencies?.restore(handler.tasks, handler.total);
  if (handler.plan.command !== null) reopenCommands(execution, visit, handler, new Set(event.tasks));
}

/** Begins a new round of a visit after the execution has ended. No task is pending yet. */
function openChosenRound(execution: Execution, visit: Visit, round: number): void {
  forgetKept(execution, visit);
  if (execution.status === "done") {
    visit.isRetried = true;
    // If this visit did not give the output, the execution keeps the output of its last phase, which does not run again.
    if (execution.plan.returnsLast && !visit.isOutput) visit.answer = execution.output;
  } else execution.formerEnd = formerEnd(execution, visit);
  execution.round = round;
  execution.status = "running";
  execution.output = null;
  execution.error = null;
  execution.finishedAt = null;
  execution.cancelling = null;
  execution.current = visit;
  execution.origin = null;
  execution.due = -1;
  execution.dueRepair = false;
  beginRound(visit, round, true);
  for (const handler of visit.handlers) {
    // @plant chosen retry runs other tasks
    handler.tasks.leaveOutOpen(handler.total);
    handler.dependencies?.restore(handler.tasks, handler.total);
    for (const task of handler.progress.tasks.keys()) handler.progress.stopWaiting(task);
    if (!handler.sealed && !handler.impliesTask) handler.enumeration.failed = true;
  }
}

/** Returns how the execution ended, and from where a retry of the whole execution would continue after a round of this visit. */
function formerEnd(execution: Execution, visit: Visit): FormerEnd {
  const { error, due, dueRepair, visitToReopen: reopened, origin } = execution;
  const status = execution.status as FormerEnd["status"];
  const isOrigin = reopened !== null && reopened === origin;
  const isReopened = reopened !== null && (reopened.status !== "done" || due < 0 || isOrigin);
  const isSame = reopened?.plan.name === visit.plan.name && reopened.visit === visit.visit;
  const goesOn = isReopened && isSame;
  const back = { visit: reopened, due: isOrigin ? -1 : due, dueRepair: isOrigin ? false : dueRepair };
  return { status, error, failure: null, back: goesOn ? null : back };
}

function forgetKept(execution: Execution, visit: Visit): void {
  const kept = execution.keptVisit(visit.plan.name, visit.visit);
  execution.kept = execution.kept.filter((other) => other !== kept);
}

function beginRound(visit: Visit, round: number, isChosenRound: boolean): void {
  visit.round = round;
  visit.isChosenRound = isChosenRound;
  visit.status = "running";
  visit.failing = null;
  visit.stopping = null;
}

/** Begins another round of a visit. Every task that is not done becomes pending again. */
function reopen(execution: Execution, visit: Visit): void {
  forgetKept(execution, visit);
  beginRound(visit, execution.round, false);
  for (const handler of visit.handlers) {
    handler.tasks.reopen(handler.total);
    handler.dependencies?.restore(handler.tasks, handler.total);
    handler.progress.reopen();
    handler.cancelled = 0;
    handler.finished = false;
    Object.assign(handler.enumeration, { fails: 0, crashes: 0, until: 0, failed: false });
    if (handler.plan.command !== null) reopenCommands(execution, visit, handler);
  }
}

/** Applies an event about the end of the execution, its retry, or the execution that continues it under the same id. */
function applyEnd(
  execution: Execution,
  event: EventOf<"retried"> | EndingEvent | Continuing | NewestEvent | Finished,
): void {
  switch (event.kind) {
    case "retried":
      return retried(execution, event);
    case "ending":
      return ending(execution, event);
    case "continuing":
      return continuing(execution, event);
    case "newest":
      return applyNewest(execution, event);
    case "finished":
      return finished(execution, event);
  }
}

function finished(execution: Execution, { status, output, error, continuedAs }: Finished): void {
  execution.status = status;
  execution.output = output;
  execution.error = error;
  execution.finishedAt = execution.now;
  execution.paused = null;
  const back = execution.formerEnd?.back ?? null;
  if (back !== null) {
    execution.current = back.visit;
    execution.due = back.due;
    execution.dueRepair = back.dueRepair;
  }
  execution.formerEnd = null;
  if (status === "done") execution.due = -1;
  if (continuedAs !== undefined) applyContinued(execution, continuedAs);
}
