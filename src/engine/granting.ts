/**
 * Gives work to workers: leases on tasks and enumerations, from clean executions only. A task that may have been
 * started before an unclean stop is given out only after its start is committed; one that took its process down
 * twice gets a worker for itself.
 */
import type { Execution } from "../kernel/execution.ts";
import type { Plan } from "../kernel/plan.ts";
import type { Grant, GrantItem, PhaseCounts } from "../protocol/work.ts";
import type { Ready } from "./dispatcher.ts";
import { ALONE_AFTER_CRASHES, type HandlerDesk } from "./handler-desk.ts";
import { ENUMERATION, type Lease } from "./lease.ts";
import type { NodeState } from "./node-state.ts";
import type { Page } from "./page-cache.ts";
import type { Slot } from "./slot.ts";
import type { RosterEntry } from "./worker-roster.ts";

/** Serves every worker that has room, in turn. */
export function grantAll(node: NodeState): void {
  if (node.closing || node.dispatcher.size === 0) return;
  for (const worker of [...node.roster.workers.values()]) {
    while (worker.room > 0) {
      const ready = node.dispatcher.next(worker);
      if (ready === undefined) break;
      give(node, ready, worker);
    }
  }
}

function give(node: NodeState, ready: Ready, worker: RosterEntry): void {
  const { slot, desk, use } = ready;
  const { execution } = slot;
  if (slot.status !== "clean" || execution === null || !execution.open || !slot.desks.includes(desk)) return;
  const { plan } = desk.state;
  const servesEnumeration =
    plan.work === "process" &&
    desk.state.impliesTask &&
    worker.serves.get(use)?.enumerates === true &&
    desk.leases.size === 0 &&
    desk.state.tasks.ended(0) === 0;
  if (
    (desk.wantsEnumeration(node.now) && (plan.enumerateUse ?? plan.use) === use) ||
    (servesEnumeration && desk.suspectUntil <= node.now)
  ) {
    giveEnumeration(node, slot, desk, worker);
  } else if (plan.use === use && giveTasks(node, slot, desk, worker) === "full") return; // It waits at the limit.
  node.offer(slot, desk);
}

function giveEnumeration(node: NodeState, slot: Slot, desk: HandlerDesk, worker: RosterEntry): void {
  const { state } = desk;
  const attempt = state.enumeration.ended + 1;
  const known = state.paged ? state.total : 0;
  const last = known === 0 ? null : taskText(node, slot, desk, known - 1);
  if (last === undefined) {
    fetchPage(node, slot, desk, known - 1);
    return;
  }
  const lease = newLease(node, desk, worker, { task: ENUMERATION, attempt, permits: [] });
  const resume =
    known === 0 ? null : { count: known, last: last ?? "null", checksum: state.enumeration.checksum };
  const item = { number: ENUMERATION, attempt, claim: lease.claim, task: null };
  const grant = newGrant(node, slot, desk, { do: "enumerate", items: [item], resume });
  if (!slot.suspect) node.emit({ kind: "grant", worker: worker.id, grant });
  else
    node.enqueue(slot, {
      kind: "mark",
      mark: { name: enumerationMark(desk), value: attempt },
      held: { worker: worker.id, grant },
    });
}

/** The mark that says which enumeration attempt was started after an unclean stop. */
export function enumerationMark(desk: HandlerDesk): string {
  return `${desk.markName}!`;
}

function giveTasks(node: NodeState, slot: Slot, desk: HandlerDesk, worker: RosterEntry): "full" | "given" {
  const { state } = desk;
  const plain: GrantItem[] = [];
  const careful: GrantItem[] = [];
  let left = Math.min(node.settings.quantum, worker.room);
  let isFull = false;
  while (left > 0) {
    const task = desk.peek(node.now);
    if (task < 0) break;
    const isAlone = state.tasks.crashes(task) >= ALONE_AFTER_CRASHES;
    if (isAlone && worker.held > 0) {
      worker.alone = "waiting";
      break;
    }
    const text = taskText(node, slot, desk, task);
    if (text === undefined) {
      fetchPage(node, slot, desk, task);
      break;
    }
    const permits = takePermits(node, slot, desk, task);
    if (permits === "full") {
      isFull = true;
      break;
    }
    if (permits === "parked") continue;
    desk.take(task);
    left--;
    const lease = newLease(node, desk, worker, { task, attempt: state.tasks.nextAttempt(task), permits });
    const item = { number: task, attempt: lease.attempt, claim: lease.claim, task: text };
    if (isAlone || task < desk.carefulBelow || desk.claimOf(task) >= CAREFUL_AFTER_CLAIMS) {
      lease.recorded = true;
      lease.startedAt = node.now;
      lease.until = node.now + Math.max(node.settings.claimLeaseMs, state.plan.heartbeatMs);
      careful.push(item);
    } else plain.push(item);
    if (isAlone) {
      worker.alone = "taken";
      break;
    }
  }
  const work = state.plan.work;
  if (plain.length > 0)
    node.emit({
      kind: "grant",
      worker: worker.id,
      grant: newGrant(node, slot, desk, { do: work, items: plain, resume: null }),
    });
  if (careful.length > 0)
    recordThenGive(
      node,
      slot,
      worker,
      newGrant(node, slot, desk, { do: work, items: careful, resume: null }),
    );
  return isFull ? "full" : "given";
}

