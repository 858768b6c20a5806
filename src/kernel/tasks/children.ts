/**
 * Children: tasks that are executions of another workflow. A child's id is derived from its place, so a repeated start creates only
 * one child. The parent sends start, pause, resume, cancel and retry, and the child sends its end. Each message is stored by the
 * sender's commit and deleted by the receiver's commit.
 */
import { advance } from "../advance.ts";
import type { ChildEvent, ExecutionError } from "../event.ts";
import type { Execution, HandlerState } from "../execution.ts";
import type { Answer, ChildMessage, ChildrenMessage } from "../message.ts";
import type { Step } from "../step.ts";
import { clearTimer, taskTimerId } from "../timer-ids.ts";
import { ENGINE } from "../timers.ts";
import { BulkRecorder, settleOne } from "./bulk-recorder.ts";
import { childError, childId, DEPTH_MAX, fromParent, inLife, tooDeep } from "./child-messages.ts";
import { delayMs } from "./retry.ts";
import { applyTaskChild, taskChildEnded } from "./task-children.ts";
import { NEVER } from "./task-table.ts";

/** The most children of a draining visit that have been asked to stop and have not ended. As these end, the others are asked. */
const STOPS_MAX = 1_000;

/** Starts the children of these tasks. If an earlier attempt has a child already, that child is retried. */
export function startChildren(step: Step, message: ChildrenMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  if (handler === undefined || !execution.open || execution.currentVisit().round !== message.round)
    return { kind: "ignored", why: "nothing starts now" };
  const place = execution.currentVisit().place(handler.plan.name);
  if (handler.impliesTask && !handler.sealed) step.emit({ kind: "handler.enumerated", ...place, total: 1 });
  const depth = (execution.parent?.depth ?? 0) + 1;
  for (const { task, input } of message.tasks) {
    // @plant purged child is not started again 2
    const known = handler.children.get(task);
    // A child that failed is not started before its retry time. A repeated start message, stepped again after a commit of unknown
    // outcome, could otherwise start it too early.
    const isWaiting = handler.tasks.until(task) > step.now;
    if (handler.tasks.settled.has(task) || known?.isOpen === true || isWaiting) continue;
    const attempt = handler.tasks.nextAttempt(task);
    if (depth > DEPTH_MAX) {
      refuseDepth(step, handler, task);
      continue;
    }
    const child = childId(execution.id, place, task);
    step.emit({ kind: "child.started", ...place, task, attempt, child });
    armChild(step, handler, task);
    // A child that exists treats the start as a repeat. A child that was purged after its end starts again.
    // @plant purged child is not started again
    step.send(child, {
      kind: "start",
      execution: child,
      workflow: message.workflow,
      hash: message.hash,
      project: execution.project,
      input,
      tags: {},
      parent: { execution: execution.id, ...place, task, depth, since: execution.createdAt },
      ...(known === undefined ? {} : { again: true as const }),
      ...(execution.trace === null ? {} : { trace: execution.trace }),
    });
    if (known !== undefined)
      step.send(
        child,
        fromParent(execution, "retry", {
          id: inLife(execution, `retry~${execution.seq}`),
          reason: null,
        }),
      );
  }
  advance(step);
  return { kind: "applied", seq: execution.seq };
}

/** Applies the end of a child: settles its task, or lets it be retried by the retry policy. */
export function childEnded(step: Step, message: ChildMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  const { task, child, status, payload, name } = message;
  if (name !== undefined && handler !== undefined && !execution.ended) {
    if (!taskChildEnded(step, handler, { ...message, name }))
      return { kind: "ignored", why: "no task waits for this child" };
    const { stopping } = execution.currentVisit();
    if (stopping !== null) stopping.told--;
    advance(step);
    return { kind: "applied", seq: execution.seq };
  }
  const known = handler?.children.get(task);
  if (
    handler === undefined ||
    execution.ended ||
    name !== undefined ||
    /* @plant end of a child counted twice */ known?.isOpen !== true ||
    known.child !== child
  )
    return { kind: "ignored", why: "no task waits for this child" };
  const place = execution.currentVisit().place(handler.plan.name);
  const { attempt } = known;
  step.emit({ kind: "child.finished", ...place, task, attempt, child, status });
  const { stopping } = execution.currentVisit();
  if (stopping !== null) stopping.told--;
  const isOutOfTime = !disarmChild(step, handler, task) && status === "cancelled";
  const recorder = new BulkRecorder(step, handler);
  const end = { task, attempt, worker: child, ms: 0 };
  if (status === "done") recorder.settle({ ...end, status: "done", reason: null, payload });
  else if (!execution.draining) {
    const fails = handler.tasks.fails(task) + 1;
    const error = isOutOfTime ? outOfTime(handler, child) : childError(child, status, payload);
    const over = isOutOfTime ? null : whyFinal(status, payload);
    if (over !== null || fails >= handler.plan.attempts)
      recorder.settle({ ...end, status: "failed", reason: over ?? "attempts", payload: error });
    else {
      const delay = delayMs(handler.plan, fails, { id: `${child}/${attempt}`, retryAfterMs: undefined });
      const reason = isOutOfTime ? "killed" : "failed";
      recorder.retry({ task, attempt, reason, until: step.now + delay, error });
    }
  }
  recorder.flush();
  advance(step);
  return { kind: "applied", seq: execution.seq };
}

