/**
 * Children that the code of a task runs under names. The start of a child is a checkpoint of the task, so it is journaled once, and
 * sent by the same commit. The end of a child becomes the outcome of the step with its name, and continues a task that waits for it.
 * A child does not go on after its task: if the task ends first, the child is asked to stop.
 */
import { sha256 } from "../../std/hash.ts";
import type { ChildEvent, TaskStep } from "../event.ts";
import type { Execution, HandlerState, TaskChild } from "../execution.ts";
import type { ChildMessage, ChildRequest, StartMessage } from "../message.ts";
import type { Step } from "../step.ts";
import {
  childError,
  DEPTH_MAX,
  fromParent,
  inLife,
  startedId,
  taskChildId,
  tooDeep,
} from "./child-messages.ts";

/** Returns the key of a child in the state of its handler. */
export function taskChildKey(task: number, name: string): string {
  return `${task}/${name}`;
}

/** The attempt that requests a child. */
interface Asking {
  readonly task: number;
  readonly attempt: number;
}

/** The error of an attempt that requests a child which cannot be started. */
export interface AskedInVain {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  /** Whether another attempt would fail with the same error. */
  readonly fatal?: true;
}

/**
 * Starts a child that the code of a task requests. The caller has checked that the task has no checkpoint of this name. If the child
 * cannot be started, returns the error with which the attempt fails.
 */
export function startTaskChild(
  step: Step,
  handler: HandlerState,
  { task, attempt }: Asking,
  asked: ChildRequest & { readonly hash: string | null },
): AskedInVain | null {
  const { execution } = step;
  const { name, workflow, hash } = asked;
  const { project } = execution;
  const input = asked.mapped === true ? mapInput(handler, task, asked) : asked.input;
  const depth = (execution.parent?.depth ?? 0) + 1;
  if (hash === null) return unknownWorkflow(workflow);
  if (depth > DEPTH_MAX) return { ...tooDeep(), fatal: true };
  const place = execution.currentVisit().place(handler.plan.name);
  const at = { ...place, task, attempt, name };
  const traced = execution.trace === null ? {} : { trace: execution.trace };
  const start = { kind: "start", workflow, hash, project, input, tags: {}, ...traced } as const;
  if (asked.detached === true) {
    const id = startedId(execution.id, place, task, name);
    step.emit({ kind: "task.step", ...at, result: JSON.stringify(id), error: null, reason: "done" });
    step.send(id, { ...start, execution: id });
    return null;
  }
  const known = handler.taskChildren.get(taskChildKey(task, name));
  const child = taskChildId(execution.id, place, task, name);
  step.emit({ kind: "child.started", ...at, child });
  // If the child has been asked to stop, it starts again after it has stopped.
  if (known?.isOpen === true) return null;
  const parent = { execution: execution.id, ...place, task, name, depth, since: execution.createdAt };
  const message: StartMessage = { ...start, execution: child, parent };
  // If the child exists, it treats the start as a repeat. If it was purged after its end, it starts again.
  step.send(child, known === undefined ? message : { ...message, again: true });
  if (known !== undefined) sendRetry(step, child);
  // An attempt may go on while its execution is paused. Children that it starts then are paused until the execution is resumed.
  if (execution.status === "paused") {
    const id = inLife(execution, `paused~${execution.seq}`);
    step.send(child, fromParent(execution, "pause", { id, reason: null }));
  }
  return null;
}

/** Applies the end of a child that the code of a task runs; false if no task waits for this child. */
export function taskChildEnded(
  step: Step,
  handler: HandlerState,
  message: ChildMessage & { readonly name: string },
): boolean {
  const { execution } = step;
  const { task, name, child, status, payload } = message;
  const known = handler.taskChildren.get(taskChildKey(task, name));
  if (known?.isOpen !== true || known.child !== child) return false;
  const { attempt, stop } = known;
  const at = { ...execution.currentVisit().place(handler.plan.name), task, attempt };
  step.emit({ kind: "child.finished", ...at, name, child, status });
  if (handler.isClosed(task)) return true;
  if (status !== "done" && execution.draining) return true;
  if (status !== "done" && stop === "again") {
    step.emit({ kind: "child.started", ...at, name, child });
    sendRetry(step, child);
    return true;
  }
  const answer: Pick<TaskStep, "result" | "error"> =
    status === "done"
      ? { result: payload, error: null }
      : { result: null, error: childError(child, status, payload) };
  const by = handler.progress.tasks.get(task)?.attempt ?? attempt;
  step.emit({ kind: "task.step", ...at, attempt: by, name, ...answer, reason: "child" });
  return true;
}

/** Asks the open children of a task to stop, because the task ends. */
export function stopTaskChildren(step: Step, { taskChildren }: HandlerState, task: number): void {
  const { execution } = step;
  const id = inLife(execution, `settled~${execution.seq}`);
  for (const one of taskChildren.values())
    if (one.task === task && one.isOpen && one.stop !== "asked")
      step.send(one.child, fromParent(execution, "cancel", { id, reason: "its task has ended" }));
}

/** Applies an event of a child that the code of a task runs. */
export function applyTaskChild(
  execution: Execution,
  handler: HandlerState,
  event: ChildEvent & { readonly name: string },
): void {
  const { task, attempt, child, name } = event;
  const { taskChildren, progress } = handler;
  const key = taskChildKey(task, name);
  const known = taskChildren.get(key);
  const one: TaskChild = { task, name, child, attempt, isOpen: event.kind === "child.started" };
  if (event.kind === "child.started") {
    if (known?.isOpen !== true) handler.openTaskChildren++;
    taskChildren.set(key, known?.isOpen === true ? { ...one, stop: "again" } : one);
    const { round } = execution.currentVisit();
    progress.note({ task, attempt, round }, { kind: "child", name });
    return;
  }
  if (known?.isOpen === true) handler.openTaskChildren--;
  if (event.status === "done" || handler.tasks.isDone(task)) taskChildren.delete(key);
  else taskChildren.set(key, one);
}

/** Records that a task has ended: its open children count as asked to stop. If the task is done, its other children are forgotten. */
export function settleTaskChildren({ taskChildren, tasks }: HandlerState, task: number): void {
  for (const [key, one] of [...taskChildren]) {
    if (one.task !== task) continue;
    if (one.isOpen) taskChildren.set(key, { ...one, stop: "asked" });
    else if (tasks.isDone(task)) taskChildren.delete(key);
  }
}

/**
 * Returns the input of a child whose tasks are the items of a map: the number of items, and where the pages of items are in this
 * journal.
 */
function mapInput({ progress }: HandlerState, task: number, { name, input }: ChildRequest): string {
  const pages: number[] = [];
  for (const known of progress.tasks.get(task)?.named.values() ?? [])
    if (known.kind === "step" && known.map === name)
      // @plant page of a map left out
      pages.push(known.seq);
  return `{"total":${input},"pages":[${pages.join(",")}]}`;
}

function sendRetry(step: Step, child: string): void {
  const { execution } = step;
  const id = inLife(execution, `retry~${sha256(child).slice(0, 8)}~${execution.seq}`);
  step.send(child, fromParent(execution, "retry", { id, reason: null }));
}

function unknownWorkflow(workflow: string): AskedInVain {
  return {
    name: "NoWorkflow",
    code: "not_found",
    message: `there is no workflow "${workflow}": start a worker that serves it, or register its definition`,
  };
}
