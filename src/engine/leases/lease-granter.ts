/**
 * Grants leases on tasks and enumerations of clean executions to workers. A task that may have started before an unclean stop is
 * granted only after its new start is committed. A task that has crashed its process twice gets a worker for itself.
 */
import type { HandlerPlan } from "../../kernel/definition/plan.ts";
import type { Execution } from "../../kernel/execution.ts";
import { journaledRuns } from "../../kernel/tasks/script-runs.ts";
import type { Checkpoint, CommandWork, Grant, GrantItem, ScriptWork } from "../../protocol/work.ts";
import type { HeldGrant, Slot } from "../cache/slot.ts";
import { compensationOf, fetchPage, taskText } from "../cache/task-pages.ts";
import { receiptDueAt, workText } from "../dispatch/command-work.ts";
import type { Ready } from "../dispatch/dispatcher.ts";
import { ALONE_AFTER_CRASHES, type HandlerQueue } from "../dispatch/handler-queue.ts";
import { countsOf } from "../dispatch/phase-counts.ts";
import type { RosterEntry } from "../dispatch/worker-roster.ts";
import { acquirePermits, isLimited, mayBegin, noteBegun, type Permits } from "../limits/permits.ts";
import type { NodeState } from "../node-state.ts";
import { addLease, ENUMERATION, type Lease } from "./lease.ts";

/**
 * Gives work to every worker with room, in turn. Then offers the handlers again that wait for limits which have room, and repeats
 * both until no handler waits for such a limit.
 */
export function grantAll(node: NodeState): void {
  if (node.closing) return;
  const { limits, dispatcher, roster } = node;
  for (let pass = 0; pass < PASSES_MAX; pass++) {
    if (dispatcher.size > 0 || roster.hasHold) serveWorkers(node);
    if (!limits.isCallable || limits.callWaiters(node.now) === 0) return;
  }
}

/** The most passes of the loop that grants. It makes sure that a bug in the order of limits cannot block the node. */
const PASSES_MAX = 10_000;

function serveWorkers(node: NodeState): void {
  for (const worker of [...node.roster.workers.values()]) {
    if (worker.alone !== null) tendAlone(node, worker);
    const passed: Ready[] = [];
    while (worker.room > 0) {
      const ready = node.dispatcher.next(worker, node.roster);
      if (ready === undefined) break;
      if (worker.queued && !canQueue(worker, ready, node.now)) passed.push(ready);
      else serve(node, ready, worker);
    }
    // Offers the skipped handlers again, because another worker may have room for them.
    for (const { slot, queue } of passed) node.offer(slot, queue);
  }
}

/**
 * Whether a worker that forwards to queues may get more tasks of this handler, or tasks of one more handler. Commands always may:
 * they go to the queues of their topics. A task with journaled steps waits for another kind of worker, and so do the tasks after it.
 */
function canQueue(worker: RosterEntry, { slot, queue }: Ready, now: number): boolean {
  if (queue.openLeases >= worker.perQueue || queue.needsJournal(queue.peek(now))) return false;
  if (queue.state.plan.command !== null) return true;
  const key = `${slot.id}/${queue.key}`;
  if (worker.queues.has(key)) return true;
  if (worker.queues.size >= worker.queuesMax) return false;
  worker.queues.add(key);
  return true;
}

/**
 * Grants a task that must run alone, once its worker has no other task. Until then other tasks are held back from the worker, for a
 * limited time. After that time, a running task gets other tasks beside it, and a waiting task is set aside for a while.
 */
function tendAlone(node: NodeState, worker: RosterEntry): void {
  const { alone } = worker;
  if (alone === null) return;
  const { slot, queue, task } = alone;
  // Work of this code goes to another version now, so the task waits for a worker with that version.
  const { wanted } = queue.state.plan;
  const project = slot.execution?.project ?? "";
  if (alone.kind === "waiting" && node.roster.servedBy(worker, wanted, project) === undefined)
    return endHold(node, worker);
  const isThere = slot.queues.includes(queue) && !queue.state.isClosed(task);
  if (alone.kind === "taken") {
    if (!isThere || alone.until <= node.now) worker.alone = null;
    return;
  }
  const canGo =
    isThere &&
    slot.status === "clean" &&
    slot.stepFirst === 0 &&
    slot.execution?.open === true &&
    !slot.tenure.isYielding;
  if (isThere && alone.until > node.now && !(canGo && worker.held === 0)) return;
  worker.alone = null;
  queue.endHold(task);
  if (canGo && worker.held === 0 && worker.room > 0) {
    queue.requeue(task);
    grantAlone(node, slot, queue, { task, worker });
  } else if (isThere) {
    queue.setAside(task, node.now);
    node.wakeAt(slot, queue.nextDue(node.now));
  }
}

