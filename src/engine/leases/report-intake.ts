/**
 * Handles reports of workers: starts, pages, receipts and heartbeats. A report becomes a message when its execution is stepped, and
 * counts only if its attempt holds a lease. After the commit, the leases that the report ended are dropped.
 */
import type { Plan } from "../../kernel/definition/plan.ts";
import { versionOf } from "../../kernel/event.ts";
import type {
  AttemptRef,
  CheckpointMessage,
  ChildRequest,
  Message,
  Receipt,
  Verdict,
} from "../../kernel/message.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import {
  type Beat,
  type Report,
  type ReportedAttempt,
  type ReportPlace,
  UNKNOWN_WORKER,
} from "../../protocol/work.ts";
import { defined } from "../../std/defined.ts";
import type { LogRow } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import { receiptDueAt } from "../dispatch/command-work.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import { adoptedPermits, hasRoomToAdopt, noteBegun } from "../limits/permits.ts";
import type { NodeState } from "../node-state.ts";
import type { AttemptHolder } from "./attempt-facts.ts";
import { addLease, ENUMERATION, type HeldLease, isSameAttempt, type Lease, leaseOf } from "./lease.ts";

/** Updates leases when a report arrives, before its commit: ended attempts free their worker, and started attempts count as begun. */
export function noteArrival(node: NodeState, slot: Slot, report: Report): void {
  const queue = queueOf(slot, report);
  if (queue === undefined) return;
  if (report.kind === "receipts") {
    for (const receipt of report.receipts) {
      const lease = leaseOf(queue, receipt, report.epoch);
      if (lease === undefined) continue;
      countStart(node, lease, node.now);
      node.noteReported(queue, lease);
    }
  } else if (report.kind === "enumeration") {
    const lease = leaseOf(queue, enumerationIn(report), report.epoch);
    if (lease !== undefined) node.noteReported(queue, lease);
  } else if (report.kind === "accepted") {
    for (const accepted of report.attempts) {
      const lease = leaseOf(queue, accepted, report.epoch);
      if (lease === undefined) continue;
      lease.accepted ??= "said";
      slot.hasAccepted = true;
    }
  } else if (report.kind === "started") {
    for (const begun of report.attempts) {
      const lease = leaseOf(queue, begun, report.epoch);
      if (lease === undefined) continue;
      const at = node.now - (begun.ms ?? 0);
      countStart(node, lease, at);
      start(node, slot, { queue, lease }, at);
    }
  } else {
    const lease = leaseOf(queue, "task" in report ? report : enumerationIn(report), report.epoch);
    if (lease !== undefined) start(node, slot, { queue, lease });
  }
}

/** Whether all attempts of the report hold their leases in memory. Then the report needs neither a commit nor a load. */
export function areHeld(slot: Slot, report: Extract<Report, { kind: "accepted" | "started" }>): boolean {
  const queue = queueOf(slot, report);
  if (queue === undefined) return false;
  return report.attempts.every((attempt) => leaseOf(queue, attempt, report.epoch) !== undefined);
}

/**
 * Decides whether reported attempts may begin or be accepted: only if they hold their leases. Starts are recorded later (see
 * unrecorded-starts.ts).
 */
export function verdictsOnStarts(
  node: NodeState,
  slot: Slot,
  report: Extract<Report, { kind: "accepted" | "started" }>,
  worker: string,
): Verdict[] {
  return report.attempts.map(({ task, attempt, claim }) => {
    if (!isLive(node, slot, { ...placeOf(report), task, attempt, claim }, worker)) return "stale";
    const queue = queueOf(slot, report);
    const lease = queue?.leases.get(task);
    // Sets the start of a lease that was handed over, which was not in memory when the report arrived.
    if (report.kind === "started" && queue !== undefined && lease !== undefined && !lease.reported)
      start(node, slot, { queue, lease });
    return "accepted";
  });
}

