/**
 * Gives work to workers: leases on tasks and enumerations, from clean executions only. A task that may have been
 * started before an unclean stop is given out only after its start is committed; one that took its process down
 * twice gets a worker for itself.
 */

import type { HandlerPlan } from "../../kernel/definition/plan.ts";
import type { Execution } from "../../kernel/execution.ts";
import { journaledRuns } from "../../kernel/tasks/script-runs.ts";
import type { Checkpoint, CommandWork, Grant, GrantItem, ScriptWork } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import { fetchPage, taskText } from "../cache/task-pages.ts";
import { receiptDueAt, workText } from "../dispatch/command-work.ts";
import type { Ready } from "../dispatch/dispatcher.ts";
import { ALONE_AFTER_CRASHES, type HandlerQueue } from "../dispatch/handler-queue.ts";
import { countsOf } from "../dispatch/phase-counts.ts";
import type { RosterEntry } from "../dispatch/worker-roster.ts";
import { isLimited, takePermits } from "../limits/permits.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION, type Lease } from "./lease.ts";

/** Serves every worker that has room, in turn; then calls those who wait at limits that have room, until none does. */
export function grantAll(node: NodeState): void {
  if (node.closing) return;
  const { limits, dispatcher, roster } = node;
  for (let pass = 0; pass < PASSES_MAX; pass++) {
    if (dispatcher.size > 0 || roster.hasHold) serveWorkers(node);
    if (!limits.isCallable || limits.call(node.now) === 0) return;
  }
}

/** So that no mistake in the order of limits can hold the node up for ever. */
const PASSES_MAX = 10_000;

function serveWorkers(node: NodeState): void {
  for (const worker of [...node.roster.workers.values()]) {
    if (worker.alone !== null) tendAlone(node, worker);
    const passed: Ready[] = [];
    while (worker.room > 0) {
      const ready = node.dispatcher.next(worker, node.roster);
      if (ready === undefined) break;
      if (worker.queued && !hasRoomFor(worker, ready)) passed.push(ready);
      else give(node, ready, worker);
    }
    // Not for this one now, but perhaps for another.
    for (const { slot, desk } of passed) node.offer(slot, desk);
  }
}

/** Whether a worker that queues may have more of a handler, or one more handler; commands go to queues of their topics. */
function hasRoomFor(worker: RosterEntry, { slot, desk }: Ready): boolean {
  if (desk.openLeases >= worker.perDesk) return false;
  if (desk.state.plan.command !== null) return true;
  const key = `${slot.id}/${desk.key}`;
  if (worker.desks.has(key)) return true;
  if (worker.desks.size >= worker.desksMax) return false;
  worker.desks.add(key);
  return true;
}

/**
 * A task that must run alone gets the worker when it is empty. Others are held back for it only so long: one that runs
 * and has not killed its process yet gets company, and one that waits in vain steps aside and tries again later.
 */
function tendAlone(node: NodeState, worker: RosterEntry): void {
  const { alone } = worker;
  if (alone === null) return;
  const { slot, desk, task } = alone;
  // Another version gets the work by now: it waits for a worker with that one.
  const { wanted } = desk.state.plan;
  const project = slot.execution?.project ?? "";
  if (alone.kind === "waiting" && node.roster.servedBy(worker, wanted, project) === undefined)
    return endHold(node, worker);
  const isThere = slot.desks.includes(desk) && !desk.state.isClosed(task);
  if (alone.kind === "taken") {
    if (!isThere || alone.until <= node.now) worker.alone = null;
    return;
  }
  const canGo =
    isThere && slot.status === "clean" && slot.execution?.open === true && !slot.tenure.isYielding;
  if (isThere && alone.until > node.now && !(canGo && worker.held === 0)) return;
  worker.alone = null;
  desk.heldAlone--;
  if (canGo && worker.held === 0 && worker.room > 0) {
    desk.giveBack(task);
    giveAlone(node, slot, desk, { task, worker });
  } else if (isThere) {
    desk.setAside(task, node.now);
    node.wakeAt(slot, desk.nextDue(node.now));
  }
}

