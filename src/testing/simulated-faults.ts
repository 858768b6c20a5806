/**
 * What goes wrong in a simulated run of a workflow, under its seed: a commit is refused before it is written, or its
 * answer is lost after it was; or the process dies, before or after. In a cluster a node also stands still for longer than
 * its lease, or leaves in good order. At most so often: then all goes well.
 */
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
  /** Nodes that stood still for longer than their lease. */
  pauses: number;
  /** Nodes that left in good order. */
  leaves: number;
}

/** What can befall a process. */
export interface NodeFaults {
  crash(): void;
  /** Only in a cluster. */
  pause?(): void;
  leave?(): void;
}

/** What makes commits, or lets them go wrong. */
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

  /** For one process. */
  of(node: NodeFaults): Committer {
    return { commit: (write) => this.#commit(node, write) };
  }

  /** What never answers is of a process that has died. */
  async #commit<T>(node: NodeFaults, write: () => Promise<T>): Promise<T> {
    const dice = this.#random.below(100);
    if (dice < 12 && this.#crashesLeft > 0) {
      this.#crashesLeft--;
      this.counts.crashes++;
      if (dice < 6) await write();
      node.crash();
      return new Promise<T>(() => {});
    }
    // Whoever stands still for so long is taken for dead: what ran there may run again.
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
