/** The figures of a node, for status pages and scaling. They are computed on request. */
import type { QueuedAttempt } from "../../kernel/command/command-view.ts";
import type { RunningCounts } from "../../kernel/view.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Slot } from "../cache/slot.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { AttemptFilter, OpenAttempt, Overview } from "../io.ts";
import { ENUMERATION } from "../leases/lease.ts";
import type { NodeState } from "../node-state.ts";

/** The most workflows that are named for one queue. */
export const READY_WORKFLOWS_MAX = 5;

export function overviewOf(node: NodeState, working: number): Overview {
  const ready = new Map<string, { tasks: number; since: number; workflows: Set<string> }>();
  const add = (use: string, tasks: number, since: number, workflow: string) => {
    if (tasks <= 0) return;
    const before = ready.get(use);
    if (before === undefined) ready.set(use, { tasks, since, workflows: new Set([workflow]) });
    else {
      before.tasks += tasks;
      before.since = Math.min(before.since, since);
      if (before.workflows.size < READY_WORKFLOWS_MAX) before.workflows.add(workflow);
    }
  };
  let leases = 0;
  for (const slot of node.slots.values()) {
    leases += slot.openLeases;
    if (slot.execution?.open !== true) continue;
    const { name: workflow } = slot.execution.plan.definition;
    for (const queue of slot.queues) {
      const { state } = queue;
      if (state.finished || state.plan.waits) continue;
      const since = queue.waitsSince;
      if (queue.wantsEnumeration(node.now))
        add(state.plan.enumerateUse ?? state.plan.use, 1, since, workflow);
      if (state.plan.mode !== "workflow") add(state.plan.use, readyTasks(queue, node.now), since, workflow);
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
    limits: [...node.limits.all(node.now)],
    resident: node.slots.size,
    working,
    leases,
    ready: [...ready].map(([use, { tasks, since, workflows }]) => ({
      use,
      tasks,
      since,
      workflows: [...workflows].sort(),
    })),
    totals: structuredClone(node.totals),
  };
}

/** Returns the open attempts that match the filter, at most `max`. */
export function openAttempts(
  node: NodeState,
  { worker, project = null, execution = null, commands, max }: AttemptFilter,
): OpenAttempt[] {
  const found: OpenAttempt[] = [];
  const one = execution === null ? undefined : node.slots.get(execution);
  for (const slot of execution === null ? node.slots.values() : one === undefined ? [] : [one]) {
    if (project !== null && slot.execution?.project !== project) continue;
    for (const queue of slot.queues) {
      const { command } = queue.state.plan;
      if (queue.openLeases === 0 || (commands === true && command === null)) continue;
      const place = { ...queue.place, execution: slot.id };
      for (const lease of queue.leases.values()) {
        if (lease.reported || (worker !== null && lease.worker !== worker)) continue;
        if (found.length >= max) return found;
        const { task, attempt, claim, epoch, startedAt, until, local } = lease;
        const id = encodeAttempt({ ...place, round: queue.visit.round, epoch, task, attempt, claim });
        found.push({
          attempt: id,
          ...place,
          project: slot.execution?.project ?? "",
          task,
          ...(command === null ? {} : { topic: command.topic, receiptTopic: command.receiptTopic }),
          n: attempt,
          worker: lease.worker,
          status: startedAt === 0 ? "claimed" : "running",
          startedAt: startedAt === 0 ? null : startedAt,
          leaseUntil: local || until === Number.POSITIVE_INFINITY ? null : until,
        });
      }
    }
  }
  return found;
}

/** Returns the number of open tasks that are not leased and wait neither for a time nor for a signal. */
function readyTasks({ state, openLeases }: HandlerQueue, now: number): number {
  const { tasks, progress, total } = state;
  // A sleeping task is in both counts, so sleeping tasks are subtracted once.
  const later = tasks.countRetrying(now) + progress.countWaiting(now) - progress.countSleeping(now);
  return total - tasks.settled.size - openLeases - later;
}

/** The number of open attempts at tasks, by handler. */
export function runningOf({ queues }: Slot): RunningCounts {
  return new Map(queues.map((queue) => [queue.state.plan.name, runningTasks(queue)]));
}

function runningTasks(queue: HandlerQueue): number {
  return queue.openLeases - (queue.leases.get(ENUMERATION)?.reported === false ? 1 : 0);
}

/** Returns the command handlers whose open leases are all in queues of a broker, with the oldest lease of each. */
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