/** The start is committed first; the grant goes out with that commit. */
function recordThenGive(node: NodeState, slot: Slot, worker: RosterEntry, grant: Grant): void {
  const { phase, visit, handler, round } = grant;
  const attempts = grant.items.map(({ number, attempt }) => ({ task: number, attempt, worker: worker.id }));
  node.enqueue(slot, {
    kind: "message",
    message: { kind: "started", phase, visit, handler, round, attempts },
    request: null,
    held: { worker: worker.id, grant },
  });
}

/** Permits for a task; `full`: its handler's limit is reached; `parked`: its key's is, and it was set aside. */
function takePermits(
  node: NodeState,
  slot: Slot,
  desk: HandlerDesk,
  task: number,
): readonly string[] | "full" | "parked" {
  const { plan } = desk.state;
  const { concurrency, concurrencyPerKey } = plan.definition;
  if (concurrency === undefined && concurrencyPerKey === undefined) return NO_PERMITS;
  const scope = `${(slot.execution as Execution).project}/${plan.use}`;
  const who = `${slot.id}/${desk.key}`;
  if (node.limits.isBlocked(scope, node.now)) {
    node.limits.wait(scope, who, () => offerAgain(node, slot.id, desk.key));
    return "full";
  }
  const adopted = adoptedScope(scope);
  if (concurrencyPerKey !== undefined && (node.limits.look(adopted)?.held ?? 0) > 0) {
    // Keys of attempts taken over from a former owner are not known: until they have ended, none is given out.
    node.limits.wait(adopted, who, () => offerAgain(node, slot.id, desk.key));
    return "full";
  }
  const permits: string[] = [];
  if (concurrency !== undefined) {
    if (!node.limits.hasRoom(scope, node.now)) {
      node.limits.wait(scope, who, () => offerAgain(node, slot.id, desk.key));
      return "full";
    }
    permits.push(scope);
  }
  const key = concurrencyPerKey === undefined ? undefined : taskKey(node, slot, desk, task);
  if (key !== undefined && concurrencyPerKey !== undefined) {
    const name = `${scope}#${key}`;
    node.limits.declare(name, concurrencyPerKey);
    if (!node.limits.hasRoom(name, node.now)) {
      desk.take(task);
      if (!desk.hasParked(key)) waitForKey(node, slot, desk, { key, name });
      desk.park(key, task);
      return "parked";
    }
    permits.push(name);
  }
  for (const permit of permits) node.limits.take(permit);
  return permits;
}

/** Claims of one attempt that lapsed: from then on its start counts from the claim, in case the task kills its worker. */
const CAREFUL_AFTER_CLAIMS = 3;

const NO_PERMITS: readonly string[] = [];

/** Counts the adopted attempts of a handler with a limit per key. */
function adoptedScope(scope: string): string {
  return `${scope}!`;
}

/** Permits for an attempt that is taken over as it is, whether or not there is room. */
export function adoptedPermits(node: NodeState, slot: Slot, desk: HandlerDesk): readonly string[] {
  const { concurrency, concurrencyPerKey } = desk.state.plan.definition;
  const scope = `${slot.execution?.project}/${desk.state.plan.use}`;
  const permits = [
    ...(concurrency === undefined ? [] : [scope]),
    ...(concurrencyPerKey === undefined ? [] : [adoptedScope(scope)]),
  ];
  for (const permit of permits) node.limits.take(permit);
  return permits;
}

