/**
 * The tenures of a node. A tenure is the time in which the node owns a partition. Leases and requests that begin in a tenure end with
 * it.
 */
import { TransientMap } from "../../std/transient-map.ts";
import { partitionOf } from "../../store/partition-of.ts";
import {
  type Fence,
  fenceOf,
  type Ownership,
  type Partitions,
  type StoreInfo,
  type UncleanEnd,
} from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import { type HandedQuotas, QuotaServer, type StoredQuotas } from "../limits/quota-server.ts";

export interface Tenure extends Omit<Ownership, "uncleanEnds"> {
  openedAt: number;
  uncleanEnds: readonly UncleanEnd[];
  /** The partition's executions in memory. */
  readonly slots: TransientMap<string, Slot>;
  /** The quota server of limits whose names belong to the partition. */
  readonly quotas: QuotaServer;
  /**
   * Counts claims that lapsed, and executions that were purged or damaged, in this tenure. New claim numbers start above this count,
   * so no claim number is used twice.
   */
  lapses: number;
  /** Whether the partition is being handed over. Then nothing is granted, and no new work begins. */
  isYielding: boolean;
  /** Whether this node no longer owns the partition. */
  isOver: boolean;
}

type QuotaSettings = Pick<
  ConstructorParameters<typeof QuotaServer>[0],
  "takeoverMs" | "marginMs" | "reminderMs"
>;

interface QuotasLeft {
  /** The quotas that former quota servers handed over, by partition. Null if a server of an earlier version did not know all quotas. */
  readonly quotas: ReadonlyMap<number, HandedQuotas | null>;
  /** The other living nodes. The next field has the times at which the leases of departed nodes ended. */
  readonly live: readonly string[];
  readonly ended: Readonly<Record<string, number>>;
  /** Handler and project limits as the last owners stored them, by partition. */
  readonly stored: ReadonlyMap<number, StoredQuotas> | undefined;
}

interface NewQuotas extends Pick<QuotasLeft, "live" | "ended"> {
  readonly own: Ownership;
  readonly now: number;
}

const NOTHING_HANDED: HandedQuotas = { limits: [] };

export class Tenures {
  readonly #partitions: number;
  readonly #generation: string;
  readonly #held = new Map<number, Tenure>();
  /** The tenures whose quota servers may have something to do. The node checks these in every turn; most partitions have no limit. */
  readonly withQuotas = new Set<Tenure>();
  #fence: Fence;
  #scope: Partitions = null;
  #uncleanSince: number | null = null;
  #succeedsSince: number | null = null;
  readonly #quotaSettings: QuotaSettings;

  constructor(info: StoreInfo, now: number, quotas: QuotaSettings) {
    this.#quotaSettings = quotas;
    this.#partitions = info.partitions;
    this.#generation = info.generation;
    this.#fence = fenceOf(info);
    this.take(info.owned, now);
  }

  get fence(): Fence {
    return this.#fence;
  }

  get scope(): Partitions {
    return this.#scope;
  }

  /** Whether the store has only one partition. */
  get isWhole(): boolean {
    return this.#partitions === 1;
  }

  get size(): number {
    return this.#held.size;
  }

  all(): Iterable<Tenure> {
    return this.#held.values();
  }

  at(partition: number): Tenure | undefined {
    return this.#held.get(partition);
  }

