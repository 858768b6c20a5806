/**
 * Looks for the nodes that have attempts whose node is gone, or has given them up: shows them to every node, again and
 * again, less often each time until something is acknowledged. Whoever has one by then adopts it.
 */
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "./back-off.ts";
import type { HeldAttempts } from "./held-attempts.ts";

export interface HomeSearchOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly held: HeldAttempts;
  /** Shows every node what is looked for. */
  readonly show: () => void;
}

export class HomeSearch {
  readonly #options: HomeSearchOptions;
  readonly #backOff: BackOff;
  #stopTimer: (() => void) | null = null;
  #isStopped = false;

  constructor(options: HomeSearchOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options.random);
  }

  /** There may be attempts to look for. */
  begin(): void {
    const { clock, held, show } = this.#options;
    if (this.#isStopped || this.#stopTimer !== null || held.homeless.size === 0) return;
    this.#stopTimer = clock.after(this.#backOff.next(), () => {
      this.#stopTimer = null;
      if (held.homeless.size === 0) return;
      show();
      this.begin();
    });
  }

  /** What was said has arrived somewhere. */
  ease(): void {
    this.#backOff.reset();
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopTimer?.();
  }
}
