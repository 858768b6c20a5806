/** The workers this node serves: what each can do, how much it holds, and whether one task has it for itself. */
import type { Serves } from "../protocol/work.ts";

export class RosterEntry {
  readonly id: string;
  readonly local: boolean;
  serves: ReadonlyMap<string, Serves>;
  /** The uses in the order in which they are tried; rotated for fairness. */
  uses: string[];
  capacity: number;
  /** Leases whose receipts have not come. */
  held = 0;
  /** Items asked for and not given yet (remote workers). */
  wanted = 0;
  /** A task that must run alone has this worker, or waits for it to be empty. */
  alone: "free" | "waiting" | "taken" = "free";

  constructor(id: string, local: boolean, serves: readonly Serves[], capacity: number) {
    this.id = id;
    this.local = local;
    this.serves = new Map(serves.map((served) => [served.use, served]));
    this.uses = serves.map((served) => served.use);
    this.capacity = capacity;
  }

  /** How many more items it can take now. */
  get room(): number {
    if (this.alone === "taken") return 0;
    const free = this.capacity - this.held;
    const room = this.local ? free : Math.min(free, this.wanted);
    if (this.alone === "waiting") return this.held === 0 ? Math.min(room, 1) : 0;
    return room;
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

  /** Whether any worker serves the handler. */
  isServed(use: string): boolean {
    return (this.#served.get(use) ?? 0) > 0;
  }
}
