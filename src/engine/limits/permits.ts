/** Acquires the permits of a lease, by project, handler and key. A handler that finds a limit full waits at it. */
import { encodeName } from "../../kernel/definition/names.ts";
import type { Execution } from "../../kernel/execution.ts";
import type { Slot } from "../cache/slot.ts";
import { fetchPage, taskKey, taskText } from "../cache/task-pages.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { Lease } from "../leases/lease.ts";
import type { NodeState } from "../node-state.ts";
import { projectScope, rateName } from "./limits.ts";
import type { Waiter } from "./wait-queue.ts";

/** The limits under which an attempt counts: those whose permits it holds, and the rates that count its start. */
export interface Permits {
  readonly permits: readonly string[];
  readonly rates: readonly string[];
}

/**
 * Acquires permits for a task. The result `full` means that the limit of its handler is reached, `parked` that a limit of its key is
 * reached.
 */
export function acquirePermits(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  task: number,
): Permits | "full" | "parked" {
  if (!isLimited(node, slot, queue)) return NO_PERMITS;
  const { plan } = queue.state;
  const { concurrency, concurrencyPerKey, ratePerKey, rate } = plan.definition;
  const { project } = slot.execution as Execution;
  const scope = `${project}/${plan.scope}`;
  const who = waiterOf(slot, queue);
  const again = () => offerAgain(node, slot.id, queue.key);
  if (node.limits.isBlocked(scope, node.now)) {
    node.limits.wait(scope, who, again);
    return "full";
  }
  const adopted = adoptedScope(scope);
  if (concurrencyPerKey !== undefined && (node.limits.find(adopted)?.held ?? 0) > 0) {
    // While adopted attempts have unknown keys, no task with a key is leased.
    node.limits.declareBarrier(adopted);
    node.limits.wait(adopted, who, again);
    return "full";
  }
  const ofRate = rate === undefined ? null : rateName(scope);
  // @plant permit of a project not given back 2
  // @plant limit of a project ignored
  const ofProject = node.settings.projects[project]?.concurrency === undefined ? null : projectScope(project);
  const names = [ofRate, ofProject, concurrency === undefined ? null : scope];
  node.limits.unreserve(names, who.id);
  const until = node.now + node.settings.permitReserveMs;
  const permits: string[] = [];
  for (const name of names) {
    if (name === null) continue;
    if (!node.limits.mayAcquire(name, who, node.now)) {
      node.limits.reserve(permits, who.id, until);
      node.limits.wait(name, who, again);
      return "full";
    }
    permits.push(name);
  }
  const isKeyed = concurrencyPerKey !== undefined || ratePerKey !== undefined;
  const key = isKeyed ? taskKey(node, slot, queue, task) : undefined;
  const ofKey = key === undefined ? null : declareKey(node, slot, queue, key);
  if (key !== undefined && ofKey !== null) {
    const keyWho = { ...who, id: `${who.id}/${key}` };
    if (ofKey.rate !== null) node.limits.unreserve([ofKey.rate], keyWho.id);
    const full = ofKey.names.find((name) => !node.limits.mayAcquire(name, keyWho, node.now));
    if (full !== undefined || queue.hasOlderParked(key, task)) {
      node.limits.reserve(permits, who.id, until);
      if (ofKey.rate !== null && full === ofKey.limit) node.limits.reserve([ofKey.rate], keyWho.id, until);
      queue.dequeue(task);
      queue.park(key, task);
      waitForKey(node, slot, queue, { key, name: full ?? (ofKey.names[0] as string) });
      return "parked";
    }
    if (ofKey.limit !== null) {
      node.limits.acquire(ofKey.limit, keyWho);
      permits.push(ofKey.limit);
    }
    // @plant starts not counted under the rate of a key
    if (ofKey.rate !== null) node.limits.start(ofKey.rate, keyWho, node.now);
    // Other parked tasks of this handler wait at the limit of the key again, behind the tasks of other handlers.
    if (queue.hasParked(key))
      waitForKey(node, slot, queue, { key, name: ofKey.rate ?? (ofKey.limit as string) });
  }
  for (const name of names) if (name !== null && name !== ofRate) node.limits.acquire(name, who);
  if (ofRate !== null) node.limits.start(ofRate, who, node.now);
  const rates = [ofRate, ofKey?.rate ?? null].filter((name) => name !== null);
  return {
    // The permit of a rate does not belong to the lease: it ends by time.
    // @plant permit of a project not given back
    permits: permits.filter((permit) => permit !== ofRate),
    rates: rates.length === 0 ? NO_NAMES : rates,
  };
}

