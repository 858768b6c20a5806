/**
 * A clock that stands still until it is told to move. Its timers fire in the order of their times, each at exactly
 * its time; between two of them everything that can run without time passing is let run. `soon` is real, so that
 * promises of user code and the engine's turns mix as they do in production; nothing ever sleeps.
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

/** 2030-01-01, so that a time that is a real one by mistake shows. */
const BEGINNING = 1_893_456_000_000;
/** Turns of the event loop without anything to run after which all is quiet. */
const QUIET_TURNS = 3;
/** The same while user code runs, whose promises may take turns that the clock does not see. */
const PATIENT_TURNS = 40;

/** The clock of a `testRondo`. */
export class VirtualClock implements Clock {
  readonly #timers = new Heap<Timer>((a, b) => a.due < b.due || (a.due === b.due && a.order < b.order));
  readonly #real: Clock = systemClock({ hold: true });
  readonly #isUserCodeRunning: () => boolean;
  #now = BEGINNING;
  #order = 0;
  #pending = 0;

  constructor(isUserCodeRunning: () => boolean = () => false) {
    this.#isUserCodeRunning = isUserCodeRunning;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const timer = {
      due: this.#now + Math.ceil(Math.max(0, ms)),
      order: this.#order++,
      run,
      isCancelled: false,
    };
    this.#timers.push(timer);
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

  /** When the next timer fires; Infinity: there is none. */
  get nextAt(): number {
    while (this.#timers.peek()?.isCancelled === true) this.#timers.pop();
    return this.#timers.peek()?.due ?? Number.POSITIVE_INFINITY;
  }

  /** Moves time on by a duration; resolves when everything due by then has happened. */
  async advance(duration: Duration): Promise<void> {
    const until = this.#now + unwrap(parseDuration(duration, "advance"));
    await this.settle();
    while (this.nextAt <= until) {
      const timer = this.#timers.pop() as Timer;
      this.#now = Math.max(this.#now, timer.due);
      timer.run();
      await this.settle();
    }
    this.#now = Math.max(this.#now, until);
    await this.settle();
  }

  /** Resolves when nothing more happens unless time moves. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < (this.#isUserCodeRunning() ? PATIENT_TURNS : QUIET_TURNS); quiet++) {
      if (this.#pending > 0) quiet = -1;
      await new Promise<void>((resolve) => this.#real.soon(resolve));
    }
  }
}