/** Called when a worker leaves: requeues the task that waited to run alone on this worker. */
export function endHold(node: NodeState, worker: RosterEntry): void {
  const { alone } = worker;
  worker.alone = null;
  if (alone?.kind !== "waiting") return;
  alone.queue.endHold(alone.task);
  alone.queue.requeue(alone.task);
  node.offer(alone.slot, alone.queue);
}

function serve(node: NodeState, ready: Ready, worker: RosterEntry): void {
  const { slot, queue, wanted } = ready;
  const { execution } = slot;
  if (slot.status !== "clean" || execution === null || !execution.open || !slot.queues.includes(queue))
    return;
  if (slot.tenure.isYielding) return;
  // Messages that a lost answer brought back are stepped first, because their attempts may have ended. Then the execution is offered again.
  if (slot.stepFirst > 0) return;
  queue.servedAt = ++node.turns;
  queue.waitsSince = node.now;
  const { plan } = queue.state;
  if (queue.wantsEnumeration(node.now) && plan.enumerator === wanted)
    // @plant enumeration inferred from the workers present 2
    grantEnumeration(node, slot, queue, worker);
  // @plant enumeration inferred from the workers present
  else if (node.enumeratorAt(slot, queue) !== null)
    return; // It is offered again when that worker has gone.
  else if (plan.wanted === wanted && grantTasks(node, slot, queue, worker) === "full") return; // It waits at the limit.
  node.offer(slot, queue);
}

function grantEnumeration(node: NodeState, slot: Slot, queue: HandlerQueue, worker: RosterEntry): void {
  const { state } = queue;
  const attempt = state.enumeration.ended + 1;
  const { epoch } = slot.tenure;
  const { count: known, last: lastTask } = state.enumeration;
  const last = known === 0 ? null : taskText(node, slot, queue, lastTask);
  if (last === undefined) {
    fetchPage(node, slot, queue, lastTask);
    return;
  }
  const lease = newLease(node, slot, queue, {
    worker,
    task: ENUMERATION,
    attempt,
    epoch,
    permits: [],
    rates: [],
  });
  const resume =
    known === 0 ? null : { count: known, last: last ?? "null", checksum: state.enumeration.checksum };
  const item = { number: ENUMERATION, attempt, claim: lease.claim, task: null, checkpoints: null };
  const grant = newGrant(node, slot, queue, { do: "enumerate", items: [item], resume, worker });
  // Tasks in a broker's queue have not begun, and they do not end with this process. So they are granted without a commit first.
  if (!slot.suspect || worker.queued) node.emit({ kind: "grant", worker: worker.id, grant });
  else
    node.enqueue(slot, {
      kind: "mark",
      mark: { name: enumerationMark(queue), value: attempt },
      held: { worker: worker.id, grant },
    });
}

/** Returns the name of the mark that says which enumeration attempt was started after an unclean stop. */
export function enumerationMark(queue: HandlerQueue): string {
  return `${queue.markName}!`;
}

function grantTasks(node: NodeState, slot: Slot, queue: HandlerQueue, worker: RosterEntry): "full" | "given" {
  const { state } = queue;
  const plain: GrantItem[] = [];
  const careful: GrantItem[] = [];
  // If the handler has a limit and other handlers are ready, it gets only a short turn, because permits are few.
  const isShort = node.dispatcher.size > 0 && isLimited(node, slot, queue);
  const quantum = isShort ? LIMITED_QUANTUM : node.settings.quantum;
  let left = Math.min(Math.max(quantum, batchOf(state.plan)), worker.room);
  if (worker.queued) left = Math.min(left, worker.perQueue - queue.openLeases);
  let isFull = false;
  while (left > 0) {
    const task = queue.peek(node.now);
    if (task < 0 || (worker.queued && queue.needsJournal(task))) break;
    const crashes = state.tasks.crashes(task);
    if (/* @plant task that kills workers not alone */ crashes >= ALONE_AFTER_CRASHES && !worker.queued) {
      // The task may go to any worker without other tasks. Otherwise the first busy worker would keep it from all others.
      const project = slot.execution?.project ?? "";
      const empty = worker.held === 0 ? worker : node.roster.emptyFor(state.plan.wanted, project);
      if (empty !== undefined && plain.length + careful.length === 0)
        return grantAlone(node, slot, queue, { task, worker: empty });
      if (empty !== undefined) break;
      queue.dequeue(task);
      queue.holdAlone(task);
      worker.holdFor("waiting", { slot, queue, task }, node.now);
      break;
    }
    const content = contentOf(node, slot, queue, task);
    if (content === null) continue;
    if (content === undefined) break;
    const permits = acquirePermits(node, slot, queue, task);
    if (permits === "full") {
      isFull = true;
      break;
    }
    if (permits === "parked") continue;
    queue.dequeue(task);
    left--;
    const attempt = state.tasks.nextAttempt(task);
    const lease = newLease(node, slot, queue, {
      worker,
      task,
      attempt,
      epoch: slot.tenure.epoch,
      ...permits,
    });
    const checkpoints = checkpointsOf(node, queue, task);
    const plainItem = { number: task, attempt: lease.attempt, claim: lease.claim, ...content, checkpoints };
    const item = worker.queued && crashes > 0 ? { ...plainItem, alone: true as const } : plainItem;
    if (!isCareful(queue, task, worker)) {
      plain.push(item);
      continue;
    }
    if (worker.queued) lease.recorded = true;
    else beginNow(node, queue, lease);
    careful.push(item);
  }
  const work = workOf(state.plan);
  if (plain.length > 0)
    node.emit({
      kind: "grant",
      worker: worker.id,
      grant: newGrant(node, slot, queue, { do: work, items: plain, resume: null, worker }),
    });
  if (careful.length > 0)
    recordThenGrant(
      node,
      slot,
      worker,
      newGrant(node, slot, queue, { do: work, items: careful, resume: null, worker }),
    );
  return isFull ? "full" : "given";
}

