/**
 * The idempotency key of a task. It is the same for all its attempts, over any transport. A task that compensates another one
 * has the key of that one, so that its code can look up the effects to undo.
 */
import { COMPENSATION } from "../kernel/definition/definition.ts";
import { encodeName } from "../kernel/definition/names.ts";
import type { Grant } from "./work.ts";

/** Computes the idempotency key of a task of this grant. */
export function idempotencyKey(grant: Grant, task: number): string {
  return `${idempotencyPrefix(grant)}${task}`;
}

/** The common prefix of the keys of all tasks of a grant. */
export function idempotencyPrefix({ execution, phase, visit, handler }: Grant): string {
  const of = phase.endsWith(COMPENSATION) ? phase.slice(0, -COMPENSATION.length) : phase;
  return `${encodeName(execution)}/${of}/${visit}/${handler}/`;
}
