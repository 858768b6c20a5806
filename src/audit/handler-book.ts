/** What an auditor writes down about one handler of one visit: which of its tasks there are, and which are settled. */
import { Bitset } from "../std/bitset.ts";
import { RunTally } from "./run-book.ts";

export class HandlerTally {
  /** Tasks that were enumerated, page by page. */
  enumerated = 0;
  hasPages = false;
  /** What the enumeration said when it was complete; null: it has not. */
  total: number | null = null;
  readonly done = new Bitset();
  readonly failed = new Bitset();
  readonly cancelled = new Bitset();
  isFinished = false;
  readonly runs = new RunTally();

  /** Tasks it is known to have. */
  get size(): number {
    if (this.total !== null) return this.total;
    return this.hasPages ? this.enumerated : Math.max(1, this.#highest + 1);
  }

  #highest = -1;
  /** The highest task that is done: it was given out. */
  highestDone = -1;

  /** Writes an outcome down; answers whether the task had one already. */
  settle(task: number, status: "done" | "failed" | "cancelled"): boolean {
    this.#highest = Math.max(this.#highest, task);
    const isSettled = this.done.has(task) || this.failed.has(task) || this.cancelled.has(task);
    if (!isSettled) this[status].add(task);
    if (status === "done") this.highestDone = Math.max(this.highestDone, task);
    this.runs.settled(task, status === "done");
    return isSettled;
  }

  /** A retry begins a new round: what is not done is open again. */
  reopen(): void {
    for (const set of [this.failed, this.cancelled])
      for (let task = 0; set.size > 0 && task <= this.#highest; task++) set.delete(task);
    this.isFinished = false;
    this.runs.reopen();
  }
}
