/** Keeps a copy of data that other nodes write to the store: read again from time to time, and on request. */
import type { Clock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";

export interface FreshCopyOptions {
  readonly clock: Clock;
  /** Reads all data. */
  readonly read: () => Promise<void>;
  /** Called if a background read fails. The next read follows anyway. */
  readonly onFault: (fault: Error) => void;
}

/** The greatest age of the copy. */
const EVERY_MS = 2_000;
/** The shortest time between the beginnings of two reads. */
const PAUSE_MS = 100;

export class FreshCopy {
  readonly #options: FreshCopyOptions;
  /** The next read, which has not begun yet; all present callers wait for it. */
  #next: Promise<void> | null = null;
  #last: Promise<void> = Promise.resolve();
  #begunAt = Number.NEGATIVE_INFINITY;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(options: FreshCopyOptions) {
    this.#options = options;
    this.#later();
  }

  /** Resolves after a read that began after this call. Throws if it fails. */
  renew(): Promise<void> {
    this.#next ??= this.#afterLast();
    return this.#next;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #afterLast(): Promise<void> {
    // The failure of the last read is reported to its own callers.
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
