/** What is open of an execution's handlers, for views of it. */
import type { QueuedAttempt } from "../../kernel/command/command-view.ts";
import type { RunningCounts } from "../../kernel/view.ts";
import type { Slot } from "../cache/slot.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import { ENUMERATION } from "../leases/lease.ts";

/** Open attempts at tasks, by handler. */
export function runningOf({ queues }: Slot): RunningCounts {
  return new Map(queues.map((queue) => [queue.state.plan.name, runningTasks(queue)]));
}

function runningTasks(queue: HandlerQueue): number {
  return queue.openLeases - (queue.leases.get(ENUMERATION)?.reported === false ? 1 : 0);
}

/** Command handlers whose open leases are all in queues of a broker, with the oldest of them. */
export function queuedOf({ queues }: Slot): ReadonlyMap<string, QueuedAttempt> {
  const found = new Map<string, QueuedAttempt>();
  for (const { leases, openLeases, state, visit: of } of queues) {
    if (openLeases === 0 || state.plan.command === null) continue;
    const open = [...leases.values()].filter(({ reported }) => !reported);
    const [oldest] = open;
    if (oldest === undefined || open.some(({ queued }) => !queued)) continue;
    const { visit, round } = of;
    const { task, attempt, claim, epoch } = oldest;
    found.set(state.plan.name, { visit, round, task, attempt, claim, epoch });
  }
  return found;
}
