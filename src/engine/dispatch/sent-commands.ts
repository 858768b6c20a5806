/**
 * Handles commands that the broker has confirmed. Their executions can leave memory until a receipt arrives: a mark in the store has
 * the time of sending, and the lease is restored from that mark when the execution is loaded.
 */

import type { Outcome } from "../../kernel/message.ts";
import { type Beat, BROKER_WORKER } from "../../protocol/work.ts";
import { showDuration } from "../../std/duration.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { Queued, Slot } from "../cache/slot.ts";
import { addLease, isSent, type Lease } from "../leases/lease.ts";
import { leasesOf, requestStop } from "../leases/report-intake.ts";
import { areEventsOut } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { receiptDueAt } from "./command-work.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** Records that the broker has confirmed these commands. Returns the executions of the commands. */
export function noteSent(node: NodeState, worker: string, beats: readonly Beat[]): ReadonlySet<Slot> {
  const touched = new Set<Slot>();
  for (const { slot, lease } of leasesOf(node, worker, beats)) {
    if (lease.sentAt === 0) lease.sentAt = node.now;
    touched.add(slot);
  }
  return touched;
}

function marksToWrite(slot: Slot): readonly Queued[] {
  const marks: Queued[] = [];
  for (const queue of slot.queues) {
    if (queue.sentLeases === 0) continue;
    for (const lease of queue.leases.values()) {
      if (!isSent(lease) || lease.isMarked) continue;
      lease.isMarked = true;
      const name = markOf(queue, lease.task);
      marks.push({ kind: "mark", mark: { name, value: sentFrom(queue, lease) } });
      marks.push({ kind: "mark", mark: { name: `${name}#`, value: attemptValue(queue, lease.attempt) } });
      const value = lease.claim * EPOCHS_MAX + (lease.epoch % EPOCHS_MAX);
      marks.push({ kind: "mark", mark: { name: `${name}%`, value } });
    }
  }
  return marks;
}

/**
 * The executions in memory with sent commands that have no marks in the store yet. Once there are many, the marks of the oldest
 * executions are stored.
 */
export class SentSlots {
  readonly #node: NodeState;
  /** The executions with sent commands that have no marks yet, oldest first. */
  readonly #slots = new TransientMap<string, Slot>();

  constructor(node: NodeState) {
    this.#node = node;
  }

  delete(slot: Slot): void {
    this.#slots.delete(slot.id);
  }

  /** Whether an execution with leases of sent commands may leave memory, because the store has marks for them. */
  mayLeave(slot: Slot): boolean {
    const isKnown = slot.sentLeases === slot.markedLeases;
    if (!isKnown) this.#slots.set(slot.id, slot);
    this.#markOldest();
    return isKnown;
  }

  /** Stores the marks of the oldest executions, if there are more than the limit. */
  #markOldest(): void {
    const { settings } = this.#node;
    for (const oldest of this.#slots.values()) {
      // Does not store marks for an execution with unpublished events, because it would soon be loaded again.
      if (this.#slots.size <= settings.sentMax || !areEventsOut(this.#node, oldest)) return;
      this.#slots.delete(oldest.id);
      if (oldest.status === "clean" && oldest.want === "time")
        for (const mark of marksToWrite(oldest)) this.#node.enqueue(oldest, mark);
    }
  }
}

/** Drops the leases of sent commands when their execution leaves memory. A timer row makes sure that the execution is loaded again. */
export function forgetSent(node: NodeState, slot: Slot): void {
  for (const queue of slot.queues)
    for (const { reported, worker } of queue.leases.values()) {
      const entry = node.roster.workers.get(worker);
      if (!reported && entry !== undefined) entry.held--;
    }
  node.unwake(slot);
}