/** A worker goes: the task that waited for it to be empty waits for another. */
export function endHold(node: NodeState, worker: RosterEntry): void {
  const { alone } = worker;
  worker.alone = null;
  if (alone?.kind !== "waiting") return;
  alone.desk.heldAlone--;
  alone.desk.giveBack(alone.task);
  node.offer(alone.slot, alone.desk);
}

function give(node: NodeState, ready: Ready, worker: RosterEntry): void {
  const { slot, desk, wanted } = ready;
  const { execution } = slot;
  if (slot.status !== "clean" || execution === null || !execution.open || !slot.desks.includes(desk)) return;
  if (slot.tenure.isYielding) return;
  desk.servedAt = ++node.turns;
  const { plan } = desk.state;
  if (desk.wantsEnumeration(node.now) && plan.enumerator === wanted)
    // @plant enumeration inferred from the workers present 2
    giveEnumeration(node, slot, desk, worker);
  // @plant enumeration inferred from the workers present
  else if (node.enumeratorAt(slot, desk) !== null)
    return; // It is offered again when that worker has gone.
  else if (plan.wanted === wanted && giveTasks(node, slot, desk, worker) === "full") return; // It waits at the limit.
  node.offer(slot, desk);
}

function giveEnumeration(node: NodeState, slot: Slot, desk: HandlerQueue, worker: RosterEntry): void {
  const { state } = desk;
  const attempt = state.enumeration.ended + 1;
  const { epoch } = slot.tenure;
  const known = state.paged ? state.total : 0;
  const last = known === 0 ? null : taskText(node, slot, desk, known - 1);
  if (last === undefined) {
    fetchPage(node, slot, desk, known - 1);
    return;
  }
  const lease = newLease(node, desk, worker, { task: ENUMERATION, attempt, epoch, permits: [] });
  const resume =
    known === 0 ? null : { count: known, last: last ?? "null", checksum: state.enumeration.checksum };
  const item = { number: ENUMERATION, attempt, claim: lease.claim, task: null, checkpoints: null };
  const grant = newGrant(node, slot, desk, { do: "enumerate", items: [item], resume, worker });
  // What waits in a queue has not begun, and the end of this process is not its end.
  if (!slot.suspect || worker.queued) node.emit({ kind: "grant", worker: worker.id, grant });
  else
    node.enqueue(slot, {
      kind: "mark",
      mark: { name: enumerationMark(desk), value: attempt },
      held: { worker: worker.id, grant },
    });
}

/** The mark that says which enumeration attempt was started after an unclean stop. */
export function enumerationMark(desk: HandlerQueue): string {
  return `${desk.markName}!`;
}

