/**
 * Watches timers of other nodes. Only the timers that are due soonest are in memory. They come from scans of the store and from the
 * token.
 * 1. A scan runs at the beginning, every minute, and soon after the ring or the partitions have changed or the token had a flag.
 * 2. The owner of an overdue timer is notified repeatedly; the execution decides whether the timer fires.
 * 3. A timer is forgotten only when its end is reported, or when a scan of the store does not find it.
 */
import { backOffMs } from "../../std/back-off.ts";
import { Heap } from "../../std/heap.ts";
import { type StoredTimer, timerKey } from "../../store/store.ts";
import type { RingSettings } from "./settings.ts";
import type { TimerName } from "./token.ts";

export interface TimerScan {
  readonly partitions: readonly number[];
  readonly until: number;
  readonly max: number;
}

interface Watched extends StoredTimer {
  /** When the owner of the timer is notified next. */
  readonly notifyAt: number;
  readonly notices: number;
  readonly order: number;
}

/** How late watched timers were at the first notice to their owner. */
export interface Lateness {
  readonly count: number;
  readonly lastMs: number;
  readonly maxMs: number;
}

const REPEAT_FACTOR_MAX = 16;

export class TimerWatch {
  readonly #settings: RingSettings;
  readonly #watched = new Map<string, Watched>();
  #heap = soonestFirst();
  #order = 0;
  #partitions: readonly number[] = [];
  #scanning: TimerScan | null = null;
  #isStale = false;
  #scannedAt = Number.NEGATIVE_INFINITY;
  #nextScanAt = Number.POSITIVE_INFINITY;
  #nextNotifyAt = Number.NEGATIVE_INFINITY;
  /** The time up to which all watched timers are in memory. */
  #knownUntil = Number.NEGATIVE_INFINITY;
  /** Timers whose change was reported during a scan. The report is newer than the result of the scan, so it counts. */
  readonly #saidSince = new Set<string>();
  #lateness: Lateness = { count: 0, lastMs: 0, maxMs: 0 };

  constructor(settings: RingSettings) {
    this.#settings = settings;
  }

  get size(): number {
    return this.#watched.size;
  }

  get partitions(): readonly number[] {
    return this.#partitions;
  }

  get lateness(): Lateness {
    return this.#lateness;
  }

  /** Sets the partitions to watch after a change of the ring. Timers of other partitions stay until the next scan. */
  watch(partitions: readonly number[], now: number): void {
    this.#partitions = partitions;
    if (partitions.length === 0) {
      this.#watched.clear();
      this.#rebuild();
      this.#nextScanAt = Number.POSITIVE_INFINITY;
      this.#knownUntil = Number.NEGATIVE_INFINITY;
    } else this.rescan(now);
  }

