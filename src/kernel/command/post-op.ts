/**
 * Handles post-operations on the result of a command. The enrichment happens before the result is journaled. A persistence that
 * succeeds lets the task be settled; a persistence that has used up its attempts fails the task. A broadcast that has used up its
 * attempts is given up, and the workflow goes on.
 */
import { assert } from "../../std/assert.ts";
import type { Json } from "../../std/json.ts";
import { reject } from "../../std/rejection.ts";
import { advance } from "../advance.ts";
import type { PostOpRef } from "../event.ts";
import type { HandlerState } from "../execution.ts";
import type { Answer, PostOpMessage, PostOpOutcome, PostOpRetryMessage } from "../message.ts";
import type { Step } from "../step.ts";
import { settleOne } from "../tasks/bulk-recorder.ts";
import { delayMs } from "../tasks/retry.ts";
import { type BroadcastPlan, type PersistencePlan, postOpPlan, targetOf } from "./command-plan.ts";
import { commandAt, isHeld, type OwedOp, postOpId } from "./owed-op.ts";

/** Applies the end of an attempt at a post-operation. A repeat changes nothing. */
export function postOp(step: Step, message: PostOpMessage): Answer {
  const { execution } = step;
  const { attempt, outcome } = message;
  const op = execution.postops.get(message.op);
  if (op === undefined || attempt !== op.ended + 1)
    return { kind: "ignored", why: "this attempt at the post-operation has ended already or never began" };
  const plan = planOf(step, op);
  const at = { ...refOf(op), attempt, target: targetOf(plan) };
  if (outcome.kind === "done") step.emit({ kind: "postop.done", ...at, error: null, until: null });
  else {
    const until = retryAt(step, op, { plan, outcome, attempt });
    step.emit({ kind: "postop.failed", ...at, error: JSON.stringify(outcome.error), until });
  }
  if (!execution.postops.has(op.id) && op.awaited) settle(step, op, outcome);
  return { kind: "applied", seq: execution.seq };
}

/** Retries a broadcast that failed for good. */
export function retryPostOp(step: Step, message: PostOpRetryMessage): Answer {
  const { execution } = step;
  const { id, by, op } = message;
  const before = execution.applied.get(id);
  if (before !== undefined) return { kind: "applied", seq: before };
  const command = commandAt(execution.plan, op);
  const plan = command === null ? undefined : postOpPlan(command, op.op, op.index);
  if (plan === undefined)
    return reject("not_found", `execution ${execution.id} has no such post-operation`, {
      hint: "list dead letters",
    });
  if (op.op === "persistence")
    return reject(
      "wrong_status",
      "a persistence cannot be retried alone, because its failure has failed the execution",
      {
        hint: `retry the execution ${execution.id}: only the persistence is done again`,
      },
    );
  const known = postOpId(execution.id, op);
  if (execution.postops.has(known))
    return { kind: "ignored", why: "the broadcast is still to be sent, so it cannot be retried" };
  if (execution.undelivered.get(known)?.receipt !== op.receipt)
    return reject("wrong_status", "this broadcast has not failed for good, so it cannot be retried", {
      hint: "list dead letters",
    });
  step.emit({ kind: "postop.retried", ...refOf(op), target: targetOf(plan), by, id });
  return { kind: "applied", seq: execution.seq };
}

/** Returns only the fields that identify a post-operation. */
function refOf({ phase, visit, handler, task, step, op, index, receipt }: PostOpRef): PostOpRef {
  return { phase, visit, handler, task, step, op, index, receipt };
}

function planOf({ execution }: Step, op: OwedOp): PersistencePlan | BroadcastPlan {
  const command = commandAt(execution.plan, op);
  const plan = command === null ? undefined : postOpPlan(command, op.op, op.index);
  assert(plan !== undefined, "the plan must contain every pending post-operation");
  return plan;
}

/** Returns when the post-operation is retried; null if it has no attempt left. */
function retryAt(
  step: Step,
  op: OwedOp,
  {
    plan,
    outcome,
    attempt,
  }: {
    plan: PersistencePlan | BroadcastPlan;
    outcome: Extract<PostOpOutcome, { kind: "failed" }>;
    attempt: number;
  },
): number | null {
  if (outcome.fatal === true || attempt >= plan.attempts) return null;
  return step.now + delayMs(plan, attempt, { id: `${op.id}/${attempt}`, retryAfterMs: outcome.retryAfterMs });
}

/** Settles the task if the ended post-operation was the last that the task waited for, or if it was a persistence that failed. */
function settle(step: Step, op: OwedOp, outcome: PostOpOutcome): void {
  const { execution } = step;
  const handler = execution.handlerAt(op);
  assert(handler !== undefined, "a post-operation that a task waits for must be of the current visit");
  if (op.op === "persistence" && outcome.kind === "failed") {
    const { message } = outcome.error;
    const error = {
      name: "PersistenceFailed",
      code: "persistence_failed",
      message: `the result could not be persisted: ${message}`,
    };
    settleTask(step, handler, op, { status: "failed", payload: JSON.stringify(error) });
  } else if (!isHeld(execution, op, op.task))
    settleTask(step, handler, op, { status: "done", payload: null });
  advance(step);
}

function settleTask(
  step: Step,
  handler: HandlerState,
  { task }: OwedOp,
  end: { status: "done" | "failed"; payload: string | null },
): void {
  const receipted = handler.receipted.get(task);
  assert(receipted !== undefined, "a command whose task ends with a post-operation must have a receipt");
  const { attempt, worker, ms, result } = receipted;
  const reason = end.status === "done" ? null : "persistence";
  settleOne(step, handler, {
    task,
    attempt,
    status: end.status,
    reason,
    worker,
    ms,
    payload: end.payload ?? result,
  });
}

/** A property that the enrichment adds to results. */
export interface Enrichment {
  readonly key: string;
  readonly val: Json;
}

/** Adds properties to a result (a JSON text). A result that is not an object becomes `{ value }` first. */
export function enrich(result: string, properties: readonly Enrichment[]): string {
  const given = JSON.parse(result) as Json;
  // A receipt without a result is treated like a receipt with an empty object.
  const value = given === null ? {} : given;
  if (properties.length === 0) return given === null ? "{}" : result;
  const isObject = typeof value === "object" && !Array.isArray(value);
  const enriched: Record<string, Json> = isObject ? { ...(value as Record<string, Json>) } : { value };
  // Uses `defineProperty`, because an assignment to the key "__proto__" would change the prototype.
  for (const { key, val } of properties)
    Object.defineProperty(enriched, key, {
      value: val,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  return JSON.stringify(enriched);
}
