/** The idempotency key of a task. It is the same for all its attempts, over any transport. */
import { encodeName } from "../kernel/definition/names.ts";
import type { Grant } from "./work.ts";

/** The key of a task of this grant. */
export function idempotencyKey(grant: Grant, task: number): string {
  return `${idempotencyPrefix(grant)}${task}`;
}

/** The common prefix of the keys of all tasks of a grant. */
export function idempotencyPrefix({ execution, phase, visit, handler }: Grant): string {
  return `${encodeName(execution)}/${phase}/${visit}/${handler}/`;
}