  rescan(at: number): void {
    if (this.#partitions.length === 0) return;
    this.#isStale = this.#scanning !== null;
    this.#nextScanAt = Math.min(this.#nextScanAt, Math.max(at, this.#scannedAt + this.#settings.rescanMinMs));
  }

  wantedScan(now: number): TimerScan | null {
    if (this.#scanning !== null || now < this.#nextScanAt) return null;
    const until = now + this.#settings.horizonMs;
    this.#scanning = { partitions: this.#partitions, until, max: this.#settings.timersMax };
    this.#scannedAt = now;
    this.#nextScanAt = now + this.#settings.rescanMs;
    // The time is set before the scan begins, so that timers that are reported during the scan are kept.
    this.#knownUntil = Math.max(this.#knownUntil, until);
    return this.#scanning;
  }

  /** Applies the result of a scan, which has the soonest timers first. Null means that the scan failed. */
  scanned(timers: readonly StoredTimer[] | null, now: number): void {
    const scan = this.#scanning;
    if (scan === null) return;
    this.#scanning = null;
    if (timers !== null) this.#replace(scan, timers);
    this.#saidSince.clear();
    if (timers === null || this.#isStale) this.rescan(now);
    this.#isStale = false;
  }

  /** Called when a timer was set. The timer is kept in memory if it is due soon. */
  set({ execution, timer, due }: StoredTimer): void {
    const key = timerKey({ execution, timer });
    if (this.#scanning !== null) this.#saidSince.add(key);
    if (due > this.#knownUntil) this.#watched.delete(key);
    else if (this.#watched.has(key) || this.#watched.size < this.#settings.timersMax)
      this.#keep({ execution, timer, due });
    // There is no room in memory for the timer. The next scan finds it.
    else this.rescan(due);
  }

  ended({ execution, timer }: TimerName): void {
    const key = timerKey({ execution, timer });
    if (this.#scanning !== null) this.#saidSince.add(key);
    this.#watched.delete(key);
  }

  /** Removes and returns overdue timers, oldest first, up to a bound. */
  takeDue(now: number): StoredTimer[] {
    const due: StoredTimer[] = [];
    const { repeatMs } = this.#settings;
    if (now < this.#nextNotifyAt) return due;
    while (due.length < this.#settings.dueMax) {
      const top = this.#heap.peek();
      if (top === undefined || top.notifyAt > now) break;
      this.#heap.pop();
      const key = timerKey(top);
      if (this.#watched.get(key) !== top) continue;
      if (top.notices === 0) this.#noteLate(now - top.due);
      const again = backOffMs(top.notices, { minMs: repeatMs, maxMs: repeatMs * REPEAT_FACTOR_MAX });
      this.#put(key, { ...top, notifyAt: now + again, notices: top.notices + 1 });
      due.push({ execution: top.execution, timer: top.timer, due: top.due });
    }
    if (due.length === this.#settings.dueMax) this.#nextNotifyAt = now + this.#settings.dueEveryMs;
    return due;
  }

  nextAt(): number {
    const notifyAt = this.#heap.peek()?.notifyAt ?? Number.POSITIVE_INFINITY;
    const scanAt = this.#scanning === null ? this.#nextScanAt : Number.POSITIVE_INFINITY;
    return Math.min(Math.max(notifyAt, this.#nextNotifyAt), scanAt);
  }

  #replace(scan: TimerScan, timers: readonly StoredTimer[]): void {
    const isCut = timers.length >= scan.max;
    const found = new Set<string>();
    for (const { execution, timer, due } of timers) {
      const key = timerKey({ execution, timer });
      found.add(key);
      if (!this.#saidSince.has(key)) this.#keep({ execution, timer, due });
    }
    for (const key of this.#watched.keys())
      if (!found.has(key) && !this.#saidSince.has(key)) this.#watched.delete(key);
    this.#knownUntil = isCut ? (timers.at(-1) as StoredTimer).due : scan.until;
    this.#rebuild();
    // If the scan returned only a part of the timers, the next scan runs when the last of these timers are due.
    if (isCut) this.rescan(this.#knownUntil);
  }

  #keep(timer: StoredTimer): void {
    const key = timerKey(timer);
    if (this.#watched.get(key)?.due === timer.due) return;
    const notifyAt = timer.due + this.#settings.graceMs;
    this.#put(key, { ...timer, notifyAt, notices: 0, order: this.#order++ });
  }

  #put(key: string, watched: Watched): void {
    this.#watched.set(key, watched);
    this.#heap.push(watched);
    if (this.#heap.size > 2 * this.#settings.timersMax) this.#rebuild();
  }

  /** Removes entries from the top of the heap that were replaced or dropped. */
  #rebuild(): void {
    this.#heap = soonestFirst();
    for (const watched of this.#watched.values()) this.#heap.push(watched);
  }

  #noteLate(ms: number): void {
    const { count, maxMs } = this.#lateness;
    this.#lateness = { count: count + 1, lastMs: ms, maxMs: Math.max(maxMs, ms) };
  }
}

function soonestFirst(): Heap<Watched> {
  return new Heap((a, b) => a.notifyAt < b.notifyAt || (a.notifyAt === b.notifyAt && a.order < b.order));
}