  /** Returns the number of the partition to which an execution or a limit belongs. */
  partitionOf(name: string): number {
    return partitionOf(name, this.#partitions);
  }

  /** Returns the tenure of the execution's partition; undefined if this node does not own it. */
  of(execution: string): Tenure | undefined {
    return this.#held.get(partitionOf(execution, this.#partitions));
  }

  take(
    owned: readonly Ownership[],
    now: number,
    { quotas: handed = new Map(), live = [], ended = {}, stored }: Partial<QuotasLeft> = {},
  ): void {
    for (const own of owned) {
      const { partition } = own;
      const left = handed.get(partition);
      const isAfterCrash = own.uncleanEpoch > 0 && own.uncleanEpoch === own.epoch - 1;
      const quotas =
        /* @plant home knows of no crash before it */ isAfterCrash || left === null
          ? this.#quotasAfterCrash({ own, live, ended, now, stored: stored?.get(partition) ?? null })
          : this.#quotasHanded({ own, live, ended, now, left: left ?? NOTHING_HANDED });
      const tenure: Tenure = {
        ...own,
        uncleanEnds: own.uncleanEnds ?? [],
        openedAt: now,
        slots: new TransientMap(),
        quotas,
        lapses: 0,
        isYielding: false,
        isOver: false,
      };
      this.#held.set(partition, tenure);
      if (!quotas.isIdle) this.withQuotas.add(tenure);
    }
    this.#changed();
  }

  /** Returns the quotas of a partition whose last quota server ended uncleanly. Lasting limits are as that server stored them. */
  #quotasAfterCrash({
    own,
    stored,
    ...others
  }: NewQuotas & { readonly stored: StoredQuotas | null }): QuotaServer {
    const { live, now } = others;
    const endedAt = own.uncleanEnds?.find(({ epoch }) => epoch === own.epoch - 1)?.at ?? now;
    const unstoredSince = stored === null ? endedAt : (stored.unstoredSince ?? null);
    const options = { ...this.#quotaSettings, epoch: own.epoch, undeclaredSince: endedAt, unstoredSince };
    return new QuotaServer({ ...options, ...others, awaited: live }, [], stored);
  }

  /** Returns the quotas that the last quota server of the partition handed over. */
  #quotasHanded({ own, left, ...others }: NewQuotas & { readonly left: HandedQuotas }): QuotaServer {
    const since = (ms: number | undefined) => (ms === undefined ? null : others.now - ms);
    const options = {
      ...this.#quotaSettings,
      epoch: own.epoch,
      undeclaredSince: since(left.undeclaredMs),
      unstoredSince: since(left.unstoredMs),
    };
    return new QuotaServer({ ...options, ...others, awaited: left.awaited ?? [] }, left.limits);
  }

  /** Called when the clock was set forward: the skipped time does not count as silence. */
  extend(ms: number): void {
    for (const tenure of this.#held.values()) {
      tenure.openedAt += ms;
      tenure.uncleanEnds = tenure.uncleanEnds.map(({ epoch, at }) => ({ epoch, at: at + ms }));
      tenure.quotas.extend(ms);
    }
    this.#changed();
  }

  end(tenure: Tenure): void {
    tenure.isOver = true;
    this.#held.delete(tenure.partition);
    this.withQuotas.delete(tenure);
    this.#changed();
  }

  /** The time since which attempts of an owner that ended uncleanly may still run; null if none may. */
  uncleanSince(): number | null {
    return this.#uncleanSince;
  }

  /** The time since which this node has partitions that other owners had before; null if it has none. */
  succeedsSince(): number | null {
    return this.#succeedsSince;
  }

  #changed(): void {
    const owned = [...this.#held.values()];
    this.#uncleanSince = sinceOf(
      owned,
      ({ epoch, uncleanEpoch }) => uncleanEpoch > 0 && uncleanEpoch === epoch - 1,
    );
    this.#succeedsSince = sinceOf(owned, ({ epoch }) => epoch > 1);
    this.#fence = fenceOf({ generation: this.#generation, owned });
    if (!this.isWhole) this.#scope = owned.map(({ partition }) => partition).sort((a, b) => a - b);
  }
}

/**
 * Returns the first epoch, from `epoch` on, that ended uncleanly, with the time of its end. If that is unknown, returns the last such
 * epoch, with the time at which this tenure began.
 */
export function uncleanEndFrom({ uncleanEnds, uncleanEpoch, openedAt }: Tenure, epoch: number): UncleanEnd {
  // @plant a wait begins anew at each death
  const end = uncleanEnds.find((one) => one.epoch >= epoch);
  return end === undefined || end.epoch > uncleanEpoch ? { epoch: uncleanEpoch, at: openedAt } : end;
}

/** Returns the latest opening time of the tenures for which `holds` returns true; null if there is none. */
function sinceOf(tenures: readonly Tenure[], holds: (tenure: Tenure) => boolean): number | null {
  let since: number | null = null;
  for (const tenure of tenures) if (holds(tenure)) since = Math.max(since ?? 0, tenure.openedAt);
  return since;
}
