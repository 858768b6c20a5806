/** The idempotency key of a task: the same for all its attempts, whichever way it goes to a worker. */
import { encodeName } from "../kernel/definition/names.ts";
import type { Grant } from "./work.ts";

/** The key of a task of this grant. */
export function idempotencyKey(grant: Grant, task: number): string {
  return `${idempotencyPrefix(grant)}${task}`;
}

/** The beginning that the keys of all tasks of a grant share. */
export function idempotencyPrefix({ execution, phase, visit, handler }: Grant): string {
  return `${encodeName(execution)}/${phase}/${visit}/${handler}/`;
}
