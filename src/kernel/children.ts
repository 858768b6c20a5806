/**
 * Children: tasks that are executions of another workflow. A child's id is derived from its place, so asking twice
 * makes one. Start, pause, resume, cancel and retry go to the child, its end comes back, each as a message that is
 * stored with the sender's commit until the receiver's.
 */
import { sha256 } from "../std/hash.ts";
import { advance } from "./advance.ts";
import { BulkRecorder } from "./bulk-recorder.ts";
import type { ChildEvent, Place } from "./event.ts";
import type { Execution, HandlerState } from "./execution.ts";
import type { Answer, ChildMessage, ChildrenMessage, ControlMessage } from "./message.ts";
import { delayMs } from "./retry.ts";
import type { Step } from "./step.ts";
import { NEVER } from "./task-table.ts";

const DEPTH_MAX = 16;

/** The id of a child: the root of its family, and a hash of its place. */
export function childId(parent: string, { phase, visit, handler }: Place, task: number): string {
  const [root = parent] = parent.split("~");
  const hash = sha256(`${parent}/${phase}/${visit}/${handler}/${task}`).slice(0, 24);
  return `${root.slice(0, 75)}~${hash}`;
}

/** Asks for the children of these tasks: new ones are started, those of an earlier attempt are retried. */
export function startChildren(step: Step, message: ChildrenMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  if (handler === undefined || !execution.open || execution.currentVisit().round !== message.round)
    return { kind: "ignored", why: "nothing starts now" };
  const place = execution.currentVisit().place(handler.plan.name);
  if (handler.impliesTask && !handler.sealed) step.emit({ kind: "handler.enumerated", ...place, total: 1 });
  const depth = (execution.parent?.depth ?? 0) + 1;
  for (const { task, input } of message.tasks) {
    const known = handler.children.get(task);
    if (handler.tasks.settled.has(task) || known?.isOpen === true) continue;
    const attempt = handler.tasks.nextAttempt(task);
    if (depth > DEPTH_MAX) {
      refuseDepth(step, handler, task);
      continue;
    }
    const child = childId(execution.id, place, task);
    step.emit({ kind: "child.started", ...place, task, attempt, child });
    // For one that is there this is a repeat; one that was purged since it ended starts anew.
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

/** A child has ended: its task is settled, or tried again by the policy. */
export function childEnded(step: Step, message: ChildMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  const { task, child, status, payload } = message;
  const known = handler?.children.get(task);
  if (handler === undefined || execution.ended || known?.isOpen !== true || known.child !== child)
    return { kind: "ignored", why: "the child is not waited for" };
  const place = execution.currentVisit().place(handler.plan.name);
  const { attempt } = known;
  step.emit({ kind: "child.finished", ...place, task, attempt, child, status });
  const recorder = new BulkRecorder(step, handler);
  const end = { task, attempt, worker: child, ms: 0 };
  if (status === "done") recorder.settle({ ...end, status: "done", reason: null, payload });
  else if (!execution.draining) {
    const fails = handler.tasks.fails(task) + 1;
    const error = childError(child, status, payload);
    // Who cancelled it does not want it again.
    if (status === "cancelled" || fails >= handler.plan.attempts)
      recorder.settle({
        ...end,
        status: "failed",
        reason: status === "failed" ? "attempts" : "cancelled",
        payload: error,
      });
    else {
      const delay = delayMs(handler.plan, fails, { id: `${child}/${attempt}`, retryAfterMs: undefined });
      recorder.retry({ task, attempt, reason: "failed", until: step.now + delay, error });
    }
  }
  recorder.flush();
  advance(step);
  return { kind: "applied", seq: execution.seq };
}

/** The fold of a child's events. */
export function applyChild(handler: HandlerState, event: ChildEvent): void {
  const { task, attempt, child } = event;
  if (event.kind === "child.started") {
    if (handler.children.get(task)?.isOpen !== true) handler.openChildren++;
    handler.children.set(task, { child, attempt, isOpen: true });
    handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
    return;
  }
  if (handler.children.get(task)?.isOpen === true) handler.openChildren--;
  if (event.status === "done") handler.children.delete(task);
  else handler.children.set(task, { child, attempt, isOpen: false });
  // What settles it or sets its next time comes with the next event; until then it waits.
  handler.tasks.endAttempt(task, attempt, { burns: "nothing", until: NEVER });
}

/** Sends a control message to every open child of the current visit. */
export function tellChildren(
  step: Step,
  kind: "pause" | "resume" | "cancel",
  by: { id: string; reason: string | null },
): void {
  for (const handler of step.execution.current?.handlers ?? []) {
    if (handler.openChildren === 0) continue;
    for (const { child, isOpen } of handler.children.values())
      if (isOpen) step.send(child, fromParent(step.execution, kind, by));
  }
}

/** While a visit drains, its open children are told to stop, once. */
export function cancelChildren(step: Step): void {
  const { current, cancelling, round } = step.execution;
  if (current === null || current.childrenTold || current.openChildren === 0) return;
  current.childrenTold = true;
  const reason = cancelling === null ? "a phase of its parent fails" : cancelling.reason;
  const id = inLife(step.execution, `drain~${current.plan.name}~${current.visit}~${round}`);
  tellChildren(step, "cancel", { id, reason });
}

/** An id of its own for each life of an execution: one that was purged may begin anew, and its children know the old ids. */
function inLife({ createdAt }: Execution, what: string): string {
  return `${what}~${createdAt}`;
}

function fromParent(
  { id: parent }: Execution,
  kind: ControlMessage["kind"],
  { id, reason }: { id: string; reason: string | null },
): ControlMessage {
  return { kind, id: `${id}~parent`, by: `parent ${parent}`, reason, fromParent: true };
}

function refuseDepth(step: Step, handler: HandlerState, task: number): void {
  const recorder = new BulkRecorder(step, handler);
  const error = {
    name: "TooDeep",
    code: "too_deep",
    message: `a child of a child ... of a child: at most ${DEPTH_MAX} levels are allowed`,
  };
  const attempt = handler.tasks.nextAttempt(task);
  const payload = JSON.stringify(error);
  recorder.settle({ task, attempt, status: "failed", reason: "fatal", worker: "engine", ms: 0, payload });
  recorder.flush();
}

function childError(child: string, status: string, payload: string): string {
  const cause = JSON.parse(payload) as { code?: string; message?: string } | null;
  const message = `child ${child} ${status === "cancelled" ? "was cancelled" : "failed"}: ${cause?.message ?? status}`;
  return JSON.stringify({ name: "ChildFailed", code: "child_failed", message, child });
}
