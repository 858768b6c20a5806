/** Why a command waits: for a receipt, or for what is done with its result. */
import { postOpPlan, targetOf } from "../../kernel/command/command-plan.ts";
import { commandAt, type OwedOp } from "../../kernel/command/owed-op.ts";
import type { Execution } from "../../kernel/execution.ts";
import { showDuration } from "../../std/duration.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { NodeState } from "../node-state.ts";

/** The sentence for a handler; null: nothing special about commands. */
export function whyCommand(
  { roster, now }: NodeState,
  execution: Execution,
  { queue, at }: { readonly queue: HandlerQueue; readonly at: string },
): string | null {
  const { command } = queue.state.plan;
  if (command === null) return null;
  const owed = [...execution.postops.values()].find(
    ({ awaited, handler, phase }) =>
      awaited && handler === queue.state.plan.name && phase === queue.visit.plan.name,
  );
  if (owed !== undefined) return `${at}: ${whyOwed(execution, owed, now)}.`;
  const since = Math.min(
    ...[...queue.leases.values()].map(({ startedAt }) => startedAt).filter((t) => t > 0),
  );
  const noBroker = roster.queued?.why ?? null;
  if (queue.openLeases === 0) {
    const { wanted } = queue.state.plan;
    const isStuck = noBroker !== null && roster.choose(wanted, execution.project) === null;
    return isStuck ? `${at} cannot be sent to the topic ${command.topic}: ${noBroker}.` : null;
  }
  const more = queue.openLeases === 1 ? "a receipt" : `${queue.openLeases} receipts`;
  const what = `${more} of "${command.cmd.cmd_type}", sent to ${command.topic}, on ${command.receiptTopic}`;
  const isQueued = [...queue.leases.values()].some(({ queued, reported }) => queued && !reported);
  const but = isQueued && noBroker !== null ? `; ${noBroker}` : "";
  return since === Number.POSITIVE_INFINITY
    ? `${at} waits for ${what}${but}.`
    : `${at} has waited ${showDuration(Math.max(0, now - since))} for ${what}${but}.`;
}

/** What an execution that has ended still owes; null: nothing. */
export function whyStillOwed(execution: Execution, now: number): string | null {
  const [first] = [...execution.postops.values()];
  return first === undefined ? null : whyOwed(execution, first, now);
}

function whyOwed(execution: Execution, op: OwedOp, now: number): string {
  const command = commandAt(execution.plan, op);
  const plan = command === null ? undefined : postOpPlan(command, op.op, op.index);
  const what = `${op.op} to ${plan === undefined ? "nowhere" : targetOf(plan)}`;
  if (op.lastError === null) return `${what} is under way`;
  return op.until > now
    ? `${what} is tried again in ${showDuration(op.until - now)}: ${op.lastError}`
    : `${what} is tried again now: ${op.lastError}`;
}
