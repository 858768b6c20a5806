/** Makes the JSON text that a lease gives to a worker: the task itself, or the task's command with its references filled in. */
import { topicError } from "../../kernel/command/command-state.ts";
import { resolveCommand } from "../../kernel/command/own-command.ts";
import { ENGINE } from "../../kernel/timers.ts";
import type { Slot } from "../cache/slot.ts";
import { taskText } from "../cache/task-pages.ts";
import { ENUMERATION } from "../leases/lease.ts";
import type { NodeState } from "../node-state.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** Returns when a command without a receipt times out. A worker measures the timeout itself, so the engine waits a little longer. */
export function receiptDueAt(
  node: NodeState,
  { state }: HandlerQueue,
  { task, from, queued }: { task: number; from: number; queued: boolean },
): number {
  const { timeoutMs, command } = state.plan;
  if (command === null || timeoutMs === null || task === ENUMERATION) return Number.POSITIVE_INFINITY;
  return from + timeoutMs + (queued ? 0 : node.settings.askMs);
}

/**
 * Returns the JSON text of a task for its lease; undefined if its page is not in memory. If the command cannot be sent, its task
 * fails and the result is null.
 */
export function workText(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  task: number,
): string | null | undefined {
  const text = taskText(node, slot, queue, task);
  const { command } = queue.state.plan;
  if (command === null || text === undefined || slot.execution === null) return text;
  const refusal = node.topics.refusal(slot.execution.project, command);
  const resolved =
    refusal === null ? resolveCommand(slot.execution, command, text) : { error: topicError(refusal) };
  if ("text" in resolved) return resolved.text;
  queue.dequeue(task);
  const outcome = { status: "failed", fatal: true, payload: resolved.error } as const;
  const attempt = queue.state.tasks.nextAttempt(task);
  const receipt = { task, attempt, round: queue.visit.round, live: true, worker: ENGINE, ms: 0, outcome };
  const place = queue.place;
  node.enqueueMessage(slot, { kind: "receipts", ...place, receipts: [receipt] });
  return null;
}
