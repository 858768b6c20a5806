/** Keeps a copy of data that other nodes write to the store: read again from time to time, and on request. */
import type { Clock } from "../../std/clock.ts";
import { toError } from "../../std/to-error.ts";
import { sleep } from "../../std/within.ts";

export interface FreshCopyOptions {
  readonly clock: Clock;
  /** Reads all data of the copy from the store. */
  readonly read: () => Promise<void>;
  /** Called if a background read of the store fails. The next read follows at its regular time. */
  readonly onFault: (fault: Error) => void;
}

/** The greatest age of the copy, after which it is read again. */
const EVERY_MS = 2_000;
/** The shortest time between the beginnings of two reads of the store. */
const PAUSE_MS = 100;

export class FreshCopy {
  readonly #options: FreshCopyOptions;
  /** The next read of the store, which has not begun yet; all present callers of `renew` wait for it. */
  #next: Promise<void> | null = null;
  #last: Promise<void> = Promise.resolve();
  #begunAt = Number.NEGATIVE_INFINITY;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(options: FreshCopyOptions) {
    this.#options = options;
    this.#later();
  }

  /** Resolves after a read of the store that began after this call. Throws if this read fails. */
  renew(): Promise<void> {
    this.#next ??= this.#afterLast();
    return this.#next;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #afterLast(): Promise<void> {
    // The error is ignored here, because the callers that wait for the last read get it.
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
        .catch((thrown: unknown) => this.#options.onFault(toError(thrown)))
        .then(() => {
          if (!this.#isClosed) this.#later();
        });
    });
  }
}
