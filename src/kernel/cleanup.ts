/**
 * The order of a clean-up: compensations of the visits in reverse order of their ends, then `onCancel` or `onFailure`, then
 * `finally`. The order is derived from the state. Clean-up visits that are done are left out, and failed ones are repeated in a later
 * round.
 */
import { COMPENSATION } from "./definition/definition.ts";
import type { PhasePlan } from "./definition/plan.ts";
import type { FinalStatus } from "./event.ts";
import type { Execution } from "./execution.ts";

/** A visit of the clean-up. */
export interface CleanupVisit {
  readonly plan: PhasePlan;
  readonly visit: number;
}

/** Returns the next visit of the clean-up of an execution that ends with this status; null if none is left in this round. */
export function nextCleanup(
  execution: Execution,
  { status }: { readonly status: FinalStatus },
  round = execution.round,
): CleanupVisit | null {
  for (const one of cleanupVisits(execution, status)) if (isLeft(execution, one, round)) return one;
  return null;
}

/** Returns the visits of the clean-up that a retry of the ended execution would run. */
export function leftCleanup(execution: Execution): CleanupVisit[] {
  const { ending, round } = execution;
  if (ending === null) return [];
  return [...cleanupVisits(execution, ending.status)].filter((one) => isLeft(execution, one, round + 1));
}

function isLeft(execution: Execution, { plan, visit }: CleanupVisit, round: number): boolean {
  const summary = execution.visited.find((one) => one.phase === plan.name && one.visit === visit);
  if (summary === undefined) return true;
  const kept = execution.keptVisit(plan.name, visit);
  return summary.status !== "done" && kept !== undefined && kept.round < round;
}

/** Yields all visits of the clean-up in their order. */
function* cleanupVisits(execution: Execution, status: FinalStatus): Generator<CleanupVisit> {
  const { plan } = execution;
  // @plant finally left out after done
  if (status !== "done") {
    yield* compensations(execution);
    const after = status === "cancelled" ? plan.onCancel : plan.onFailure;
    if (after !== null) yield { plan: after, visit: 1 };
  }
  // @plant finally left out after done 2
  if (plan.finally !== null) yield { plan: plan.finally, visit: 1 };
}

/** Yields the compensations of the visits that need one, the last visit first. */
function* compensations({ plan, kept }: Execution): Generator<CleanupVisit> {
  // @plant compensation in the order of the work
  const inOrder = [...kept].sort((a, b) => b.lastSeq - a.lastSeq);
  for (const visit of inOrder) {
    const compensation = plan.byName.get(`${visit.plan.name}${COMPENSATION}`);
    if (compensation !== undefined && visit.isCompensable) yield { plan: compensation, visit: visit.visit };
  }
}
