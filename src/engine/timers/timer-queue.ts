/**
 * The timers that are due next, up to a time horizon and a maximum number. A timer is dropped only after a commit has deleted its
 * row.
 */
import { Heap } from "../../std/heap.ts";
import { type StoredTimer, timerKey } from "../../store/store.ts";
import type { Settings } from "../settings.ts";
import { StoreScan } from "../store-scan.ts";

/** The name of a timer that exists in memory only, and wakes an execution. */
export const WAKE = "~wake";

interface Armed extends StoredTimer {
  readonly order: number;
}

export class TimerQueue {
  readonly #settings: Settings;
  readonly #heap = new Heap<Armed>((a, b) => a.due < b.due || (a.due === b.due && a.order < b.order));
  readonly #due = new Map<string, number>();
  #order = 0;
  readonly #scan = new StoreScan();
  #nextScanAt = 0;
  /** The time up to which all timers are in memory, unless the last scan found more than the maximum. */
  #knownUntil = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Adds a committed timer. It is kept in memory only if it is due soon. */
  set(execution: string, timer: string, due: number): void {
    if (due > this.#knownUntil && timer !== WAKE) return;
    const key = timerKey({ execution, timer });
    if (this.#due.get(key) === due) return;
    this.#due.set(key, due);
    this.#heap.push({ execution, timer, due, order: this.#order++ });
  }

  dueOf(execution: string, timer: string): number | undefined {
    return this.#due.get(timerKey({ execution, timer }));
  }

  /** Handles the report of another node that a timer is overdue: the timer fires, if it is still set. */
  remind({ execution, timer, due }: StoredTimer, now: number): void {
    const key = timerKey({ execution, timer });
    if (due > now || this.#due.has(key)) return;
    this.#due.set(key, due);
    this.#heap.push({ execution, timer, due, order: this.#order++ });
  }

  clear(execution: string, timer: string): void {
    this.#due.delete(timerKey({ execution, timer }));
  }

  /** Scans all timers again, because timers of new partitions are not in memory. */
  rescan(): void {
    this.#nextScanAt = 0;
    this.#scan.invalidate();
  }

  /** Drops the timers of executions that this node no longer owns. */
  forget(isOver: (execution: string) => boolean): void {
    for (const key of this.#due.keys()) if (isOver(key.slice(0, key.indexOf("\n")))) this.#due.delete(key);
  }

  /** Returns the scan that must be requested now; null if none is due. */
  wantedScan(now: number): { until: number; max: number } | null {
    if (this.#scan.isRunning || now < this.#nextScanAt) return null;
    this.#scan.start();
    const until = now + this.#settings.timerHorizonMs;
    // This time is set before the scan runs, so that timers that are committed during the scan are kept in memory.
    this.#knownUntil = Math.max(this.#knownUntil, until);
    return { until, max: this.#settings.timersMax };
  }

  scanned(timers: readonly StoredTimer[], until: number, options: { max: number; now: number }): void {
    const isStale = this.#scan.finish();
    const isCut = timers.length >= options.max;
    this.#knownUntil = isCut ? (timers.at(-1) as StoredTimer).due : until;
    for (const { execution, timer, due } of timers) this.set(execution, timer, due);
    // If the scan found more timers than fit into memory, the next one runs when these have fired. Otherwise it runs when half of the
    // horizon has passed.
    this.#nextScanAt = isCut
      ? Math.max(options.now + 100, this.#knownUntil)
      : options.now + this.#settings.timerHorizonMs / 2;
    if (isStale) this.rescan();
  }

  popDue(now: number): StoredTimer | null {
    for (;;) {
      const top = this.#heap.peek();
      if (top === undefined || top.due > now) return null;
      this.#heap.pop();
      const key = timerKey(top);
      if (this.#due.get(key) !== top.due) continue;
      if (top.timer === WAKE) this.#due.delete(key);
      return top;
    }
  }

  nextAt(): number {
    return Math.min(
      this.#heap.peek()?.due ?? Number.POSITIVE_INFINITY,
      this.#scan.isRunning ? Number.POSITIVE_INFINITY : this.#nextScanAt,
    );
  }
}
