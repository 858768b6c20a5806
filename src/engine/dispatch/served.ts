/**
 * Decides whether a worker serves the work of an execution. Only executions with such a worker count in the window of executions in
 * memory.
 */
import type { HandlerPlan } from "../../kernel/definition/plan.ts";
import { currentHash, type StoredHead } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import type { HandlerQueue } from "./handler-queue.ts";

export function isServed(node: NodeState, slot: Slot): boolean {
  if (slot.execution?.draining === true) return true;
  const project = slot.execution?.project ?? "";
  return slot.queues.some(
    (queue) =>
      !queue.state.finished &&
      node.enumeratorAt(slot, queue) === null &&
      !waitsForEnumerator(node, queue, project) &&
      isHandlerServed(node, queue.state.plan, project),
  );
}

/** Whether the only work of the execution is an enumeration, and all workers that serve its code can only process tasks. */
function waitsForEnumerator({ roster }: NodeState, { state }: HandlerQueue, project: string): boolean {
  const { plan, sealed, total, tasks } = state;
  if (plan.enumerateUse === null || sealed || total > tasks.settled.size) return false;
  return roster.isOnlyProcessed(plan.enumerator, project);
}

/** Whether a worker may serve the current phase of an execution that is not in memory. */
export function mayBeServed(node: NodeState, head: StoredHead): boolean {
  const phase = node.plans.get(currentHash(head))?.byName.get(head.phase ?? "");
  if (phase === undefined || head.status === "cancelling") return true;
  const handlers = phase.decision === null ? phase.handlers : [...phase.handlers, phase.decision];
  // Only after the execution is loaded is it known whether its only task must not go to code that enumerates. So this function may
  // return true too often.
  return handlers.some((plan) => isHandlerServed(node, plan, head.project));
}

function isHandlerServed(
  { roster, newest }: NodeState,
  { mode, wanted, enumerator, enumerateUse, definition }: HandlerPlan,
  project: string,
): boolean {
  if (enumerateUse !== null && roster.isServed(enumerator, project)) return true;
  return mode === "workflow"
    ? !newest.isMissing(definition.workflow ?? "")
    : roster.isServed(wanted, project);
}
