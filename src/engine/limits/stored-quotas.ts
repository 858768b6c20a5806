/** Homes of lasting limits in the store: one document for each partition. */
import { DamagedData } from "../../kernel/journal/damage.ts";
import { KEPT, listOf, number, object, string } from "../../std/decode.ts";
import { jsonForm, parseDocument } from "../../store/document-form.ts";
import type { Ownership, Store } from "../../store/store.ts";
import type { StoredHome } from "./quota-server.ts";

const KIND = "permits";
const holder = object({ node: string, bound: number }, KEPT);
const storedLimit = object(
  {
    name: string,
    max: number,
    declaredAt: number,
    silenceMs: number,
    holders: listOf(holder),
  },
  KEPT,
);
const FORM = jsonForm<StoredHome>(KIND, object({ epoch: number, limits: listOf(storedLimit) }, KEPT));

type Documents = Pick<Store, "getDocument" | "swapDocument" | "putDocument">;

/** A stored document: its body, and the home in it. Null: there is none. */
type Found = { readonly body: string; readonly home: StoredHome } | "damaged" | null;

/** Stores a home; false: a later owner has stored its own, or another write was faster. */
export async function storeHome(store: Documents, partition: number, home: StoredHome): Promise<boolean> {
  const id = String(partition);
  const was = await find(store, id);
  // A damaged document tells no later owner anything.
  if (was === "damaged") await store.putDocument(KIND, id, null);
  const before = was === "damaged" ? null : was;
  if (before !== null && before.home.epoch > home.epoch) return false;
  return store.swapDocument(KIND, id, { was: before?.body ?? null, body: JSON.stringify(home) });
}

/** What the last owners stored of the homes of these partitions. */
export async function readHomes(
  store: Pick<Store, "getDocument">,
  owned: readonly Ownership[],
): Promise<ReadonlyMap<number, StoredHome>> {
  const homes = new Map<number, StoredHome>();
  await Promise.all(
    owned.map(async (own) => {
      const found = await find(store, String(own.partition));
      const home = found === "damaged" ? null : homeFor(own, found?.body ?? null);
      if (home !== null) homes.set(own.partition, home);
    }),
  );
  return homes;
}

/** What a stored body tells this owner; null: an owner since then may have given out permits that it did not store. */
export function homeFor({ partition, limitsStoredFrom }: Ownership, body: string | null): StoredHome | null {
  if (limitsStoredFrom === undefined) return null;
  if (body === null) return limitsStoredFrom === 1 ? { epoch: 0, limits: [] } : null;
  const home = parseDocument(FORM, String(partition), body);
  return home.epoch >= limitsStoredFrom ? home : null;
}

async function find(store: Pick<Store, "getDocument">, id: string): Promise<Found> {
  try {
    const body = await store.getDocument(KIND, id);
    return body === null ? null : { body, home: parseDocument(FORM, id, body) };
  } catch (thrown) {
    if (thrown instanceof DamagedData) return "damaged";
    throw thrown;
  }
}
