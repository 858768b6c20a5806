/**
 * Stores a mark that remote workers joined in this epoch. After an unclean end, the next owner of the store waits for their
 * attempts.
 */
import { REMOTE_MARK, remoteEpoch } from "../store/remote-epoch.ts";
import type { DocumentStore, StoreInfo } from "../store/store.ts";
import type { Route } from "./route.ts";

/**
 * Whether attempts that remote workers began before this opening of the store may still run. If so, the mark is stored for the
 * next opening too.
 */
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

/** Stores the mark: attempts may run at remote workers from now on. */
export async function noteRemote(store: DocumentStore, { owned }: StoreInfo): Promise<void> {
  const epoch = Math.max(0, ...owned.map((own) => own.epoch));
  await store.putDocument(REMOTE_MARK.of, REMOTE_MARK.id, JSON.stringify({ epoch }));
}

/** Wraps the worker routes so that the mark is stored before the registration of a worker is answered. */
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
