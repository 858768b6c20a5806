/**
 * The outbox of events that are published to a broker. A mark in the store has the number of the last published event. While later
 * events are unpublished, the execution also has a timer row.
 */
import type { Recorded } from "../../kernel/event.ts";
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import type { Partitions } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import type { Input, Output } from "../io.ts";
import type { NodeState } from "../node-state.ts";

/** The name of the timer row of an execution with unpublished events. Its time is so late that it never becomes due. */
export const EVENTS_TIMER = "~events";
export const EVENTS_DUE = 8_700_000_000_000_000;
const MARK = "~events";
/** The largest commit, in characters, whose events are kept in memory until they are published. */
const KEPT_CHARS_MAX = 65_536;

/** Returns how the next write of an execution changes its outbox row; null if it does not change it. */
export function outboxRow(slot: Slot): "set" | "cleared" | null {
  const isBehind = slot.published < (slot.execution?.seq ?? 0);
  return isBehind === slot.hasEventsRow ? null : isBehind ? "set" : "cleared";
}

/** Returns the mark of published events for a write that is made anyway. */
export function outboxMark(slot: Slot, row: "set" | "cleared" | null): Readonly<Record<string, number>> {
  if (row !== null) slot.hasEventsRow = row === "set";
  return slot.opened[MARK] === slot.published ? {} : { [MARK]: slot.published };
}

/** Restores the outbox of a loaded execution. If it has no mark, all its events count as published. */
export function restoreOutbox(slot: Slot): void {
  const seq = slot.execution?.seq ?? 0;
  const mark = slot.opened[MARK];
  slot.published = Math.max(slot.published, mark ?? seq);
  slot.publishing = slot.published;
  slot.hasEventsRow = mark !== undefined && mark < seq;
}

/** Returns the events of a step, to be kept until they are published; null if they will be read from the journal. */
export function keptEvents(
  { settings }: NodeState,
  events: readonly Recorded[],
  chars: number,
): readonly Recorded[] | null {
  return settings.outbox && chars <= KEPT_CHARS_MAX ? events : null;
}

/** Publishes the events of a write that was just committed. If `kept` is null, they are read from the journal. */
export function publishEvents(
  node: NodeState,
  slot: Slot,
  { entries, kept }: { readonly entries: readonly Entry[]; readonly kept: readonly Recorded[] | null },
): void {
  const [first] = entries;
  const last = entries.at(-1);
  const { execution } = slot;
  if (first === undefined || last === undefined || slot.publishing !== first.seq - 1) return;
  if (execution === null) return;
  slot.publishing = last.seq + last.count - 1;
  node.emit({
    kind: "publish",
    execution: slot.id,
    from: first.seq,
    to: slot.publishing,
    events: kept,
    plan: execution.plan,
    input: execution.input,
  });
}

/** Publishes the remaining events of a clean execution from its journal. */
export function catchUpEvents(node: NodeState, slot: Slot): void {
  const { execution } = slot;
  if (execution === null || slot.publishing >= execution.seq) return;
  const from = slot.publishing + 1;
  const { plan, input } = execution;
  slot.publishing = execution.seq;
  node.emit({ kind: "publish", execution: slot.id, from, to: execution.seq, events: null, plan, input });
}

/** Called when the events of an execution up to this number are published. Once all are, the outbox row is removed. */
export function notePublished(node: NodeState, slot: Slot, seq: number): void {
  slot.published = Math.max(slot.published, seq);
  slot.publishing = Math.max(slot.publishing, seq);
  const { execution } = slot;
  if (execution === null || slot.status !== "clean" || slot.queue.length > 0) return;
  if (slot.published >= execution.seq && slot.hasEventsRow && slot.openLeases === 0) node.requestCommit(slot);
}

/** Whether all events of an execution are published, or this node has no publisher. */
export function areEventsOut({ settings }: NodeState, { published, execution }: Slot): boolean {
  return !settings.outbox || published >= (execution?.seq ?? 0);
}

/** Sends events to the publisher again whose publication was not confirmed. */
export function publishAgain(node: NodeState): void {
  for (const slot of node.slots.values()) {
    slot.publishing = slot.published;
    if (slot.status === "clean") catchUpEvents(node, slot);
  }
}

export type EventsOut = Omit<Extract<Output, { kind: "publish" }>, "kind">;

export class OutboxPort {
  readonly #input: (input: Input) => void;
  readonly #scope: () => Partitions;
  #listener: (out: EventsOut) => void = () => {};

  constructor(input: (input: Input) => void, scope: () => Partitions) {
    this.#input = input;
    this.#scope = scope;
  }

  get scope(): Partitions {
    return this.#scope();
  }

  /** Calls `listener` with events after they are committed. */
  listen(listener: (out: EventsOut) => void): void {
    this.#listener = listener;
  }

  publish(out: EventsOut): void {
    this.#listener(out);
  }

  published(execution: string, seq: number): void {
    this.#input({ kind: "published", execution, seq });
  }

  again(): void {
    this.#input({ kind: "publish-again" });
  }
}
