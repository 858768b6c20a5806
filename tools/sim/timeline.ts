/** Virtual time: planned calls in the order of their times, then of their planning. */
import { Heap } from "../../src/std/heap.ts";

export class Timeline {
  now = 1_000_000;
  #order = 0;
  readonly #heap = new Heap<{ at: number; order: number; run: () => void }>(
    (a, b) => a.at < b.at || (a.at === b.at && a.order < b.order),
  );

  /** Runs `run` after `ms` milliseconds. */
  after(ms: number, run: () => void): void {
    this.#heap.push({ at: this.now + Math.max(0, ms), order: this.#order++, run });
  }

  /** Runs the next planned call; false: there is none. */
  next(): boolean {
    const entry = this.#heap.pop();
    if (entry === undefined) return false;
    this.now = Math.max(this.now, entry.at);
    entry.run();
    return true;
  }
}
