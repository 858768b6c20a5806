/**
 * The partitions of a node. An embedded store has one, which is the node's from its opening to its end; in a cluster they
 * come and go. A tenure is one stretch of having a partition: it has its epoch, and what began in it ends with it.
 */
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
  /** Its executions in memory. */
  readonly slots: Set<Slot>;
  /** Limits whose names fall into it. */
  readonly quotas: QuotaServer;
  /**
   * Claims that lapsed in it, and executions that were purged from it: the first claim number of whatever is loaded or
   * started from now on. So no claim has a number that an earlier one of the same attempt had.
   */
  lapses: number;
  /** It is about to be handed over: nothing is given out, nothing new is begun. */
  isYielding: boolean;
  /** Another has the partition, or nobody. */
  isOver: boolean;
}

type QuotaSettings = Pick<
  ConstructorParameters<typeof QuotaServer>[0],
  "takeoverMs" | "marginMs" | "reminderMs"
>;

/** What is known of the limits that are at home in what is taken. */
interface QuotasLeft {
  /** What former homes handed over, by partition; null: they did not know all (so said earlier versions). */
  readonly quotas: ReadonlyMap<number, HandedQuotas | null>;
  /** The other nodes. */
  readonly live: readonly string[];
  /** Lasting limits as the last owners stored them, by partition. */
  readonly stored: ReadonlyMap<number, StoredQuotas> | undefined;
}

interface NewQuotas {
  readonly own: Ownership;
  readonly live: readonly string[];
  readonly now: number;
}

const NOTHING_HANDED: HandedQuotas = { limits: [] };

export class Tenures {
  readonly #partitions: number;
  readonly #generation: string;
  readonly #held = new Map<number, Tenure>();
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

  /** What commits carry. */
  get fence(): Fence {
    return this.#fence;
  }

  /** What scans are about. */
  get scope(): Partitions {
    return this.#scope;
  }

  /** Whether the store has one owner for all. */
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

  /** Where an execution is, or a limit at home. */
  partitionOf(name: string): number {
    return partitionOf(name, this.#partitions);
  }

  /** The tenure in which the execution is; undefined: it is not this node's. */
  of(execution: string): Tenure | undefined {
    return this.#held.get(partitionOf(execution, this.#partitions));
  }

  take(
    owned: readonly Ownership[],
    now: number,
    { quotas: handed = new Map(), live = [], stored }: Partial<QuotasLeft> = {},
  ): void {
    for (const own of owned) {
      const { partition } = own;
      const left = handed.get(partition);
      const isAfterCrash = own.uncleanEpoch > 0 && own.uncleanEpoch === own.epoch - 1;
      const quotas =
        /* @plant home knows of no crash before it */ isAfterCrash || left === null
          ? this.#quotasAfterCrash({ own, live, now, stored: stored?.get(partition) ?? null })
          : this.#quotasHanded({ own, live, now, left: left ?? NOTHING_HANDED });
      this.#held.set(partition, {
        ...own,
        uncleanEnds: own.uncleanEnds ?? [],
        openedAt: now,
        slots: new Set(),
        quotas,
        lapses: 0,
        isYielding: false,
        isOver: false,
      });
    }
    this.#changed();
  }

  /** The last home ended uncleanly: lasting limits are as it stored them. */
  #quotasAfterCrash({
    own,
    live,
    now,
    stored,
  }: NewQuotas & { readonly stored: StoredQuotas | null }): QuotaServer {
    const endedAt = own.uncleanEnds?.find(({ epoch }) => epoch === own.epoch - 1)?.at ?? now;
    const unstoredSince = stored === null ? endedAt : (stored.unstoredSince ?? null);
    const options = { ...this.#quotaSettings, epoch: own.epoch, undeclaredSince: endedAt, unstoredSince };
    return new QuotaServer({ ...options, awaited: live, live, now }, [], stored);
  }

  /** The last home handed over what it knew. */
  #quotasHanded({ own, live, now, left }: NewQuotas & { readonly left: HandedQuotas }): QuotaServer {
    const since = (ms: number | undefined) => (ms === undefined ? null : now - ms);
    const options = {
      ...this.#quotaSettings,
      epoch: own.epoch,
      undeclaredSince: since(left.undeclaredMs),
      unstoredSince: since(left.unstoredMs),
    };
    return new QuotaServer({ ...options, awaited: left.awaited ?? [], live, now }, left.limits);
  }

  /** The clock was set forward: that is no time in which anybody was silent. */
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
    this.#changed();
  }

  /** Since when attempts of a former owner, which ended uncleanly, may still run; null: none may. */
  uncleanSince(): number | null {
    return this.#uncleanSince;
  }

  /** Since when this node stands for others before it; null: there were none. */
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
 * The first epoch from this one on that did not end cleanly, and when it ended. Where the store does not say, it is the
 * last one, and it ended when its successor began.
 */
export function uncleanEndFrom({ uncleanEnds, uncleanEpoch, openedAt }: Tenure, epoch: number): UncleanEnd {
  // @plant a wait begins anew at each death
  const end = uncleanEnds.find((one) => one.epoch >= epoch);
  return end === undefined || end.epoch > uncleanEpoch ? { epoch: uncleanEpoch, at: openedAt } : end;
}

/** When the newest of those began for which this holds; null: it holds for none. */
function sinceOf(tenures: readonly Tenure[], holds: (tenure: Tenure) => boolean): number | null {
  let since: number | null = null;
  for (const tenure of tenures) if (holds(tenure)) since = Math.max(since ?? 0, tenure.openedAt);
  return since;
}
