/** Homes of lasting limits in the store: one document for each partition. */
import { DamagedData } from "../kernel/damage.ts";
import type { Ownership, Store } from "../store/store.ts";
import type { StoredHome } from "./permit-home.ts";

const KIND = "permits";

type Documents = Pick<Store, "getDocument" | "swapDocument" | "putDocument">;

/** Stores a home; false: a later owner has stored its own, or somebody else was faster. */
export async function storeHome(store: Documents, partition: number, home: StoredHome): Promise<boolean> {
  const id = String(partition);
  const was = await readBody(store, id);
  // A damaged document says nothing: the next home goes by its absence.
  if (was === "damaged") await store.putDocument(KIND, id, null);
  const before = was === "damaged" ? null : was;
  if ((parseHome(before)?.epoch ?? 0) > home.epoch) return false;
  return store.swapDocument(KIND, id, { was: before, body: JSON.stringify(home) });
}

/** What the last owners stored of the homes of these partitions. */
export async function readHomes(
  store: Pick<Store, "getDocument">,
  owned: readonly Ownership[],
): Promise<ReadonlyMap<number, StoredHome>> {
  const homes = new Map<number, StoredHome>();
  await Promise.all(
    owned.map(async (own) => {
      const body = await readBody(store, String(own.partition));
      const home = homeFor(own, body === "damaged" ? null : body);
      if (home !== null) homes.set(own.partition, home);
    }),
  );
  return homes;
}

/** What a stored document tells this owner; null: an owner since then may have given out what it did not store. */
export function homeFor({ limitsStoredFrom }: Ownership, body: string | null): StoredHome | null {
  if (limitsStoredFrom === undefined) return null;
  const home = parseHome(body);
  if (home !== null && home.epoch >= limitsStoredFrom) return home;
  return body === null && limitsStoredFrom === 1 ? { epoch: 0, limits: [] } : null;
}

async function readBody(store: Pick<Store, "getDocument">, id: string): Promise<string | "damaged" | null> {
  try {
    return await store.getDocument(KIND, id);
  } catch (thrown) {
    if (thrown instanceof DamagedData) return "damaged";
    throw thrown;
  }
}

function parseHome(body: string | null): StoredHome | null {
  if (body === null) return null;
  try {
    return JSON.parse(body) as StoredHome;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}
