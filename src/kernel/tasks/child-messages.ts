/** The ids of children, and the messages that parents send them. */
import { sha256 } from "../../std/hash.ts";
import { cutToBytes } from "../definition/names.ts";
import type { ExecutionError, Place } from "../event.ts";
import type { Execution } from "../execution.ts";
import type { ControlMessage } from "../message.ts";

/** The most levels of children that may be below an execution. */
export const DEPTH_MAX = 16;

/** Returns the id of a child: the id of the topmost parent, and a hash of the child's place. */
export function childId(parent: string, { phase, visit, handler }: Place, task: number | string): string {
  const [root = parent] = parent.split("~");
  const hash = sha256(`${parent}/${phase}/${visit}/${handler}/${task}`).slice(0, 24);
  return `${cutToBytes(root, 75)}~${hash}`;
}

/** Returns the id of a child that the code of a task runs under a name. */
export function taskChildId(parent: string, place: Place, task: number, name: string): string {
  return childId(parent, place, `${task}/${encodeURIComponent(name)}`);
}

/** Returns the id of an independent execution that the code of a task starts under a name. */
export function startedId(parent: string, place: Place, task: number, name: string): string {
  return childId(parent, place, `${task}/${encodeURIComponent(name)}/start`);
}

/**
 * Adds the creation time of the execution to an id. After a purge, the execution may be started again, and its children have seen the
 * ids of the first time.
 */
export function inLife({ createdAt }: Execution, what: string): string {
  return `${what}~${createdAt}`;
}

/** Makes a control message that an execution sends to its child. */
export function fromParent(
  { id: parent }: Execution,
  kind: ControlMessage["kind"],
  { id, reason }: { id: string; reason: string | null },
): ControlMessage {
  return { kind, id: `${id}~parent`, by: `parent ${parent}`, reason, fromParent: true };
}

/** Returns the error, as JSON text, of a task whose child failed or was cancelled. */
export function childError(child: string, status: string, payload: string): string {
  const cause = JSON.parse(payload) as Partial<ExecutionError> | null;
  const message = `child ${child} ${status === "cancelled" ? "was cancelled" : "failed"}: ${cause?.message ?? status}`;
  return JSON.stringify({ name: "ChildFailed", code: "child_failed", message, child, cause: cause?.cause });
}

/** Returns the error of a child that would be nested too deeply. */
export function tooDeep(): { readonly name: string; readonly code: string; readonly message: string } {
  const message = `children are nested too deeply: at most ${DEPTH_MAX} levels are allowed`;
  return { name: "TooDeep", code: "too_deep", message };
}