/** Declares the limits of a key, and returns their names. */
function declareKey(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  key: string,
): { readonly limit: string | null; readonly rate: string | null; readonly names: readonly string[] } {
  const { plan } = queue.state;
  const { concurrencyPerKey, ratePerKey } = plan.definition;
  const name = `${slot.execution?.project}/${plan.scope}#${key}`;
  if (concurrencyPerKey !== undefined)
    node.limits.declareKey(name, node.declared(concurrencyPerKey, plan, slot.age));
  if (ratePerKey !== undefined) node.declareKeyRate(name, ratePerKey, slot.age);
  const limit = concurrencyPerKey === undefined ? null : name;
  const rate = ratePerKey === undefined ? null : rateName(name);
  return { limit, rate, names: [rate, limit].filter((one) => one !== null) };
}

/** Whether the handler's tasks need permits of any limit. */
export function isLimited(node: NodeState, slot: Slot, queue: HandlerQueue): boolean {
  const { concurrency, concurrencyPerKey, ratePerKey, rate } = queue.state.plan.definition;
  if (concurrency !== undefined || concurrencyPerKey !== undefined) return true;
  if (rate !== undefined || ratePerKey !== undefined) return true;
  return node.settings.projects[slot.execution?.project ?? ""]?.concurrency !== undefined;
}

/** Whether the handler's next task finds room under the limits that apply to all of its tasks. */
export function findsRoom(node: NodeState, slot: Slot, queue: HandlerQueue): boolean {
  const { concurrency, rate } = queue.state.plan.definition;
  const project = slot.execution?.project ?? "";
  const scope = `${project}/${queue.state.plan.scope}`;
  const { limits, now } = node;
  if (rate !== undefined && !limits.hasRoom(rateName(scope), now)) return false;
  if (limits.isBlocked(scope, now)) return false;
  if (queue.leases.size > queue.openLeases) return true;
  if (
    node.settings.projects[project]?.concurrency !== undefined &&
    !limits.hasRoom(projectScope(project), now)
  )
    return false;
  return concurrency === undefined || limits.hasRoom(scope, now);
}

/** Returns the handler in the form of a waiter at limits. */
export function waiterOf(slot: Slot, queue: HandlerQueue): Waiter {
  return { id: `${encodeName(slot.id)}/${queue.key}`, age: slot.age, priority: queue.state.plan.priority };
}

/** Records that an attempt began at this time. Under a rate, its start counts from then on. */
export function noteBegun(node: NodeState, lease: Lease, at = node.now): void {
  if (lease.rateAt === undefined) return;
  for (const name of lease.rates ?? []) node.limits.began(name, lease.rateAt, at);
  lease.rateAt = at;
}

/** Whether the rates allow an attempt that was leased earlier to begin now. */
export function mayBegin(node: NodeState, { rateAt, rates = [] }: Lease): boolean {
  if (rateAt === undefined) return true;
  return rates.every((name) => node.limits.mayBegin(name, rateAt, node.now));
}

const NO_NAMES: readonly string[] = [];
const NO_PERMITS: Permits = { permits: NO_NAMES, rates: NO_NAMES };