function giveTasks(node: NodeState, slot: Slot, desk: HandlerQueue, worker: RosterEntry): "full" | "given" {
  const { state } = desk;
  const plain: GrantItem[] = [];
  const careful: GrantItem[] = [];
  // Under a limit permits are few: where others are ready too, a turn is short.
  const isShort = node.dispatcher.size > 0 && isLimited(node, slot, desk);
  const quantum = isShort ? LIMITED_QUANTUM : node.settings.quantum;
  let left = Math.min(Math.max(quantum, batchOf(state.plan)), worker.room);
  if (worker.queued) left = Math.min(left, worker.perDesk - desk.openLeases);
  let isFull = false;
  while (left > 0) {
    const task = desk.peek(node.now);
    if (task < 0) break;
    const crashes = state.tasks.crashes(task);
    if (/* @plant task that kills workers not alone */ crashes >= ALONE_AFTER_CRASHES && !worker.queued) {
      // Whoever is empty gets it, or the first that is busy would keep it from all others.
      const project = slot.execution?.project ?? "";
      const empty = worker.held === 0 ? worker : node.roster.emptyFor(state.plan.wanted, project);
      if (empty !== undefined && plain.length + careful.length === 0)
        return giveAlone(node, slot, desk, { task, worker: empty });
      if (empty !== undefined) break;
      desk.take(task);
      desk.heldAlone++;
      worker.holdFor("waiting", { slot, desk, task }, node.now);
      break;
    }
    const text = workText(node, slot, desk, task);
    if (text === null) continue;
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
    const attempt = state.tasks.nextAttempt(task);
    const lease = newLease(node, desk, worker, { task, attempt, epoch: slot.tenure.epoch, permits });
    const checkpoints = checkpointsOf(node, desk, task);
    const item = { number: task, attempt: lease.attempt, claim: lease.claim, task: text, checkpoints };
    if (worker.queued) plain.push(crashes > 0 ? { ...item, alone: true as const } : item);
    else if (task < desk.carefulBelow || desk.lapsesOf(task) >= CAREFUL_AFTER_LAPSES) {
      beginNow(node, desk, lease);
      careful.push(item);
    } else plain.push(item);
  }
  const work = workOf(state.plan);
  if (plain.length > 0)
    node.emit({
      kind: "grant",
      worker: worker.id,
      grant: newGrant(node, slot, desk, { do: work, items: plain, resume: null, worker }),
    });
  if (careful.length > 0)
    recordThenGive(
      node,
      slot,
      worker,
      newGrant(node, slot, desk, { do: work, items: careful, resume: null, worker }),
    );
  return isFull ? "full" : "given";
}

/** Tasks given out under a limit before others that are ready have their turn. */
const LIMITED_QUANTUM = 1;

/** One task for a worker that has nothing else; its start is journaled first. */
function giveAlone(
  node: NodeState,
  slot: Slot,
  desk: HandlerQueue,
  at: { task: number; worker: RosterEntry },
): "full" | "given" {
  const { task, worker } = at;
  const text = workText(node, slot, desk, task);
  if (text === null) return "given";
  if (text === undefined) {
    fetchPage(node, slot, desk, task);
    return "given";
  }
  const permits = takePermits(node, slot, desk, task);
  if (permits === "full") return "full";
  if (permits === "parked") return "given";
  desk.take(task);
  const attempt = desk.state.tasks.nextAttempt(task);
  const lease = newLease(node, desk, worker, { task, attempt, epoch: slot.tenure.epoch, permits });
  beginNow(node, desk, lease);
  worker.holdFor("taken", { slot, desk, task }, node.now);
  const checkpoints = checkpointsOf(node, desk, task);
  const items = [{ number: task, attempt: lease.attempt, claim: lease.claim, task: text, checkpoints }];
  recordThenGive(
    node,
    slot,
    worker,
    newGrant(node, slot, desk, { do: workOf(desk.state.plan), items, resume: null, worker }),
  );
  return "given";
}