/** Restores the leases of commands at the broker from their marks in the store. */
export function restoreSent(node: NodeState, slot: Slot): void {
  for (const queue of slot.queues) {
    const { plan, tasks } = queue.state;
    if (plan.command === null || queue.state.finished) continue;
    const prefix = `${queue.markName}@`;
    for (const [name, sentAt] of Object.entries(slot.opened)) {
      if (sentAt === 0 || !name.startsWith(prefix) || /[#%]$/.test(name)) continue;
      const task = Number(name.slice(prefix.length));
      const attempt = tasks.nextAttempt(task);
      const isIt = slot.opened[`${name}#`] === attemptValue(queue, attempt);
      if (!isIt || queue.state.isClosed(task) || queue.leases.has(task)) continue;
      const given = slot.opened[`${name}%`] ?? 0;
      const [claim, epoch] = [Math.floor(given / EPOCHS_MAX), given % EPOCHS_MAX];
      const worker = node.roster.queued?.id ?? BROKER_WORKER;
      addLease(queue, node.roster.workers.get(worker), {
        ...{ task, attempt, claim, epoch, sentAt, worker },
        anyClaim: true,
        queued: true,
        isMarked: true,
        until: Number.POSITIVE_INFINITY,
        dueAt: receiptDueAt(node, queue, { task, from: sentAt, queued: true }),
        permits: [],
      });
    }
    // If all open attempts are at the broker, no attempt of a former owner can run elsewhere.
    if (queue.sentLeases === 0 || queue.openLeases < queue.offeredEnd - tasks.settled.size) continue;
    queue.suspectUntil = 0;
    queue.lostAt = 0;
    queue.suspectsJudged = true;
  }
}

/** Asks the worker that forwards to the broker to check whether these commands are still in their queues. */
export function checkSent(node: NodeState, slot: Slot): void {
  const worker = node.roster.queued?.id;
  if (worker === undefined) return;
  for (const queue of slot.queues) {
    const { command } = queue.state.plan;
    if (command === null || queue.sentLeases === 0) continue;
    const at = queue.placeIn(slot.id);
    for (const { task, attempt, claim, epoch, ...lease } of queue.leases.values())
      if (lease.queued && !lease.reported && lease.sentAt > 0)
        node.emit({
          kind: "check-sent",
          worker,
          at: {
            attempt: { ...at, epoch, task, attempt, claim },
            topic: command.topic,
            receiptTopic: command.receiptTopic,
            project: slot.execution?.project ?? "",
          },
        });
  }
}

/** Ends the leases of sent commands if this node has no worker that forwards to the broker. */
export function endSent(node: NodeState, slot: Slot): void {
  for (const queue of slot.queues)
    for (const lease of [...queue.leases.values()])
      if (lease.sentAt > 0 && !lease.reported) node.lapse(slot, queue, lease);
}

/** Ends the attempts of commands whose receipts are overdue, with the outcome "killed". */
export function expireCommands(node: NodeState, slot: Slot): void {
  for (const queue of slot.queues) {
    if (queue.state.plan.command === null || queue.state.plan.timeoutMs === null) continue;
    for (const lease of queue.leases.values())
      if (!lease.reported && lease.dueAt <= node.now) expire(node, slot, queue, lease);
  }
}

function expire(node: NodeState, slot: Slot, queue: HandlerQueue, lease: Lease): void {
  const { task, attempt, claim, epoch, worker } = lease;
  const ms = queue.state.plan.timeoutMs ?? 0;
  const error = {
    name: "Timeout",
    code: "timeout",
    message: `no receipt arrived within ${showDuration(ms)}`,
  };
  const outcome: Outcome = { status: "killed", payload: JSON.stringify(error) };
  const place = queue.placeIn(slot.id);
  const receipts = [{ task, attempt, claim, ms, outcome }];
  lease.until = lease.dueAt = Number.POSITIVE_INFINITY;
  requestStop(node, slot, { queue, lease }, "lost");
  node.noteReported(queue, lease);
  const answer = { worker, report: 0, verdicts: [], open: 1 };
  const report = { kind: "receipts" as const, ...place, epoch, receipts };
  node.enqueue(slot, { kind: "report", report, worker, answer, index: 0 });
}

/**
 * Returns the name of the mark that has the time at which a task's command was sent. The same name with `#` is the mark for the
 * attempt, and with `%` for the claim.
 */
function markOf(queue: HandlerQueue, task: number): string {
  return `${queue.markName}@${task}`;
}

/** Encodes the current round and an attempt as the value of a mark. */
function attemptValue({ visit }: HandlerQueue, attempt: number): number {
  return attempt * ROUNDS_MAX + (visit.round % ROUNDS_MAX);
}

const ROUNDS_MAX = 1_000_000;
const EPOCHS_MAX = 1_000_000;

/** Called when the command of a lease is no longer at the broker: the next write removes its mark. */
export function voidMark(slot: Slot, queue: HandlerQueue, lease: Lease): void {
  if (lease.isMarked) slot.carefulMarks[markOf(queue, lease.task)] = 0;
}

/** Returns the time from which the timeout of a command is measured. */
function sentFrom({ state }: HandlerQueue, { sentAt, dueAt }: Lease): number {
  const { timeoutMs } = state.plan;
  return timeoutMs === null || dueAt === Number.POSITIVE_INFINITY ? sentAt : dueAt - timeoutMs;
}