/** Converts a report into a message for the kernel; null if it needs none. */
export function toMessage(
  node: NodeState,
  slot: Slot,
  report: Exclude<Report, { kind: "accepted" | "started" | "logs" }>,
  { worker, plan }: { readonly worker: string; readonly plan?: Plan | null },
): Exclude<Message, { kind: "start" }> | null {
  const { phase, visit, handler, round } = report;
  const place = { phase, visit, handler };
  const queue = queueOf(slot, report);
  switch (report.kind) {
    case "receipts": {
      const receipts: Receipt[] = report.receipts.map(({ task, attempt, claim, ms, outcome }) => {
        const lease = queue?.leases.get(task);
        const live =
          lease !== undefined
            ? isSameAttempt(lease, attempt, claim, report.epoch)
            : adopt(node, slot, report, { task, attempt, claim, worker });
        const receipt = { task, attempt, round, live, worker, ms, outcome };
        if ((queue?.state.plan.command ?? null) === null) return receipt;
        return { ...receipt, attemptId: encodeAttempt({ ...placeOf(report), task, attempt, claim }) };
      });
      return { kind: "receipts", ...place, receipts };
    }
    case "step":
    case "step.retrying":
    case "step.failed":
    case "child":
    case "noted":
    case "published":
    case "run":
    case "run.started":
    case "run.crashed": {
      const { task, attempt } = report;
      const live = isLive(node, slot, report, worker);
      const done =
        report.kind === "child" ? { ...childIn(report), hash: plan?.hash ?? null } : doneIn(report);
      const seen = queue?.leases.get(task)?.grantedSeq ?? Number.POSITIVE_INFINITY;
      return { kind: "checkpoint", ...place, round, task, attempt, live, seen, done };
    }
    case "page":
    case "enumeration": {
      const lease = leaseOf(queue, enumerationIn(report), report.epoch);
      if (lease === undefined) {
        freeEnumeration(node, slot, report, report.attempt);
        return null;
      }
      const byIdentity = queue?.state.identities !== null;
      if (report.kind === "enumeration") {
        // Tasks with identities cannot be checked by their numbers, so the enumeration is done only if all its items have arrived.
        if (byIdentity && report.outcome.status === "done" && report.outcome.total !== lease.position)
          return null;
        return {
          kind: "enumeration",
          ...place,
          attempt: report.attempt,
          round,
          worker,
          outcome: report.outcome,
        };
      }
      if (byIdentity && report.from > lease.position) return null;
      lease.position = Math.max(lease.position, report.from + report.tasks.length);
      const { attempt, from, tasks, keys, identities, afters = null } = report;
      return { kind: "page", ...place, attempt, round, from, tasks, keys, identities, afters };
    }
  }
}

/** Returns the request for a child that is in a report, without the attempt. */
function childIn({
  kind,
  name,
  workflow,
  input,
  detached,
  mapped,
}: Extract<Report, { kind: "child" }>): ChildRequest {
  return { kind, name, workflow, input, ...defined({ detached, mapped }) };
}

/** Returns the part of a report that says what a step or run did, without the attempt. */
function doneIn(
  report: Extract<
    Report,
    {
      kind:
        | "step"
        | "step.retrying"
        | "step.failed"
        | "noted"
        | "published"
        | "run"
        | "run.started"
        | "run.crashed";
    }
  >,
): CheckpointMessage["done"] {
  if (report.kind === "noted") {
    const { times, failures } = report;
    return { kind: "noted", ...defined({ times, failures }) };
  }
  if (report.kind === "published") return { kind: "published", values: report.values };
  const { name } = report;
  switch (report.kind) {
    case "step":
      return {
        kind: "step",
        name,
        result: report.result,
        ...defined({ map: report.map, answers: report.answers }),
      };
    case "step.retrying":
      return { kind: report.kind, name, tries: report.tries, error: report.error, forMs: report.forMs };
    case "step.failed":
      return { kind: report.kind, name, tries: report.tries, error: report.error };
    case "run": {
      const { index, state, oversized, stats } = report;
      return { kind: "run", name, index, state, oversized, stats };
    }
    case "run.started":
      return { kind: "run.started", name, index: report.index };
    case "run.crashed":
      return {
        kind: "run.crashed",
        name,
        index: report.index,
        message: report.message,
        stats: report.stats,
      };
  }
}

