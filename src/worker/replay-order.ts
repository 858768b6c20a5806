/**
 * The order in which steps, sleeps and waits of a task give their results to the code: those of earlier attempts in the order in which
 * they were journaled, then those of the attempt itself.
 */
import { CHECKPOINTS_MAX } from "../kernel/tasks/checkpoint.ts";
import type { Clock } from "../std/clock.ts";
import { Heap } from "../std/heap.ts";

interface Recalled {
  readonly order: number;
  readonly settle: () => Promise<void>;
}

/**
 * Returns checkpoints of earlier attempts to the code in the order in which they were journaled, and then the results of this attempt,
 * one in each turn of the event loop. So code that races several branches sees the same winner in every attempt, however many promises
 * each branch goes through.
 */
export class ReplayOrder {
  readonly #clock: Clock;
  /** Called when all requested checkpoints have been returned to the code. */
  readonly #onTurn: () => void;
  readonly #queue = new Heap<Recalled>((a, b) => a.order < b.order);
  #isRunning = false;
  /** The number of results of this attempt so far. */
  #results = 0;

  constructor(clock: Clock, onTurn: () => void) {
    this.#clock = clock;
    this.#onTurn = onTurn;
  }

  /** Whether checkpoints are waiting to be returned to the code. */
  get isBusy(): boolean {
    return this.#isRunning;
  }

  /** Resolves when the next result of this attempt may be returned to the code. */
  turn(): Promise<void> {
    const order = CHECKPOINTS_MAX + this.#results++;
    if (this.#isRunning) return this.recall(order, Promise.resolve());
    this.#isRunning = true;
    this.#clock.soon(() => void this.#run());
    return Promise.resolve();
  }

  /** Resolves with the value of a checkpoint, after all requested checkpoints that were journaled before it. */
  recall<T>(order: number, reading: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      // If the read fails before its turn, the error is kept until the turn; without this handler the process would end.
      reading.catch(() => {});
      this.#queue.push({ order, settle: () => reading.then(resolve, reject) });
      if (this.#isRunning) return;
      this.#isRunning = true;
      this.#clock.soon(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) {
      await next.settle();
      // The code goes on with this value, and may request more checkpoints, before the next one is returned.
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
    this.#isRunning = false;
    this.#onTurn();
  }
}
