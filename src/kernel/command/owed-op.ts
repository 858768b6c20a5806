/**
 * Owed post-operations: the persistence and the broadcasts of a command's result. The persistence comes first; after its end, the
 * broadcasts are owed. They follow from the journal, so after a restart, a takeover or a commit of unknown outcome the same ones are
 * owed. The state contains no payloads.
 */
import { assert } from "../../std/assert.ts";
import { encodeName } from "../definition/names.ts";
import type { Plan } from "../definition/plan.ts";
import type { CommandReceipted, Place, PostOpEvent, PostOpRef, PostOpRetried } from "../event.ts";
import type { Execution } from "../execution.ts";
import { readError } from "../tasks/stored-error.ts";
import { type CommandPlan, postOpPlan } from "./command-plan.ts";

/** A post-operation that is still to be performed. */
export interface OwedOp extends PostOpRef {
  /** The id of the post-operation, the same for all attempts. */
  readonly id: string;
  /** Whether the task is settled only after this post-operation has ended. */
  readonly awaited: boolean;
  /** The number of attempts that have ended. */
  readonly ended: number;
  /** The earliest time of the next attempt. */
  readonly until: number;
  /** The error of the last attempt; null if there was none. */
  readonly lastError: string | null;
}

/**
 * Returns the id of a post-operation. It is made from the place of the receipt, so every attempt and every owner computes the same
 * id.
 */
export function postOpId(execution: string, ref: PostOpRef): string {
  const { phase, visit, handler, task, op, index } = ref;
  return `${encodeName(execution)}/${phase}/${visit}/${handler}/${task}/${op}/${index}`;
}

/** Returns the plan of a handler's command; null if the handler has no command. */
export function commandAt(plan: Plan, { phase, handler }: Place): CommandPlan | null {
  return plan.byName.get(phase)?.handlers.find(({ name }) => name === handler)?.command ?? null;
}

/**
 * Adds the next post-operations of a result to those that are owed: its persistence, or its broadcasts if there is no persistence or
 * the persistence is done.
 */
export function oweAfter(execution: Execution, receipt: ReceiptRef, done: "receipt" | "persistence"): void {
  const command = commandAt(execution.plan, receipt);
  assert(command !== null, "the plan must contain every command with a receipt");
  if (done === "receipt" && command.persistence !== null)
    // @plant broadcasts do not wait for the persistence
    return owe(execution, receipt, "persistence", 0);
  command.broadcasts.forEach((_, index) => owe(execution, receipt, "broadcast", index));
}

/** Whether an owed post-operation keeps this task from being settled. */
export function isHeld(execution: Execution, place: Place, task: number): boolean {
  for (const op of execution.postops.values())
    if (op.awaited && op.task === task && isAt(op, place)) return true;
  return false;
}

/** Whether an owed post-operation keeps any task from being settled. */
export function holdsTasks(execution: Execution): boolean {
  // @plant visit ends while its persistence is owed
  for (const { awaited } of execution.postops.values()) if (awaited) return true;
  return false;
}

/** Applies the end of an attempt at a post-operation. */
export function applyPostOp(execution: Execution, event: PostOpEvent): void {
  const id = postOpId(execution.id, event);
  const op = execution.postops.get(id);
  assert(op !== undefined, `post-operation ${id} is owed`);
  if (event.until !== null) {
    const lastError = readError(event.error).message;
    execution.postops.set(id, { ...op, ended: event.attempt, until: event.until, lastError });
    return;
  }
  execution.postops.delete(id);
  if (event.kind === "postop.failed" && event.op === "broadcast")
    execution.undelivered.set(id, { seq: execution.seq, task: event.task, receipt: event.receipt });
  if (event.kind === "postop.done" && event.op === "persistence") oweAfter(execution, event, "persistence");
}

/** Applies the retry of a post-operation that had failed for good. */
export function applyPostOpRetried(execution: Execution, event: PostOpRetried): void {
  execution.applied.set(event.id, execution.seq);
  execution.undelivered.delete(postOpId(execution.id, event));
  owe(execution, event, event.op, event.index);
  // The task of this post-operation was settled before, so no task waits for it.
  const id = postOpId(execution.id, event);
  const op = execution.postops.get(id);
  if (op !== undefined) execution.postops.set(id, { ...op, awaited: false });
}

/** Identifies the receipt that a post-operation belongs to. */
export type ReceiptRef = Place & Pick<PostOpRef, "task" | "step" | "receipt">;

/** Returns the receipt reference of a `command.receipted` event with the sequence number `seq`. */
export function receiptOf({ phase, visit, handler, task, step }: CommandReceipted, seq: number): ReceiptRef {
  return { phase, visit, handler, task, step, receipt: seq };
}

function owe(execution: Execution, at: ReceiptRef, op: PostOpRef["op"], index: number): void {
  const { phase, visit, handler, task, step, receipt } = at;
  const ref = { phase, visit, handler, task, step, receipt, op, index };
  const command = commandAt(execution.plan, at);
  const plan = command === null ? undefined : postOpPlan(command, op, index);
  assert(plan !== undefined, "the plan must contain every pending post-operation");
  const id = postOpId(execution.id, ref);
  const awaited = op === "persistence" || ("awaited" in plan && plan.awaited);
  execution.postops.set(id, { ...ref, id, awaited, ended: 0, until: execution.now, lastError: null });
}

function isAt(op: Place, { phase, visit, handler }: Place): boolean {
  return op.phase === phase && op.visit === visit && op.handler === handler;
}