/** Returns the verdict on a report that needs no message: "duplicate" for a repeated end of an enumeration, otherwise "stale". */
export function verdictOnRest(slot: Slot, report: Report): Verdict {
  const state = queueOf(slot, report)?.state;
  const isRepeat =
    report.kind === "enumeration" && state?.sealed === true && report.attempt === state.enumeration.ended + 1;
  return isRepeat ? "duplicate" : "stale";
}

/** Makes the row for lines that an attempt logged; null if the attempt does not hold its lease. */
export function toLogRow(
  node: NodeState,
  slot: Slot,
  report: Extract<Report, { kind: "logs" }>,
  worker: string,
): LogRow | null {
  if (!isLive(node, slot, report, worker)) return null;
  const { phase, visit, handler, task, attempt } = report;
  const lease = queueOf(slot, report)?.leases.get(task);
  const before = lease?.lastLine ?? 0;
  if (lease !== undefined) lease.lastLine = Math.max(before, report.lines.at(-1)?.n ?? 0);
  return {
    attempt: encodeAttempt(report),
    phase,
    visit,
    handler,
    task,
    number: attempt,
    worker,
    // @plant only the last line of a report stored
    lines: report.lines,
    // The lines may have been reported twice, stepped again after a commit of unknown outcome, or stored by a former owner.
    // @plant lines stored again after adoption
    // @plant lines stored again after an unknown commit
    mayRepeat: report.epoch !== slot.tenure.epoch || (report.lines[0]?.n ?? 0) <= before,
  };
}

/** Whether an attempt holds its lease. An attempt of a former owner is adopted if possible. */
export function isLive(node: NodeState, slot: Slot, at: ReportedAttempt, worker: string): boolean {
  const { task, attempt, claim, epoch } = at;
  const lease = queueOf(slot, at)?.leases.get(task);
  return lease !== undefined
    ? isSameAttempt(lease, attempt, claim, epoch)
    : adopt(node, slot, at, { task, attempt, claim, worker });
}

/** Returns messages that record which attempts were accepted. They are added to a commit that is made for another reason. */
export function unrecordedAccepts(node: NodeState, slot: Slot): readonly AcceptedMessage[] {
  if (!slot.hasAccepted || !writesRunNotices(node)) return NO_MESSAGES;
  if (slot.queue.every((queued) => queued.kind === "report" && queued.report.kind === "accepted"))
    return NO_MESSAGES;
  slot.hasAccepted = false;
  const messages: AcceptedMessage[] = [];
  for (const queue of slot.queues) {
    if (queue.openLeases === 0) continue;
    const attempts: AttemptRef[] = [];
    for (const lease of queue.leases.values()) {
      if (lease.reported || lease.task === ENUMERATION || lease.confirmBy !== undefined) continue;
      if (lease.accepted !== "said") continue;
      lease.accepted = "recorded";
      attempts.push(lease);
    }
    if (attempts.length > 0)
      messages.push({ kind: "accepted", ...queue.place, round: queue.visit.round, attempts });
  }
  return messages;
}

const NO_MESSAGES: readonly AcceptedMessage[] = [];

type AcceptedMessage = Extract<Message, { kind: "accepted" }>;

/**
 * Whether published values are recorded. While the cluster has an older node that cannot read them, they are dropped: they change no
 * outcome, and the execution would otherwise have to wait.
 */
export function writesPublished(node: NodeState): boolean {
  return node.writes >= PUBLISHED_VERSION;
}

const PUBLISHED_VERSION = versionOf("published");

