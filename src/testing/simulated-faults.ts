/**
 * What goes wrong in a simulated run of a workflow, under its seed: a commit is refused before it is written, or its
 * answer is lost after it was; or the process dies, before or after. At most so often: then all goes well.
 */
import type { SeededRandom } from "../std/random.ts";
import { StoreFault } from "../store/store.ts";

/** How much went wrong. */
export interface FaultCounts {
  crashes: number;
  failedCommits: number;
  lostReplies: number;
}

export class SimulatedFaults {
  readonly counts: FaultCounts = { crashes: 0, failedCommits: 0, lostReplies: 0 };
  readonly #random: SeededRandom;
  readonly #crash: () => void;
  #crashesLeft: number;
  #faultsLeft: number;

  constructor(random: SeededRandom, options: { readonly crashesMax: number; readonly crash: () => void }) {
    this.#random = random;
    this.#crash = options.crash;
    this.#crashesLeft = random.between(0, options.crashesMax);
    this.#faultsLeft = random.between(0, 6);
  }

  /** Makes a commit, or lets it go wrong. What never answers is of a process that has died. */
  async commit<T>(write: () => Promise<T>): Promise<T> {
    const dice = this.#random.below(100);
    if (dice < 12 && this.#crashesLeft > 0) {
      this.#crashesLeft--;
      this.counts.crashes++;
      if (dice < 6) await write();
      this.#crash();
      return new Promise<T>(() => {});
    }
    if (dice >= 80 && this.#faultsLeft > 0) {
      this.#faultsLeft--;
      const isWritten = dice >= 90;
      if (isWritten) await write();
      this.counts[isWritten ? "lostReplies" : "failedCommits"]++;
      const what = isWritten ? "the answer to a commit was lost" : "a commit failed";
      throw new StoreFault(`simulated: ${what}`, { retryable: true, nothingWritten: !isWritten });
    }
    return write();
  }
}
