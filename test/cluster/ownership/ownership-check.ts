/**
 * What must hold while nodes take and give up partitions, kept apart from all of them: each epoch has one owner;
 * nothing is written in an epoch that is over; what an engine dropped is never called clean; who may not act has
 * nothing, and who has just heard from the store has nothing that the store does not say; and, as long as the
 * database's clock does not jump, no two nodes may act on a partition at once.
 */

import type { Membership } from "../../../src/store/cluster-store.ts";
import type { Ownership } from "../../../src/store/store.ts";
import { must } from "../../../tools/sim/trace.ts";

/** A process with an engine in it. */
export interface Owner {
  readonly name: string;
  readonly isAlive: boolean;
  /** What its engine has, by epoch. */
  readonly has: ReadonlyMap<number, number>;
  mayAct(): boolean;
}

export class OwnershipCheck {
  readonly #clockJumps: boolean;
  /** Partition -> the newest epoch that the store has given out. */
  readonly #epochs = new Map<number, number>();
  /** `<partition> <epoch>` -> the process that began it. */
  readonly #begun = new Map<string, string>();
  /** Partition -> epochs that began and were not yielded. */
  readonly #open = new Map<number, Set<number>>();
  written = 0;
  refused = 0;

  constructor(options: { clockJumps: boolean }) {
    this.#clockJumps = options.clockJumps;
  }

  /** The store gave these out, whether or not anybody hears of it. */
  gaveOut(owned: readonly Ownership[]): void {
    for (const { partition, epoch } of owned) {
      must(
        epoch === (this.#epochs.get(partition) ?? 0) + 1,
        "each time a partition is taken its epoch grows",
      );
      this.#epochs.set(partition, epoch);
    }
  }

  /** An engine begins. */
  began(name: string, { partition, epoch, uncleanEpoch }: Ownership): void {
    const key = `${partition} ${epoch}`;
    must(!this.#begun.has(key), `epoch ${epoch} of partition ${partition} has one owner`);
    this.#begun.set(key, name);
    const open = this.#open.get(partition) ?? new Set();
    for (const former of open)
      must(
        former > epoch || former <= uncleanEpoch,
        `partition ${partition} is clean after ${former}, which was dropped (${uncleanEpoch})`,
      );
    this.#open.set(partition, open.add(epoch));
  }

  /** An engine has nothing under way any more. */
  yielded(partition: number, epoch: number): void {
    this.#open.get(partition)?.delete(epoch);
  }

  /** A write was accepted, or not. */
  wrote(partition: number, epoch: number, isAccepted: boolean): void {
    if (isAccepted) this.written++;
    else this.refused++;
    if (isAccepted)
      must(
        epoch === this.#epochs.get(partition),
        `a write of epoch ${epoch} is in partition ${partition}, which is in ${this.#epochs.get(partition)}`,
      );
  }

  /** The store's answer has come in. */
  heard(owner: Owner, { partitions, incarnation }: Membership): void {
    for (const [partition, epoch] of owner.has) {
      const row = partitions[partition];
      must(
        row?.owner === incarnation && row.epoch === epoch,
        `${owner.name} was told that partition ${partition} is not its own in epoch ${epoch}, and has it`,
      );
    }
  }

  /** Nobody else may act on what this one has. */
  alone(owner: Owner, all: Iterable<Owner>): void {
    if (!owner.isAlive) return;
    if (!owner.mayAct()) return must(owner.has.size === 0, `${owner.name} may not act and has partitions`);
    for (const other of all) {
      if (other === owner || !other.isAlive || !other.mayAct()) continue;
      for (const [partition, epoch] of owner.has) {
        const theirs = other.has.get(partition);
        must(theirs !== epoch, `${owner.name} and ${other.name} have partition ${partition} in one epoch`);
        must(
          this.#clockJumps || theirs === undefined,
          `${owner.name} and ${other.name} may both act on partition ${partition}`,
        );
      }
    }
  }
}