/**
 * Whether notices about runs are recorded. While the cluster has an older node that cannot read them, they are dropped: they change
 * no outcome, and the execution would otherwise have to wait.
 */
export function writesRunNotices(node: NodeState): boolean {
  return node.writes >= RUN_NOTICES_VERSION;
}

const RUN_NOTICES_VERSION = versionOf("task.run.started");

/** Called after the commit of a report: ends the leases of its attempts, and stops other attempts at the tasks that it settled. */
export function endReported(node: NodeState, slot: Slot, report: Report): void {
  const queue = slot.handlerQueue(report);
  if (queue === undefined) return;
  // A late receipt of an earlier round may have settled a task that a worker is running in this round.
  const isRound = queue.visit.round === report.round;
  if (report.kind === "enumeration") {
    const lease = isRound ? leaseOf(queue, enumerationIn(report), report.epoch) : undefined;
    if (lease === undefined) return;
    const { sealed, enumeration } = queue.state;
    if (sealed || enumeration.ended >= report.attempt) node.endLease(queue, lease);
    // The report was not accepted, so the lease ends without an entry in the journal.
    else node.endUnrecorded(slot, queue, lease);
    return;
  }
  if (report.kind === "child") {
    // An attempt ends if the child that it requests cannot exist.
    const lease = isRound ? leaseOf(queue, report, report.epoch) : undefined;
    if (lease === undefined) return;
    if (queue.state.tasks.ended(report.task) >= report.attempt || queue.state.isClosed(report.task))
      node.endLease(queue, lease);
    return;
  }
  if (report.kind !== "receipts") return;
  for (const receipt of report.receipts) {
    const lease = queue.leases.get(receipt.task);
    if (lease === undefined) continue;
    const isOwn = isRound && isSameAttempt(lease, receipt.attempt, receipt.claim, report.epoch);
    // Skips a receipt of an earlier claim or attempt that changed nothing.
    if (!isOwn && !queue.state.isClosed(receipt.task)) continue;
    if (!isOwn) requestStop(node, slot, { queue, lease }, "cancel");
    const isOver =
      queue.state.isClosed(receipt.task) || queue.state.tasks.ended(receipt.task) >= lease.attempt;
    if (!isOver) node.endUnrecorded(slot, queue, lease);
    else {
      node.endLease(queue, lease);
      queue.forgetLapses(receipt.task);
    }
  }
}

/** Extends the leases of the attempts in a heartbeat. Attempts that have no lease, or were asked to stop, are cancelled. */
export function beat(node: NodeState, slot: Slot, beat: Beat, worker: string): void {
  const queue = queueOf(slot, beat);
  const gone: { task: number; attempt: number; claim: number }[] = [];
  const stopped: typeof gone = [];
  // Only a committed cancel counts. Workers are not notified of a cancel before its commit.
  const isDraining = slot.status === "clean" && slot.execution?.draining === true;
  for (const attempt of beat.attempts) {
    const isKnown = leaseOf(queue, attempt, beat.epoch) !== undefined;
    if (!isKnown && !adopt(node, slot, beat, { ...attempt, worker })) {
      gone.push(attempt);
      if (attempt.task === ENUMERATION) freeEnumeration(node, slot, beat, attempt.attempt);
      continue;
    }
    const lease = queue?.leases.get(attempt.task);
    if (queue === undefined || lease === undefined) continue;
    start(node, slot, { queue, lease });
    if (isDraining) lease.cancelled = true;
    // Notifies the worker of the cancel again, because a node or broker in between may have lost the first notice.
    if (lease.cancelled) stopped.push(attempt);
  }
  if (node.unconfirmed.size > 0) recordConfirmed(node);
  if (gone.length > 0)
    node.emit({ kind: "cancel", worker, attempts: [{ ...placeOf(beat), attempts: gone }], why: "lost" });
  if (stopped.length > 0)
    node.emit({ kind: "cancel", worker, attempts: [{ ...placeOf(beat), attempts: stopped }], why: "cancel" });
}

