/**
 * Alarms by name. An alarm calls its callback once, never before its time. A timer checks the alarms at least once a minute, because the
 * machine's clock can be changed.
 */
import type { Clock } from "../std/clock.ts";
import { Heap } from "../std/heap.ts";

interface Alarm {
  readonly name: string;
  readonly at: number;
  readonly order: number;
}

const CHECK_MS = 60_000;

export class Alarms {
  readonly #clock: Clock;
  readonly #ring: (name: string) => void;
  readonly #current = new Map<string, Alarm>();
  readonly #heap = new Heap<Alarm>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  #order = 0;
  #armedAt = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(clock: Clock, ring: (name: string) => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  get size(): number {
    return this.#current.size;
  }

  /** Sets the alarm with this name. An earlier alarm with this name is replaced. */
  set(name: string, at: number): void {
    if (this.#isClosed || this.#current.get(name)?.at === at) return;
    const alarm = { name, at, order: this.#order++ };
    this.#current.set(name, alarm);
    this.#heap.push(alarm);
    // Alarms that were replaced stay in the heap until their time. If there are too many, the heap is rebuilt without them.
    if (this.#heap.size > 2 * this.#current.size + 100) {
      this.#heap.clear();
      for (const kept of this.#current.values()) this.#heap.push(kept);
    }
    this.#arm();
  }

  clear(name: string): void {
    this.#current.delete(name);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#current.clear();
    this.#heap.clear();
  }

  #arm(): void {
    const at = this.#heap.peek()?.at;
    if (at === undefined || at >= this.#armedAt) return;
    this.#cancel?.();
    this.#armedAt = at;
    const ms = Math.min(CHECK_MS, Math.max(0, at - this.#clock.now()));
    this.#cancel = this.#clock.after(ms, () => this.#ringDue());
  }

  #ringDue(): void {
    const now = this.#clock.now();
    for (let top = this.#heap.peek(); top !== undefined && top.at <= now; top = this.#heap.peek()) {
      this.#heap.pop();
      if (this.#current.get(top.name) !== top) continue;
      this.#current.delete(top.name);
      this.#ring(top.name);
    }
    this.#armedAt = Number.POSITIVE_INFINITY;
    if (!this.#isClosed) this.#arm();
  }
}
