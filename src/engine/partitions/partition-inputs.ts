/** The interface through which the cluster gives partitions to an engine, takes them away and passes on notices of other nodes. */

import { toError } from "../../std/to-error.ts";
import type { Ownership, Store } from "../../store/store.ts";
import { Pending } from "../commit/pending-replies.ts";
import type { ClusterNotice } from "../driver-options.ts";
import type { Input, Output } from "../io.ts";
import { inDoubt, type LeaseTable, readLeases, storeLeases } from "../leases/lease-handover.ts";
import { storeQuotas } from "../limits/stored-quotas.ts";

export class PartitionInputs {
  readonly #store: Store;
  readonly #input: (input: Input) => void;
  readonly #onFault: (fault: Error) => void;
  /** Partitions that this node is taking over, while the data of their last owners is being read. */
  readonly #coming = new Set<Ownership>();
  readonly #taking = new Set<Promise<void>>();
  /** Pending handovers of partitions. A handover resolves with null if the partition was lost instead. */
  readonly #yields = new Pending<number, LeaseTable | null>();

  constructor(store: Store, input: (input: Input) => void, onFault: (fault: Error) => void) {
    this.#store = store;
    this.#input = input;
    this.#onFault = onFault;
  }

  taken(owned: readonly Ownership[]): Promise<void> {
    const taking = this.#begin(owned).finally(() => this.#taking.delete(taking));
    this.#taking.add(taking);
    return taking;
  }

  async #begin(owned: readonly Ownership[]): Promise<void> {
    for (const own of owned) this.#coming.add(own);
    const left = await readLeases(this.#store, owned);
    // This node may have lost some of the partitions during the read.
    const here = owned.filter((own) => this.#coming.delete(own));
    if (here.length > 0) this.#input({ kind: "taken", owned: inDoubt(here, left), left });
  }

  /**
   * Yields partitions once no commit of them is in progress. Returns false if the end is not clean, because attempts may run that the
   * next owner does not know of.
   */
  async yield(partitions: readonly number[]): Promise<boolean> {
    // A partition that is being taken over must be open before it can be released.
    await Promise.allSettled(this.#taking);
    const yielded = partitions.map((partition) => this.#yields.ask(partition));
    this.#input({ kind: "yield", partitions });
    const tables = await Promise.all(yielded);
    const stored = await Promise.all(
      tables.map((table, i) => storeLeases(this.#store, partitions[i] as number, table)),
    );
    return stored.every((isStored) => isStored);
  }

  /** Stores the quotas of a partition's limits, and reports the result to the node. */
  async storeQuotas({ partition, home }: Extract<Output, { kind: "store-quotas" }>): Promise<void> {
    let isStored = false;
    try {
      isStored = await storeQuotas(this.#store, partition, home);
    } catch (thrown) {
      // The quota server repeats the failed write. Until the write succeeds, the server grants no more permits than the store has.
      this.#onFault(toError(thrown));
    }
    this.#input({ kind: "quotas-stored", partition, epoch: home.epoch, isStored });
  }

  yielded({ partition, leases }: Extract<Output, { kind: "yielded" }>): void {
    this.#yields.answer(partition, leases);
  }

  notify(word: ClusterNotice): void {
    if (word.kind === "lost") this.#lost(word.partitions);
    this.#input(word);
  }

  #lost(partitions: readonly number[]): void {
    for (const partition of partitions) this.#yields.answer(partition, null);
    for (const own of this.#coming) if (partitions.includes(own.partition)) this.#coming.delete(own);
  }
}