/** Returns the worker that holds an attempt's lease, and whether the attempt must stop; null if memory has no such lease. */
export function holderOf(slot: Slot | undefined, at: ReportedAttempt): AttemptHolder | null {
  const queue = slot === undefined ? undefined : queueOf(slot, at);
  const lease = leaseOf(queue, at, at.epoch);
  if (lease === undefined || lease.reported) return null;
  const step = queue?.state.plan.command?.step;
  return {
    worker: lease.worker,
    isCancelled: lease.cancelled,
    ...(step === undefined ? {} : { step }),
  };
}

/** Asks the worker of a lease to stop the attempt, at most once. If the attempt is lost, its worker is notified in any case. */
export function requestStop(
  node: NodeState,
  slot: Slot,
  { queue, lease }: HeldLease,
  why: "cancel" | "lost",
): void {
  if (lease.cancelled && why === "cancel") return;
  lease.cancelled = true;
  const { task, attempt, claim, epoch } = lease;
  const at = { ...queue.placeIn(slot.id), epoch };
  const command = task === ENUMERATION ? null : queue.state.plan.command;
  node.emit({
    kind: "cancel",
    worker: lease.worker,
    attempts: [{ ...at, attempts: [{ task, attempt, claim }] }],
    why,
    ...(command === null ? {} : { topic: command.topic }),
  });
}

/** Called when the worker's own status API says that these attempts are still running: extends each of their leases once. */
export function vouch(node: NodeState, slot: Slot, beat: Beat): void {
  const queue = queueOf(slot, beat);
  for (const attempt of beat.attempts) {
    const lease = leaseOf(queue, attempt, beat.epoch);
    if (queue === undefined || lease === undefined) continue;
    if (lease.until !== Number.POSITIVE_INFINITY) lease.until = node.now + node.heartbeatMs(queue.state.plan);
  }
}

/** Counts the start of an attempt under its rate limits from the time at which it is known to have begun. */
function countStart(node: NodeState, lease: Lease, at: number): void {
  noteBegun(node, lease, at);
  lease.rateAt = undefined;
}

function start(node: NodeState, slot: Slot, { queue, lease }: HeldLease, at = node.now): void {
  lease.asked = false;
  if (lease.startedAt === 0) {
    lease.startedAt = at;
    if (!lease.recorded && lease.task !== ENUMERATION) node.starts.note(slot, at);
    if (!lease.queued) lease.dueAt = receiptDueAt(node, queue, { task: lease.task, from: at, queued: false });
  }
  if (!lease.queued) lease.until = node.now + node.heartbeatMs(queue.state.plan);
}

/**
 * Called when a worker reports on an enumeration that has no lease. An enumeration of a former owner is not adopted, because its
 * pages may be of an earlier claim. Its worker is told to stop, so that a new enumeration need not wait until that worker counts as
 * lost.
 */
function freeEnumeration(node: NodeState, slot: Slot, place: ReportPlace, attempt: number): void {
  const queue = queueOf(slot, place);
  if (queue === undefined || queue.leases.has(ENUMERATION) || place.epoch >= slot.tenure.epoch) return;
  const { sealed, enumeration } = queue.state;
  if (sealed || attempt !== enumeration.ended + 1 || queue.suspectUntil <= node.now) return;
  queue.isEnumerationFree = true;
  node.offer(slot, queue);
}

