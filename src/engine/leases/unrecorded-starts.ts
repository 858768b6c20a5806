/**
 * Starts of attempts that are known and not journaled yet. The next commit of their execution records them, unless they are
 * settled by then. An attempt that stays open gets a commit for its start; all starts that are due share it.
 */
import type { AttemptRef, Message } from "../../kernel/message.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION, type Lease } from "./lease.ts";

/** The time between two checks, in which starts that become due wait for each other. */
const GATHER_MS = 50;

export class UnrecordedStarts {
  readonly #node: NodeState;
  /** Executions with attempts that have begun, perhaps without a recorded start. */
  readonly #slots = new Set<Slot>();
  #checkAt = Number.POSITIVE_INFINITY;

  constructor(node: NodeState) {
    this.#node = node;
  }

  /** When `check` must be called; Infinity: no start waits. */
  get checkAt(): number {
    return this.#checkAt;
  }

  has(slot: Slot): boolean {
    return this.#slots.has(slot);
  }

  /** An attempt of the execution has begun at this time. */
  note(slot: Slot, since = this.#node.now): void {
    this.#slots.add(slot);
    this.#checkAt = Math.min(this.#checkAt, since + this.#node.settings.startAfterMs);
  }

  /** The execution leaves memory. */
  delete(slot: Slot): void {
    this.#slots.delete(slot);
  }

  /** Requests a commit for executions with due starts. */
  check(): void {
    const node = this.#node;
    if (node.now < this.#checkAt) return;
    let next = Number.POSITIVE_INFINITY;
    for (const slot of this.#slots) {
      const due = node.slots.get(slot.id) === slot ? this.#dueAt(slot) : Number.POSITIVE_INFINITY;
      if (due === Number.POSITIVE_INFINITY) this.#slots.delete(slot);
      else if (/* @plant start of an open attempt not journaled */ due <= node.now && slot.queue.length === 0)
        node.requestCommit(slot);
      next = Math.min(next, due);
    }
    this.#checkAt = Math.max(next, node.now + GATHER_MS);
  }

  /** The starts to record with a commit of the execution. If nothing else is written: only if one of them is due. */
  take(slot: Slot, isWritten: boolean): readonly StartsMessage[] {
    if (!this.#slots.has(slot)) return NONE;
    if (!isWritten && this.#dueAt(slot) > this.#node.now) return NONE;
    this.#slots.delete(slot);
    const messages: StartsMessage[] = [];
    for (const queue of slot.queues) {
      if (queue.openLeases === 0) continue;
      const attempts: AttemptRef[] = [];
      for (const lease of queue.leases.values()) {
        if (!isUnrecorded(lease)) continue;
        lease.recorded = true;
        attempts.push(lease);
      }
      if (attempts.length > 0)
        messages.push({
          kind: "started",
          ...queue.place,
          round: queue.visit.round,
          attempts,
          epoch: slot.tenure.epoch,
        });
    }
    return messages;
  }

  /** When the first of the execution's starts must be journaled; Infinity: none. */
  #dueAt(slot: Slot): number {
    const { startAfterMs } = this.#node.settings;
    let due = Number.POSITIVE_INFINITY;
    for (const queue of slot.queues) {
      if (queue.openLeases === 0) continue;
      // The next owner must know an adopted attempt too, if this one ends uncleanly.
      for (const lease of queue.leases.values())
        if (isUnrecorded(lease)) {
          const isDue = /* @plant start of an adopted attempt journaled late */ lease.isAdopted === true;
          due = Math.min(due, isDue ? 0 : lease.startedAt + startAfterMs);
        }
    }
    return due;
  }
}

const NONE: readonly StartsMessage[] = [];

type StartsMessage = Extract<Message, { kind: "started" }>;

/** Whether the attempt has begun and is open, and its start can be journaled. */
function isUnrecorded({ task, startedAt, recorded, reported, confirmBy }: Lease): boolean {
  return startedAt > 0 && !recorded && !reported && task !== ENUMERATION && confirmBy === undefined;
}
