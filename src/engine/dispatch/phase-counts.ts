/** Counts the tasks of the phases so far. Grants carry these counts, for code that reads earlier results. */
import type { Plan } from "../../kernel/definition/plan.ts";
import type { Execution } from "../../kernel/execution.ts";
import type { Grant, PhaseCounts } from "../../protocol/work.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** Returns the phase counts for a grant. They do not change during a visit, except for a decision, whose counts include its own visit. */
export function countsOf(queue: HandlerQueue, execution: Execution, work: Grant["do"]): PhaseCounts {
  if (work === "next") return phaseCounts(execution);
  queue.counts ??= phaseCounts(execution);
  return queue.counts;
}

/** Returns the counts of every visit so far, including the current visit. */
function phaseCounts(execution: Execution): PhaseCounts {
  const { current, visited, plan } = execution;
  const isOpen = current !== null && current.status === "running";
  const counts = isOpen
    ? visited.filter((visit) => visit.phase !== current.plan.name || visit.visit !== current.visit)
    : [...visited];
  const all: PhaseCounts[number][] = [...unvisited(plan), ...counts];
  if (isOpen) {
    all.push({
      phase: current.plan.name,
      visit: current.visit,
      firstSeq: current.firstSeq,
      lastSeq: execution.seq,
      handlers: current.handlers.map(({ plan: { name }, total, tasks, value }) => ({
        name,
        total,
        done: tasks.done,
        failed: tasks.failed.size,
        value,
      })),
    });
  }
  return all;
}

const unvisitedOf = new WeakMap<Plan, PhaseCounts>();

/** Returns the counts of the phases of a plan before any phase is visited. */
function unvisited(plan: Plan): PhaseCounts {
  let counts = unvisitedOf.get(plan);
  if (counts === undefined) {
    counts = plan.phases.map(({ name, handlers }) => ({
      phase: name,
      visit: 0,
      firstSeq: 1,
      lastSeq: 0,
      handlers: handlers.map((handler) => ({
        name: handler.name,
        total: 0,
        done: 0,
        failed: 0,
        value: null,
      })),
    }));
    unvisitedOf.set(plan, counts);
  }
  return counts;
}
