/**
 * Keeps what is in memory like what is in a store that other nodes write to: reads it again every so often, and at once
 * for who has to know. Reads do not overlap, and there is a pause between them, however many ask.
 */

import type { Clock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";

export interface FreshCopyOptions {
  readonly clock: Clock;
  /** Reads it all. */
  readonly read: () => Promise<void>;
  /** A read that nobody waits for has failed: there will be another. */
  readonly onFault: (fault: Error) => void;
}

/** How old it gets. */
const EVERY_MS = 2_000;
/** The least pause between the beginnings of two reads. */
const PAUSE_MS = 100;

export class FreshCopy {
  readonly #options: FreshCopyOptions;
  /** The read that has not begun yet, and that all who ask now wait for. */
  #next: Promise<void> | null = null;
  #last: Promise<void> = Promise.resolve();
  #begunAt = Number.NEGATIVE_INFINITY;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(options: FreshCopyOptions) {
    this.#options = options;
    this.#later();
  }

  /** Resolves when it was read, by a read that has begun after this was asked for. Throws if that fails. */
  renew(): Promise<void> {
    this.#next ??= this.#afterLast();
    return this.#next;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #afterLast(): Promise<void> {
    // Whether that one failed is told to those who asked for it.
    await this.#last.catch(() => undefined);
    const { clock, read } = this.#options;
    const ms = this.#begunAt + PAUSE_MS - clock.now();
    if (ms > 0) await sleep(clock, ms);
    this.#next = null;
    this.#begunAt = clock.now();
    this.#last = read();
    await this.#last;
  }

  #later(): void {
    this.#cancel = this.#options.clock.after(EVERY_MS, () => {
      void this.renew()
        .catch((thrown: unknown) =>
          this.#options.onFault(thrown instanceof Error ? thrown : new Error(String(thrown))),
        )
        .then(() => {
          if (!this.#isClosed) this.#later();
        });
    });
  }
}
