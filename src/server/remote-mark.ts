/** Stores that remote workers joined in this epoch: after an unclean end, the next owner waits for their attempts. */
import { REMOTE_MARK, remoteEpoch } from "../store/remote-epoch.ts";
import type { DocumentStore, StoreInfo } from "../store/store.ts";
import type { Route } from "./route.ts";

/** Whether attempts of remote workers from before this opening may still run; then they may after the next one too. */
export async function mayRunRemotely(store: DocumentStore, { owned }: StoreInfo): Promise<boolean> {
  const uncleanEpoch = Math.max(0, ...owned.map((own) => own.uncleanEpoch));
  if (uncleanEpoch === 0) return false;
  if ((await remoteEpoch(store)) < uncleanEpoch) return false;
  await store.putDocument(
    REMOTE_MARK.of,
    REMOTE_MARK.id,
    JSON.stringify({ epoch: Math.max(...owned.map(({ epoch }) => epoch)) }),
  );
  return true;
}

/** Stores that attempts may run at remote workers from now on. */
export async function noteRemote(store: DocumentStore, { owned }: StoreInfo): Promise<void> {
  const epoch = Math.max(0, ...owned.map((own) => own.epoch));
  await store.putDocument(REMOTE_MARK.of, REMOTE_MARK.id, JSON.stringify({ epoch }));
}

/** Wraps the worker routes so that a registration is stored before it is answered. */
export function rememberRemote(
  routes: readonly Route[],
  store: DocumentStore,
  info: StoreInfo,
): readonly Route[] {
  let remembered: Promise<void> | null = null;
  const remember = (): Promise<void> => {
    remembered ??= noteRemote(store, info).catch((fault: unknown) => {
      remembered = null;
      throw fault;
    });
    return remembered;
  };
  return routes.map((route) =>
    route.id === "registerWorker"
      ? {
          ...route,
          handle: async (ask) => {
            await remember();
            return route.handle(ask);
          },
        }
      : route,
  );
}
