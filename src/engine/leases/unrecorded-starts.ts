/**
 * Keeps starts of attempts that are not journaled yet. The next commit of their execution records them, unless their tasks are
 * settled by then. If an attempt stays open, a commit is made for its start; all starts that are due share this commit.
 */

import type { AttemptRef, Message } from "../../kernel/message.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION, type Lease } from "./lease.ts";

/** The time between two checks of unrecorded starts. Starts that become due in between are written together. */
const GATHER_MS = 50;

export class UnrecordedStarts {
  readonly #node: NodeState;
  /** Executions with attempts that have begun and whose start may not be recorded yet. */
  readonly #slots = new TransientMap<string, Slot>();
  #checkAt = Number.POSITIVE_INFINITY;

  constructor(node: NodeState) {
    this.#node = node;
  }

  /** The time at which `check` must be called; Infinity if no start waits to be recorded. */
  get checkAt(): number {
    return this.#checkAt;
  }

  has(slot: Slot): boolean {
    return this.#slots.has(slot.id);
  }

  /** Records that an attempt of the execution began at this time. */
  note(slot: Slot, since = this.#node.now): void {
    this.#slots.set(slot.id, slot);
    this.#checkAt = Math.min(this.#checkAt, since + this.#node.settings.startAfterMs);
  }

  /** Called when the execution leaves memory. */
  delete(slot: Slot): void {
    this.#slots.delete(slot.id);
  }

  /** Requests a commit for each execution with a start that must be recorded now. */
  check(): void {
    const node = this.#node;
    if (node.now < this.#checkAt) return;
    let next = Number.POSITIVE_INFINITY;
    for (const slot of this.#slots.values()) {
      const due = node.slots.get(slot.id) === slot ? this.#dueAt(slot) : Number.POSITIVE_INFINITY;
      if (due === Number.POSITIVE_INFINITY) this.#slots.delete(slot.id);
      else if (/* @plant start of an open attempt not journaled */ due <= node.now && slot.queue.length === 0)
        node.requestCommit(slot);
      next = Math.min(next, due);
    }
    this.#checkAt = Math.max(next, node.now + GATHER_MS);
  }

  /**
   * Returns the starts to record with a commit of the execution. If the commit has nothing else to write, starts are returned only if
   * one of them is due.
   */
  take(slot: Slot, isWritten: boolean): readonly StartsMessage[] {
    if (!this.#slots.has(slot.id)) return NONE;
    if (!isWritten && this.#dueAt(slot) > this.#node.now) return NONE;
    this.#slots.delete(slot.id);
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

  /** The time at which the first of the execution's starts must be journaled; Infinity if there is none. */
  #dueAt(slot: Slot): number {
    const { startAfterMs } = this.#node.settings;
    let due = Number.POSITIVE_INFINITY;
    for (const queue of slot.queues) {
      if (queue.openLeases === 0) continue;
      // The start of an adopted attempt is due at once: the next owner must know the attempt if this owner ends uncleanly.
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
