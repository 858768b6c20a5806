/** Patience with a store that fails: waits longer each time, and tells those who would wait for it in vain. */
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";
import { StoreFault } from "../../store/store.ts";

const RETRY = { minMs: 50, maxMs: 5_000 } as const;
/** A commit that failed is tried again sooner; if it was not, nobody needs it any more. */
const TRIED_AGAIN_MS = 2 * RETRY.maxMs;

export class StoreBackoff {
  readonly #clock: Clock;
  readonly #onFault: ((fault: Error) => void) | undefined;
  readonly #onFaulty: (() => void)[] = [];
  readonly #backOff = new BackOff(RETRY);
  #refusal: { readonly fault: StoreFault; readonly at: number } | null = null;

  constructor(clock: Clock, onFault: ((fault: Error) => void) | undefined) {
    this.#clock = clock;
    this.#onFault = onFault;
  }

  /** Whether the last thing that was tried failed. */
  get isFailing(): boolean {
    return this.#backOff.failures > 0;
  }

  /** Why the store takes no commits just now; null: it takes them, as far as is known. */
  get commitFault(): StoreFault | null {
    return this.#refusal?.fault ?? null;
  }

  /** The store works. */
  succeeded(): void {
    this.#backOff.reset();
    this.#refusal = null;
  }

  /** The node's lease was renewed. That says nothing of commits, but a fault of long ago says nothing of now either. */
  renewed(): void {
    if (this.#refusal !== null && this.#clock.now() - this.#refusal.at > TRIED_AGAIN_MS) this.#refusal = null;
  }

  /** A commit was not taken: tells of the fault and waits. */
  async commitFailed(fault: StoreFault): Promise<void> {
    this.#refusal = { fault, at: this.#clock.now() };
    await this.wait(fault);
  }

  /** Resolves when the store fails. */
  nextFault(): Promise<void> {
    return new Promise((resolve) => this.#onFaulty.push(resolve));
  }

  /** Does it until it works, or until it is over: then null. */
  async with<T>(work: () => Promise<T>, isOver: () => boolean): Promise<T | null> {
    while (!isOver()) {
      try {
        return await work();
      } catch (thrown) {
        if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
        await this.wait(thrown);
      }
    }
    return null;
  }

  /** Tells of the fault and waits. */
  async wait(fault: StoreFault): Promise<void> {
    this.#onFault?.(fault);
    for (const resolve of this.#onFaulty.splice(0)) resolve();
    await sleep(this.#clock, this.#backOff.next());
  }
}