/** Returns the name of the limit that counts adopted attempts of a handler whose keys are not known yet. */
function adoptedScope(scope: string): string {
  return `${scope}!`;
}

/** Whether there is a permit to adopt an attempt of a former owner. The block of limits after a takeover does not apply to adoptions. */
export function hasRoomToAdopt(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): boolean {
  return adoptedNames(node, slot, queue, task).every((name) => {
    const limit = node.limits.find(name);
    return limit === null || limit.held < limit.max;
  });
}

/** Acquires the permits of an adopted attempt. */
export function adoptedPermits(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  task: number,
): readonly string[] {
  const permits = adoptedNames(node, slot, queue, task);
  for (const permit of permits) node.limits.adopt(permit);
  const { concurrencyPerKey } = queue.state.plan.definition;
  if (concurrencyPerKey !== undefined && taskText(node, slot, queue, task) === undefined)
    fetchPage(node, slot, queue, task);
  return permits;
}

/** Called after a page was read: adopted attempts whose keys are now known acquire the permits of their keys. */
export function nameKeys(node: NodeState, slot: Slot, queue: HandlerQueue): void {
  if (queue.state.plan.definition.concurrencyPerKey === undefined) return;
  const adopted = adoptedScope(`${slot.execution?.project}/${queue.state.plan.scope}`);
  for (const lease of queue.leases.values()) {
    if (!lease.permits.includes(adopted)) continue;
    if (taskText(node, slot, queue, lease.task) === undefined)
      return fetchPage(node, slot, queue, lease.task);
    const names = keyNames(node, slot, queue, lease.task);
    for (const name of names) node.limits.adopt(name);
    lease.permits = [...lease.permits.filter((permit) => permit !== adopted), ...names];
    node.limits.endAdopted(adopted);
    node.limits.release(adopted);
  }
}

/**
 * Returns the names of the limits of the task's key; none if the task has no key. While the page of the task is not in memory,
 * returns the name of the limit for unknown keys.
 */
function keyNames(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): string[] {
  const { plan } = queue.state;
  const { concurrencyPerKey } = plan.definition;
  if (concurrencyPerKey === undefined) return [];
  const scope = `${slot.execution?.project}/${plan.scope}`;
  if (taskText(node, slot, queue, task) === undefined) return [adoptedScope(scope)];
  const key = taskKey(node, slot, queue, task);
  if (key === undefined) return [];
  const name = `${scope}#${key}`;
  node.limits.declareKey(name, node.declared(concurrencyPerKey, plan, slot.age));
  return [name];
}

function adoptedNames(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): string[] {
  const { concurrency } = queue.state.plan.definition;
  const scope = `${slot.execution?.project}/${queue.state.plan.scope}`;
  const project = slot.execution?.project ?? "";
  return [
    ...(node.settings.projects[project]?.concurrency === undefined ? [] : [projectScope(project)]),
    ...(concurrency === undefined ? [] : [scope]),
    ...keyNames(node, slot, queue, task),
  ];
}

function waitForKey(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  at: { key: string; name: string },
): void {
  const who = waiterOf(slot, queue);
  node.limits.wait(at.name, { ...who, id: `${who.id}/${at.key}` }, () => {
    const now = queueNow(node, slot.id, queue.key);
    if (now?.queue.unpark(at.key) === true) node.offer(now.slot, now.queue);
  });
}

function offerAgain(node: NodeState, execution: string, queueKey: string): void {
  const now = queueNow(node, execution, queueKey);
  if (now !== null) node.offer(now.slot, now.queue);
}

/** Returns the current queue of a handler. A reload of the execution may have replaced the queue that began to wait. */
function queueNow(
  node: NodeState,
  execution: string,
  queueKey: string,
): { slot: Slot; queue: HandlerQueue } | null {
  const slot = node.slots.get(execution);
  const queue = slot?.queues.find((candidate) => candidate.key === queueKey);
  return slot === undefined || queue === undefined ? null : { slot, queue };
}
