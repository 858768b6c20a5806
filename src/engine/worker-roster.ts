/** The workers this node serves: what each can do, how much it holds, and whether one task has it for itself. */
import type { Serves } from "../protocol/work.ts";
import type { HandlerDesk } from "./handler-desk.ts";
import type { Slot } from "./slot.ts";

/** How long others are held back for a task that must run alone: while it waits for an empty worker, and once it runs. */
const ALONE_WAIT_MS = 1_000;
const ALONE_RUN_MS = 10_000;

export interface Alone {
  readonly kind: "waiting" | "taken";
  readonly until: number;
  readonly slot: Slot;
  readonly desk: HandlerDesk;
  /** Taken out of the desk while it waits. */
  readonly task: number;
}

export class RosterEntry {
  readonly id: string;
  readonly local: boolean;
  serves: ReadonlyMap<string, Serves>;
  capacity: number;
  /** Leases whose receipts have not come. */
  held = 0;
  /** Items asked for and not given yet (remote workers). */
  wanted = 0;
  /** A task that must run alone waits for this worker to be empty, or has it; null: none does. */
  alone: Alone | null = null;

  constructor(id: string, local: boolean, serves: readonly Serves[], capacity: number) {
    this.id = id;
    this.local = local;
    this.serves = new Map(serves.map((served) => [served.use, served]));
    this.capacity = capacity;
  }

  /** Holds others back for a task, for a while. */
  holdFor(kind: Alone["kind"], at: Pick<Alone, "slot" | "desk" | "task">, now: number): void {
    this.alone = { kind, until: now + (kind === "waiting" ? ALONE_WAIT_MS : ALONE_RUN_MS), ...at };
  }

  /** How many more items it can take now. */
  get room(): number {
    if (this.alone !== null) return 0;
    const free = this.capacity - this.held;
    return this.local ? free : Math.min(free, this.wanted);
  }
}

export class WorkerRoster {
  readonly workers = new Map<string, RosterEntry>();
  readonly #served = new Map<string, number>();

  join(entry: RosterEntry): void {
    this.leave(entry.id);
    this.workers.set(entry.id, entry);
    for (const use of entry.serves.keys()) this.#served.set(use, (this.#served.get(use) ?? 0) + 1);
  }

  leave(id: string): void {
    const entry = this.workers.get(id);
    if (entry === undefined) return;
    this.workers.delete(id);
    for (const use of entry.serves.keys()) this.#served.set(use, (this.#served.get(use) ?? 1) - 1);
  }

  get hasRemote(): boolean {
    for (const worker of this.workers.values()) if (!worker.local) return true;
    return false;
  }

  /** Whether a task waits for a worker to be empty, or has one to itself. */
  get hasHold(): boolean {
    for (const { alone } of this.workers.values()) if (alone !== null) return true;
    return false;
  }

  /** When the next hold on a worker ends; Infinity: there is none. */
  nextHoldEnd(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { alone } of this.workers.values())
      if (alone !== null && alone.until < next) next = alone.until;
    return next;
  }

  /** Whether any worker serves the handler. */
  isServed(use: string): boolean {
    return (this.#served.get(use) ?? 0) > 0;
  }
}