/**
 * Whether the start of a task must be committed before the task is granted, because it may have begun before, has crashed a worker,
 * or has a compensation.
 */
function isCareful(queue: HandlerQueue, task: number, worker: RosterEntry): boolean {
  // @plant start of a compensated task not recorded
  if (queue.state.plan.isCompensated) return true;
  if (worker.queued) return false;
  if (task < queue.carefulBelow || queue.state.tasks.crashes(task) > 0) return true;
  return queue.lapsesOf(task) >= CAREFUL_AFTER_LAPSES;
}

/**
 * Returns the content of a task for a worker; undefined while it is being read from the store. If the content cannot be sent, the
 * task fails, and the result is null.
 */
function contentOf(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  task: number,
): Pick<GrantItem, "task" | "compensates"> | null | undefined {
  const text = workText(node, slot, queue, task);
  if (text === null) return null;
  if (text === undefined) {
    fetchPage(node, slot, queue, task);
    return undefined;
  }
  if (!queue.state.plan.compensates) return { task: text };
  const compensates = compensationOf(node, slot, queue, task);
  return compensates === undefined ? undefined : { task: text, compensates };
}

/** The number of tasks that a handler with a limit gets before other ready handlers get their turn. */
const LIMITED_QUANTUM = 1;

/** Grants one task to a worker without other tasks, after the start of the task is journaled. */
function grantAlone(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  at: { task: number; worker: RosterEntry },
): "full" | "given" {
  const { task, worker } = at;
  const content = contentOf(node, slot, queue, task);
  if (content === null || content === undefined) return "given";
  const permits = acquirePermits(node, slot, queue, task);
  if (permits === "full") return "full";
  if (permits === "parked") return "given";
  queue.dequeue(task);
  const attempt = queue.state.tasks.nextAttempt(task);
  const lease = newLease(node, slot, queue, {
    worker,
    task,
    attempt,
    epoch: slot.tenure.epoch,
    ...permits,
  });
  beginNow(node, queue, lease);
  worker.holdFor("taken", { slot, queue, task }, node.now);
  const checkpoints = checkpointsOf(node, queue, task);
  const items = [{ number: task, attempt: lease.attempt, claim: lease.claim, ...content, checkpoints }];
  recordThenGrant(
    node,
    slot,
    worker,
    newGrant(node, slot, queue, { do: workOf(queue.state.plan), items, resume: null, worker }),
  );
  return "given";
}

/** Marks the attempt of a lease as begun from its grant on. */
function beginNow(node: NodeState, queue: HandlerQueue, lease: Lease): void {
  lease.recorded = true;
  lease.startedAt = node.now;
  lease.until = node.now + Math.max(node.settings.claimLeaseMs, node.heartbeatMs(queue.state.plan));
  lease.dueAt = receiptDueAt(node, queue, { task: lease.task, from: node.now, queued: false });
}

/** Commits the start of an attempt; the grant is sent after that commit. */
function recordThenGrant(node: NodeState, slot: Slot, worker: RosterEntry, grant: Grant): void {
  const { phase, visit, handler, round } = grant;
  const attempts = grant.items.map(({ number, attempt }) => ({ task: number, attempt, worker: worker.id }));
  node.enqueue(slot, {
    kind: "message",
    message: { kind: "started", phase, visit, handler, round, attempts, epoch: slot.tenure.epoch },
    request: null,
    held: { worker: worker.id, grant },
  });
}