/** Adopts an attempt of a former owner that sends a heartbeat or a report in time after a takeover. */
function adopt(
  node: NodeState,
  slot: Slot,
  place: ReportPlace,
  at: { task: number; attempt: number; claim: number; worker: string },
): boolean {
  const queue = queueOf(slot, place);
  if (queue === undefined || at.task < 0 || place.epoch >= slot.tenure.epoch) return false;
  // Attempts of a damaged execution are not adopted: their workers were told to stop, and their permits were released.
  if (slot.droppedAt !== null) return false;
  const { tasks } = queue.state;
  const start = tasks.startOf(at.task);
  const isRecorded = start?.attempt === at.attempt;
  const until = isRecorded ? queue.adoptableUntil(start, place.epoch) : queue.suspectUntil;
  if (until <= node.now) return false;
  const begunBy = start?.worker;
  const worker = at.worker === UNKNOWN_WORKER ? (begunBy ?? UNKNOWN_WORKER) : at.worker;
  if (
    queue.state.isClosed(at.task) ||
    at.task >= queue.offeredEnd ||
    at.attempt !== tasks.nextAttempt(at.task) ||
    queue.leases.has(at.task) ||
    // Not adopted if another worker has begun the same attempt after this claim lapsed, because that worker may have left
    // checkpoints.
    (begunBy ?? worker) !== worker ||
    !hasRoomToAdopt(node, slot, queue, at.task)
  )
    return false;
  const entry = node.roster.workers.get(worker);
  const queued = entry?.queued === true;
  const lease = addLease(queue, entry, {
    task: at.task,
    attempt: at.attempt,
    claim: at.claim,
    epoch: place.epoch,
    worker,
    queued,
    startedAt: node.now,
    until: queued ? Number.POSITIVE_INFINITY : node.now + node.heartbeatMs(queue.state.plan),
    dueAt: receiptDueAt(node, queue, { task: at.task, from: node.now, queued }),
    // In a cluster, the start is recorded again, now as held by this owner.
    recorded: begunBy !== undefined && node.limits.shares === null,
    permits: adoptedPermits(node, slot, queue, at.task),
  });
  lease.isAdopted = true;
  lease.confirmBy = until;
  node.unconfirmed.set(lease, slot.id);
  return true;
}

/**
 * Records the starts of adopted attempts once the quota servers of their limits have confirmed them. From then on, the next owner
 * knows these attempts too, even after an unclean end of this owner.
 */
export function recordConfirmed(node: NodeState): void {
  const { limits, unconfirmed } = node;
  const recorded = new Set<string>();
  for (const [lease, execution] of unconfirmed) {
    const isConfirmed = lease.permits.every((permit) => limits.shares?.isConfirmed(permit) !== false);
    if (!isConfirmed) continue;
    unconfirmed.delete(lease);
    lease.confirmBy = undefined;
    if (lease.isEnded === true) node.endPermits(lease, null);
    else if (!lease.recorded) recorded.add(execution);
  }
  for (const execution of recorded) {
    const slot = node.slots.get(execution);
    if (slot === undefined) continue;
    node.starts.note(slot);
    node.requestCommit(slot);
  }
}

/**
 * Returns the queue that a report is about; undefined if its visit or round has ended. Leases of the current round are not affected
 * by a report of an earlier round, even if the attempts have the same numbers.
 */
export function queueOf(slot: Slot, place: ReportPlace): HandlerQueue | undefined {
  const queue = slot.handlerQueue(place);
  return queue?.visit.round === place.round ? queue : undefined;
}

/** Iterates over the leases that the worker holds of these attempts. */
export function* leasesOf(
  node: NodeState,
  worker: string,
  beats: readonly Beat[],
): Generator<HeldLease & { readonly slot: Slot }> {
  for (const beat of beats) {
    const slot = node.slots.get(beat.execution);
    const queue = slot === undefined ? undefined : queueOf(slot, beat);
    if (slot === undefined || queue === undefined) continue;
    for (const attempt of beat.attempts) {
      const lease = leaseOf(queue, attempt, beat.epoch);
      if (lease?.worker === worker) yield { slot, queue, lease };
    }
  }
}

/** The enumeration that a report is about, as `leaseOf` takes it. */
function enumerationIn({ attempt, claim }: { readonly attempt: number; readonly claim: number }) {
  return { task: ENUMERATION, attempt, claim };
}

function placeOf({ execution, phase, visit, handler, round, epoch }: ReportPlace): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}
