/** A store whose partitions are all owned by this process; `confirm` throws if the process has lost its lease of the store. */
import type { Clock } from "../std/clock.ts";
import { RondoError, reject } from "../std/rejection.ts";
import { type ClusterStore, LEASE_MS, type Membership } from "../store/cluster-store.ts";
import { type Store, StoreFault, type StoreInfo } from "../store/store.ts";

export interface OwnedStore {
  readonly store: Store;
  /** The store's info, which says that this process owns every partition. */
  readonly info: StoreInfo;
  /** Resolves if this process has been the only owner until now; throws otherwise. */
  confirm(): Promise<void>;
  close(options: { readonly clean: boolean }): Promise<void>;
}

/** Opens a store and takes all its partitions. Throws a `conflict` if another process works on the store. */
export async function openOwned(store: Store, clock: Clock): Promise<OwnedStore> {
  const info = await store.open();
  if (!isOfCluster(store)) {
    return { store, info, confirm: async () => {}, close: (options) => store.close(options) };
  }
  try {
    return await acquireAll(store, info, clock);
  } catch (thrown) {
    await store.close({ clean: true });
    throw thrown;
  }
}

function isOfCluster(store: Store): store is ClusterStore {
  return "renew" in store;
}

async function acquireAll(store: ClusterStore, info: StoreInfo, clock: Clock): Promise<OwnedStore> {
  const { nodes, incarnation } = await store.renew();
  const others = nodes.filter((node) => node.incarnation !== incarnation).map(({ url }) => url);
  if (others.length > 0) throw inUse(others);
  const owned = await store.take(Array.from({ length: info.partitions }, (_, i) => i));
  // Another process took some of the partitions at the same time.
  if (owned.length < info.partitions) throw inUse([]);
  const epochs = new Map(owned.map(({ partition, epoch }) => [partition, epoch]));
  let lost: StoreFault | null = null;
  const check = (membership: Membership): void => {
    const isOurs =
      membership.incarnation === incarnation &&
      membership.partitions.every(
        ({ partition, owner, epoch }) => owner === incarnation && epoch === epochs.get(partition),
      );
    if (!isOurs)
      lost = new StoreFault("another process took over the store during the transfer", {
        retryable: false,
        nothingWritten: false,
      });
  };
  const renewals = new Renewals(clock, async () => check(await store.renew()));
  return {
    store,
    info: { ...info, owned },
    async confirm() {
      check(await store.renew());
      if (lost !== null) throw lost;
    },
    async close(options) {
      await renewals.end();
      await store.close(options);
    },
  };
}

function inUse(urls: readonly string[]): RondoError {
  const by = urls.length === 0 ? "" : `: ${urls.join(", ")}`;
  return new RondoError(
    reject("conflict", `nodes are using this store${by}`, {
      hint: `stop the nodes first; a node that was killed counts as gone after ${LEASE_MS / 1_000} seconds`,
    }),
  );
}

/** Renews the lease after each third of its time. If a renewal fails, the lease is kept as long as the next one succeeds in time. */
class Renewals {
  readonly #clock: Clock;
  readonly #renew: () => Promise<void>;
  #cancel: () => void = () => {};
  #underWay: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(clock: Clock, renew: () => Promise<void>) {
    this.#clock = clock;
    this.#renew = renew;
    this.#arm();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    this.#cancel();
    await this.#underWay;
  }

  #arm(): void {
    this.#cancel = this.#clock.after(LEASE_MS / 3, () => {
      this.#underWay = this.#once();
    });
  }

  async #once(): Promise<void> {
    try {
      await this.#renew();
    } catch (thrown) {
      // Errors are ignored: if the lease is lost, the next renewal or `confirm` notices it.
      if (!(thrown instanceof StoreFault)) throw thrown;
    }
    if (!this.#isOver) this.#arm();
  }
}