/** The lease counts as begun from its grant on. */
function beginNow(node: NodeState, desk: HandlerQueue, lease: Lease): void {
  lease.recorded = true;
  lease.startedAt = node.now;
  lease.until = node.now + Math.max(node.settings.claimLeaseMs, node.heartbeatMs(desk.state.plan));
  lease.dueAt = receiptDueAt(node, desk, { task: lease.task, from: node.now, queued: false });
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

/** Claims of one attempt that lapsed: from then on its start counts from the claim, in case the task kills its worker. */
const CAREFUL_AFTER_LAPSES = 3;

function newLease(
  node: NodeState,
  desk: HandlerQueue,
  worker: RosterEntry,
  at: Pick<Lease, "task" | "attempt" | "epoch" | "permits">,
): Lease {
  const lease: Lease = {
    task: at.task,
    attempt: at.attempt,
    claim: desk.claimOf(at.task),
    epoch: at.epoch,
    worker: worker.id,
    local: worker.local,
    queued: worker.queued,
    startedAt: 0,
    sentAt: 0,
    isMarked: false,
    until: worker.queued ? Number.POSITIVE_INFINITY : node.now + node.settings.claimLeaseMs,
    dueAt: worker.queued
      ? receiptDueAt(node, desk, { task: at.task, from: node.now, queued: true })
      : Number.POSITIVE_INFINITY,
    recorded: false,
    reported: false,
    cancelled: false,
    asked: false,
    position: 0,
    lastLine: 0,
    permits: at.permits,
  };
  if (desk.state.plan.definition.rate !== undefined && at.task !== ENUMERATION) lease.rateAt = node.now;
  desk.leases.set(at.task, lease);
  desk.openLeases++;
  worker.held++;
  if (!worker.local && !worker.queued) worker.wanted--;
  return lease;
}

function newGrant(
  node: NodeState,
  slot: Slot,
  desk: HandlerQueue,
  what: Pick<Grant, "do" | "items" | "resume"> & { readonly worker: RosterEntry },
): Grant {
  const execution = slot.execution as Execution;
  const { plan } = desk.state;
  const { visit } = desk;
  const wanted = what.do === "enumerate" ? plan.enumerator : plan.wanted;
  const grant: Writable = {
    do: what.do,
    items: what.items,
    resume: what.resume,
    phase: visit.plan.name,
    visit: visit.visit,
    handler: plan.name,
    execution: slot.id,
    workflow: execution.plan.definition.name,
    project: execution.project,
    use: wanted.use,
    version: node.roster.servedBy(what.worker, wanted, execution.project)?.version ?? null,
    round: visit.round,
    // @plant grant names another partition's epoch
    epoch: slot.tenure.epoch,
    input: execution.input,
    timeoutMs: plan.timeoutMs,
    // @plant grant names another partition's epoch 2
    heartbeatMs: node.heartbeatMs(plan),
    phases: countsOf(desk, execution, what.do),
    batch: batchOf(plan),
    script: what.do === "script" ? scriptOf(plan) : null,
    command: what.do === "command" ? commandOf(plan) : null,
    trace: execution.trace,
  };
  if (desk.state.needsSingleCode) grant.single = true;
  if (what.do === "enumerate" && desk.state.identities !== null) grant.byIdentity = true;
  return grant;
}

type Writable = { -readonly [Field in keyof Grant]: Grant[Field] };

/** What earlier attempts journaled, as it is now: a sleep that is over is so by this clock, whatever the worker's says. */
function checkpointsOf(node: NodeState, desk: HandlerQueue, task: number): readonly Checkpoint[] | null {
  const progress = desk.state.progress.tasks.get(task);
  if (progress === undefined || progress.checkpoints.length === 0) return null;
  if (desk.state.plan.mode === "script") {
    // @plant journaled runs done again
    const runs = journaledRuns(desk.state, task);
    return runs.length === 0 ? null : runs;
  }
  return progress.checkpoints.map((known) =>
    known.kind === "sleep" && known.due <= node.now ? { ...known, due: 0 } : known,
  );
}

function workOf(plan: HandlerPlan): Grant["do"] {
  return plan.mode === "script" || plan.mode === "command" ? plan.mode : plan.work;
}

function commandOf({ command }: HandlerPlan): CommandWork | null {
  if (command === null) return null;
  const { step, topic, receiptTopic } = command;
  return { step, topic, receiptTopic };
}

function batchOf(plan: HandlerPlan): number {
  return plan.definition.batch ?? 1;
}

const scripts = new WeakMap<HandlerPlan, ScriptWork>();

/** The runs of a script handler, as every grant of it carries them. */
export function scriptOf(plan: HandlerPlan): ScriptWork {
  let script = scripts.get(plan);
  if (script === undefined) {
    const { script: runs = [], state, resume } = plan.definition;
    script = {
      runs: runs.map(({ name, expression, timeout }) => ({ name, expression, timeoutMs: timeout ?? null })),
      state: state === undefined ? null : JSON.stringify(state),
      resume: resume !== false,
    };
    scripts.set(plan, script);
  }
  return script;
}
