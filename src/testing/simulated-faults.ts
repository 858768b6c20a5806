/** The faults of a simulated run, drawn by its seed: failed commits, lost answers, dying and freezing nodes. */
import type { SeededRandom } from "../std/random.ts";
import { StoreFault } from "../store/store.ts";

/** How many faults of each kind there were. */
export interface FaultCounts {
  /** Processes that died at a commit. */
  crashes: number;
  /** Commits that failed before they were written. */
  failedCommits: number;
  /** Commits that were written and reported as failed. */
  lostReplies: number;
  /** Nodes that were frozen for longer than their lease. */
  pauses: number;
  /** Nodes that left the cluster in good order. */
  leaves: number;
}

/** The faults that a process under test can have. */
export interface NodeFaults {
  crash(): void;
  /** Freezes the process; undefined unless the run is a cluster. */
  pause?(): void;
  leave?(): void;
}

/** Performs commits, some of which fail. */
interface Committer {
  commit<T>(write: () => Promise<T>): Promise<T>;
}

export class SimulatedFaults {
  readonly counts: FaultCounts = { crashes: 0, failedCommits: 0, lostReplies: 0, pauses: 0, leaves: 0 };
  readonly #random: SeededRandom;
  #crashesLeft: number;
  #faultsLeft: number;

  constructor(random: SeededRandom, options: { readonly crashesMax: number }) {
    this.#random = random;
    this.#crashesLeft = random.between(0, options.crashesMax);
    this.#faultsLeft = random.between(0, 6);
  }

  /** Returns the committer of one process, which makes some of its commits fail. */
  of(node: NodeFaults): Committer {
    return { commit: (write) => this.#commit(node, write) };
  }

  /** A commit of a process that has died never answers. */
  async #commit<T>(node: NodeFaults, write: () => Promise<T>): Promise<T> {
    const dice = this.#random.below(100);
    if (dice < 12 && this.#crashesLeft > 0) {
      this.#crashesLeft--;
      this.counts.crashes++;
      if (dice < 6) await write();
      node.crash();
      return new Promise<T>(() => {});
    }
    // A node that is frozen for longer than its lease counts as dead, so its tasks may run again elsewhere.
    if (dice < 18 && node.pause !== undefined && this.#crashesLeft > 0) {
      this.#crashesLeft--;
      this.counts.pauses++;
      node.pause();
      return write();
    }
    if (dice < 24 && node.leave !== undefined && this.#faultsLeft > 0) {
      this.#faultsLeft--;
      this.counts.leaves++;
      node.leave();
      return write();
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