function waitForKey(node: NodeState, slot: Slot, desk: HandlerDesk, at: { key: string; name: string }): void {
  node.limits.wait(at.name, `${slot.id}/${desk.key}/${at.key}`, () => {
    const now = deskNow(node, slot.id, desk.key);
    if (now === null || !now.desk.unpark(at.key)) return;
    if (now.desk.hasParked(at.key)) waitForKey(node, now.slot, now.desk, at);
    node.offer(now.slot, now.desk);
  });
}

function offerAgain(node: NodeState, execution: string, deskKey: string): void {
  const now = deskNow(node, execution, deskKey);
  if (now !== null) node.offer(now.slot, now.desk);
}

/** The desk as it is now: a reload may have replaced the one that began to wait. */
function deskNow(
  node: NodeState,
  execution: string,
  deskKey: string,
): { slot: Slot; desk: HandlerDesk } | null {
  const slot = node.slots.get(execution);
  const desk = slot?.desks.find((candidate) => candidate.key === deskKey);
  return slot === undefined || desk === undefined ? null : { slot, desk };
}

function newLease(
  node: NodeState,
  desk: HandlerDesk,
  worker: RosterEntry,
  at: { task: number; attempt: number; permits: readonly string[] },
): Lease {
  const lease: Lease = {
    task: at.task,
    attempt: at.attempt,
    claim: desk.claimOf(at.task),
    epoch: node.fence.epoch,
    worker: worker.id,
    local: worker.local,
    startedAt: 0,
    until: node.now + node.settings.claimLeaseMs,
    recorded: false,
    reported: false,
    cancelled: false,
    position: 0,
    permits: at.permits,
  };
  desk.leases.set(at.task, lease);
  desk.openLeases++;
  worker.held++;
  if (!worker.local) worker.wanted--;
  return lease;
}

function newGrant(
  node: NodeState,
  slot: Slot,
  desk: HandlerDesk,
  what: Pick<Grant, "do" | "items" | "resume">,
): Grant {
  const execution = slot.execution as Execution;
  const { plan } = desk.state;
  const { visit } = desk;
  return {
    do: what.do,
    items: what.items,
    resume: what.resume,
    phase: visit.plan.name,
    visit: visit.visit,
    handler: plan.name,
    execution: slot.id,
    workflow: execution.plan.definition.name,
    project: execution.project,
    use: what.do === "enumerate" ? (plan.enumerateUse ?? plan.use) : plan.use,
    version: plan.definition.version ?? null,
    round: visit.round,
    epoch: node.fence.epoch,
    input: execution.input,
    timeoutMs: plan.timeoutMs,
    heartbeatMs: plan.heartbeatMs,
    phases: countsOf(desk, execution, what.do),
  };
}

/** What earlier phases came to does not change while a visit lasts; only a decision looks at its own visit too. */
function countsOf(desk: HandlerDesk, execution: Execution, work: Grant["do"]): PhaseCounts {
  if (work === "next") return phaseCounts(execution);
  desk.counts ??= phaseCounts(execution);
  return desk.counts;
}

/** Counts of every visit so far, the current one as far as it is; phases that were not visited have none. */
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

/** The counts of a plan's phases before any of them is visited. */
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

/** The task's JSON text; undefined if its page is not in memory. */
function taskText(node: NodeState, slot: Slot, desk: HandlerDesk, task: number): string | undefined {
  if (!desk.state.paged) return (slot.execution as Execution).input;
  const page = pageAt(node, slot, desk, task);
  return page?.tasks[task - page.from];
}

function taskKey(node: NodeState, slot: Slot, desk: HandlerDesk, task: number): string | undefined {
  const page = pageAt(node, slot, desk, task);
  return page?.keys?.[task - page.from];
}

/** The page with the task, if it is in memory; the desk remembers the last one, since tasks come in order. */
function pageAt(node: NodeState, slot: Slot, desk: HandlerDesk, task: number): Page | undefined {
  const last = desk.page;
  if (last !== null && task >= last.from && task < last.from + last.tasks.length) return last;
  const page = node.pages.get(slot.id, desk.state.pageOf(task));
  if (page !== undefined) desk.page = page;
  return page;
}

function fetchPage(node: NodeState, slot: Slot, desk: HandlerDesk, task: number): void {
  const seq = desk.state.pageOf(task);
  if (desk.fetching === seq) return;
  desk.fetching = seq;
  node.emit({ kind: "read-page", execution: slot.id, seq });
}
