/**
 * A clock that stands still until a test moves it. Timers fire in the order of their times, each at exactly its time. Before time moves
 * to the next timer, all code that can run does run. `soon` uses the real event loop, so promises of user code and turns of the engine
 * mix as in production. Nothing sleeps. Time can also be skipped; the `steady` clock does not see skipped time.
 */
import { type Clock, systemClock } from "../std/clock.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { Heap } from "../std/heap.ts";
import { unwrap } from "../std/rejection.ts";

interface Timer {
  readonly due: number;
  readonly order: number;
  readonly run: () => void;
  isCancelled: boolean;
}

/**
 * The time at which the clock begins: 2030-01-01. It differs from the real time, so that a test notices a real time that gets
 * in by mistake.
 */
const BEGINNING = 1_893_456_000_000;
/** The number of turns of the event loop without work after which nothing more is expected to happen. */
const QUIET_TURNS = 3;
/** The number of idle turns to wait for while user code runs, because its promises may take turns that the clock does not see. */
const PATIENT_TURNS = 40;

/** The clock of a `testRondo`. */
export class VirtualClock implements Clock {
  readonly #timers = soonestFirst();
  readonly #steadyTimers = soonestFirst();
  readonly #real: Clock = systemClock({ hold: true });
  readonly #isUserCodeRunning: () => boolean;
  #now = BEGINNING;
  #skippedMs = 0;
  #order = 0;
  #pending = 0;

  constructor(isUserCodeRunning: () => boolean = () => false) {
    this.#isUserCodeRunning = isUserCodeRunning;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    return this.#add(this.#timers, this.#now + Math.ceil(Math.max(0, ms)), run);
  }

  /** A clock that does not see skipped time. */
  readonly steady: Clock = {
    now: () => this.#now - this.#skippedMs,
    after: (ms, run) => this.#add(this.#steadyTimers, this.steady.now() + Math.ceil(Math.max(0, ms)), run),
    soon: (run) => this.soon(run),
  };

  #add(timers: Heap<Timer>, due: number, run: () => void): () => void {
    const timer = { due, order: this.#order++, run, isCancelled: false };
    timers.push(timer);
    return () => {
      timer.isCancelled = true;
    };
  }

  soon(run: () => void): void {
    this.#pending++;
    this.#real.soon(() => {
      this.#pending--;
      run();
    });
  }

  /** When the next timer fires; Infinity if there is none. */
  get nextAt(): number {
    return Math.min(this.nextOwnAt, this.#nextSteadyAt);
  }

  /** When the next timer of this clock fires. Timers of the steady clock are left out. */
  get nextOwnAt(): number {
    return dueOf(this.#timers);
  }

  get #nextSteadyAt(): number {
    return dueOf(this.#steadyTimers) + this.#skippedMs;
  }

  /** Jumps forward in time without firing the timers that become due. */
  skip(ms: number): void {
    this.#now += ms;
    this.#skippedMs += ms;
  }

  /** Moves time forward by a duration. Resolves when everything due by then has happened. */
  async advance(duration: Duration): Promise<void> {
    const until = this.#now + unwrap(parseDuration(duration, "advance"));
    await this.settle();
    while (this.nextAt <= until) {
      const { nextAt } = this;
      const timer = (this.nextOwnAt === nextAt ? this.#timers : this.#steadyTimers).pop() as Timer;
      this.#now = Math.max(this.#now, nextAt);
      timer.run();
      await this.settle();
    }
    this.#now = Math.max(this.#now, until);
    await this.settle();
  }

  /** Resolves when nothing more happens until time moves. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < (this.#isUserCodeRunning() ? PATIENT_TURNS : QUIET_TURNS); quiet++) {
      if (this.#pending > 0) quiet = -1;
      await new Promise<void>((resolve) => this.#real.soon(resolve));
    }
  }
}

function soonestFirst(): Heap<Timer> {
  return new Heap((a, b) => a.due < b.due || (a.due === b.due && a.order < b.order));
}

function dueOf(timers: Heap<Timer>): number {
  while (timers.peek()?.isCancelled === true) timers.pop();
  return timers.peek()?.due ?? Number.POSITIVE_INFINITY;
}
