/** What a node holds, for status pages and scaling. Computed on request, nothing is kept for it. */
import type { Overview } from "./io.ts";
import type { NodeState } from "./node-state.ts";

/** The overview; `working` executions have work. */
export function overviewOf(node: NodeState, working: number): Overview {
  const ready = new Map<string, number>();
  let leases = 0;
  for (const slot of node.slots.values()) {
    leases += slot.openLeases;
    if (slot.execution?.open !== true) continue;
    for (const desk of slot.desks) {
      const { state } = desk;
      if (state.finished || state.plan.waits || state.plan.mode === "workflow") continue;
      const open = state.total - state.tasks.settled.size - desk.openLeases;
      const later = state.tasks.countRetrying(node.now) + state.progress.countWaiting(node.now);
      const isListing = desk.wantsEnumeration(node.now) ? 1 : 0;
      const tasks = Math.max(0, open - later) + isListing;
      if (tasks > 0) ready.set(state.plan.use, (ready.get(state.plan.use) ?? 0) + tasks);
    }
  }
  return {
    workers: [...node.roster.workers.values()].map(({ id, local, capacity, held, serves }) => ({
      id,
      local,
      capacity,
      held,
      serves,
    })),
    limits: [...node.limits.all()],
    resident: node.slots.size,
    working,
    leases,
    ready: [...ready].map(([use, tasks]) => ({ use, tasks })),
  };
}
