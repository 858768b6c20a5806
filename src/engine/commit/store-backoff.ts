/** Exponential back-off for a failing store. */
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";
import { StoreFault } from "../../store/store.ts";

const RETRY = { minMs: 50, maxMs: 5_000 } as const;
/** A fault of a commit counts for this long. After that time the commit must have been repeated. */
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

  get isFailing(): boolean {
    return this.#backOff.failures > 0;
  }

  /** The fault of the last commit; null if the last commit succeeded, as far as is known. */
  get commitFault(): StoreFault | null {
    return this.#refusal?.fault ?? null;
  }

  succeeded(): void {
    this.#backOff.reset();
    this.#refusal = null;
  }

  /** Called when the node's lease was renewed: drops a stale commit fault. */
  renewed(): void {
    if (this.#refusal !== null && this.#clock.now() - this.#refusal.at > TRIED_AGAIN_MS) this.#refusal = null;
  }

  /** Reports the fault of a failed commit, and waits for the back-off. */
  async commitFailed(fault: StoreFault): Promise<void> {
    this.#refusal = { fault, at: this.#clock.now() };
    await this.wait(fault);
  }

  nextFault(): Promise<void> {
    return new Promise((resolve) => this.#onFaulty.push(resolve));
  }

  /** Repeats an operation of the store until it succeeds. Returns null if `isOver` became true first. */
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

  async wait(fault: StoreFault): Promise<void> {
    this.#onFault?.(fault);
    for (const resolve of this.#onFaulty.splice(0)) resolve();
    await sleep(this.#clock, this.#backOff.next());
  }
}