/**
 * After this many lapsed claims of one attempt, the attempt counts as started when it is claimed, because the task may have killed or
 * blocked its worker before the start was reported. So a task exceeds its crash budget by at most one.
 */
const CAREFUL_AFTER_LAPSES = 1;

function newLease(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  at: Pick<Lease, "task" | "attempt" | "epoch"> & Permits & { readonly worker: RosterEntry },
): Lease {
  const { worker } = at;
  const { id, local, queued } = worker;
  const lease = addLease(queue, worker, {
    task: at.task,
    attempt: at.attempt,
    epoch: at.epoch,
    grantedSeq: slot.execution?.seq ?? 0,
    permits: at.permits,
    claim: queue.claimOf(at.task),
    worker: id,
    local,
    queued,
    until: queued ? Number.POSITIVE_INFINITY : node.now + node.settings.claimLeaseMs,
    dueAt: queued
      ? receiptDueAt(node, queue, { task: at.task, from: node.now, queued })
      : Number.POSITIVE_INFINITY,
  });
  if (at.rates.length > 0) {
    lease.rates = at.rates;
    lease.rateAt = node.now;
  }
  if (!local && !queued) worker.wanted--;
  return lease;
}

function newGrant(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  what: Pick<Grant, "do" | "items" | "resume"> & { readonly worker: RosterEntry },
): Grant {
  const execution = slot.execution as Execution;
  const { plan } = queue.state;
  const { visit } = queue;
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
    phases: countsOf(queue, execution, what.do),
    batch: batchOf(plan),
    script: what.do === "script" ? scriptOf(plan) : null,
    command: what.do === "command" ? commandOf(plan) : null,
    trace: execution.trace,
  };
  if (queue.state.needsSingleCode) grant.single = true;
  if (what.do === "enumerate" && queue.state.identities !== null) grant.byIdentity = true;
  return grant;
}

type Writable = { -readonly [Field in keyof Grant]: Grant[Field] };

/**
 * Returns the checkpoints of earlier attempts for a grant. Sleeps and back-offs that are over are marked as such, so that the
 * worker's clock does not matter.
 */
function checkpointsOf(node: NodeState, queue: HandlerQueue, task: number): readonly Checkpoint[] | null {
  const progress = queue.state.progress.tasks.get(task);
  if (progress === undefined || progress.size === 0) return null;
  if (queue.state.plan.mode === "script") {
    // @plant journaled runs done again
    const runs = journaledRuns(queue.state, task);
    return runs.length === 0 ? null : runs;
  }
  return progress.checkpoints.map((known) =>
    (known.kind === "sleep" || known.kind === "tries") && known.due <= node.now
      ? { ...known, due: 0 }
      : known,
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

/** The runs of a script handler, which every grant of it contains. */
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

/** Sends a grant after the commit that it waited for, for those leases that still exist. The other tasks are requeued. */
export function sendHeld(node: NodeState, slot: Slot, held: HeldGrant, isCommitted: boolean): void {
  const { worker, grant } = held;
  const queue = slot.handlerQueue(grant);
  if (queue === undefined) return;
  // A node that is closing sends no more grants: the next owner would have to wait for attempts that perhaps no worker received. If
  // the commit also moved the execution to another definition, the task may need another version of the code.
  const mayGive = !node.closing && !slot.tenure.isYielding && !slot.isMoved && slot.execution?.open === true;
  const isThere = isCommitted && mayGive && node.roster.workers.has(worker);
  const items: GrantItem[] = [];
  for (const item of grant.items) {
    const { number, attempt, claim } = item;
    const lease = queue.leases.get(number);
    if (lease === undefined || lease.attempt !== attempt || lease.claim !== claim) continue;
    const isRecorded = number === ENUMERATION || queue.state.tasks.startOf(number)?.attempt === attempt;
    // Under a rate limit, the attempt counts as started now, and not when its lease began.
    if (isThere && isRecorded && mayBegin(node, lease)) {
      noteBegun(node, lease);
      // The commit may also have changed the checkpoints of the task, such as the end of a wait, so they are read again.
      const isTask = number !== ENUMERATION;
      lease.grantedSeq = slot.execution?.seq ?? lease.grantedSeq;
      items.push(isTask ? { ...item, checkpoints: checkpointsOf(node, queue, number) } : item);
    } else {
      node.endLease(queue, lease);
      if (number !== ENUMERATION) queue.requeue(number);
    }
  }
  if (items.length > 0) node.emit({ kind: "grant", worker, grant: { ...grant, items } });
}
