import type { ClusterStore } from "../../src/store/cluster-store.ts";
import type { Store, StoreInfo } from "../../src/store/store.ts";

/** Opens a store and owns all of it, be it embedded or of a cluster. */
export async function openWhole(store: Store): Promise<StoreInfo> {
  const info = await store.open();
  if (!isOfCluster(store)) return info;
  await store.renew();
  return { ...info, owned: await store.take(Array.from({ length: info.partitions }, (_, i) => i)) };
}

/** True if the store is one that many nodes share. */
export function isOfCluster(store: Store): store is ClusterStore {
  return "renew" in store;
}