/** Applies an event of a child. */
export function applyChild(execution: Execution, handler: HandlerState, event: ChildEvent): void {
  const { task, attempt, child, name } = event;
  if (name !== undefined) return applyTaskChild(execution, handler, { ...event, name });
  if (event.kind === "child.started") {
    // @plant open children not counted
    if (handler.children.get(task)?.isOpen !== true) handler.openChildren++;
    handler.children.set(task, { child, attempt, isOpen: true });
    handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
    return;
  }
  if (handler.children.get(task)?.isOpen === true) handler.openChildren--;
  if (event.status === "done") handler.children.delete(task);
  else handler.children.set(task, { child, attempt, isOpen: false });
  // The task waits without a time limit until the next event, which settles it or sets its retry time.
  handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
}

/** Sends a control message to every open child of the current visit. */
export function notifyChildren(
  step: Step,
  kind: "pause" | "resume",
  by: { id: string; reason: string | null },
): void {
  const { current } = step.execution;
  if (current === null || current.openChildren === 0) return;
  for (const { child } of current.eachOpenChild()) step.send(child, fromParent(step.execution, kind, by));
}

/** Asks the open children of a draining visit to stop, each once. At most STOPS_MAX are asked now, the others as those end. */
export function cancelChildren(step: Step): void {
  const { current, cancelling, round } = step.execution;
  if (current === null || current.openChildren === 0) return;
  current.stopping ??= { open: current.eachOpenChild(), told: 0 };
  const { stopping } = current;
  const reason = cancelling === null ? "a phase of the parent execution fails" : cancelling.reason;
  const id = inLife(step.execution, `drain~${current.plan.name}~${current.visit}~${round}`);
  for (; stopping.told < STOPS_MAX; stopping.told++) {
    const next = stopping.open.next();
    if (next.done === true) return;
    step.send(next.value.child, fromParent(step.execution, "cancel", { id, reason }));
  }
}

/** Cancels a child that has run longer than its timeout. Its task fails when the child has ended. */
export function childOutOfTime(step: Step, handler: HandlerState, task: number): void {
  const known = handler.children.get(task);
  if (known?.isOpen !== true) return;
  const id = inLife(step.execution, `timeout~${step.execution.seq}`);
  step.send(known.child, fromParent(step.execution, "cancel", { id, reason: "timeout" }));
}

function armChild(step: Step, handler: HandlerState, task: number): void {
  const { timeout } = handler.plan.definition;
  if (timeout === undefined) return;
  const timer = taskTimerId(step, handler, task);
  step.emit({ kind: "timer.set", timer, purpose: "task", due: step.now + timeout });
}

/** Clears the timer of a child's time limit. Returns false if the timer has fired already. */
function disarmChild(step: Step, handler: HandlerState, task: number): boolean {
  if (handler.plan.definition.timeout === undefined) return true;
  return clearTimer(step, taskTimerId(step, handler, task));
}

function refuseDepth(step: Step, handler: HandlerState, task: number): void {
  const attempt = handler.tasks.nextAttempt(task);
  const payload = JSON.stringify(tooDeep());
  settleOne(step, handler, {
    task,
    attempt,
    status: "failed",
    reason: "fatal",
    worker: ENGINE,
    ms: 0,
    payload,
  });
}

function outOfTime({ plan }: HandlerState, child: string): string {
  const message = `child ${child} ran longer than ${plan.definition.timeout} ms`;
  return JSON.stringify({ name: "Timeout", code: "timeout", message, child });
}

/** Returns why a child is not retried; null if it may be retried. */
function whyFinal(status: string, payload: string): string | null {
  // A child that was cancelled on purpose is not started again.
  if (status === "cancelled") return "cancelled";
  return (JSON.parse(payload) as ExecutionError | null)?.fatal === true ? "fatal" : null;
}
