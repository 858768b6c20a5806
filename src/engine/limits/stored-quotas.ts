/** The quotas of lasting limits in the store: one document for each partition. */
import { DamagedData } from "../../kernel/journal/damage.ts";
import { KEPT, listOf, number, object, string } from "../../std/decode.ts";
import { jsonForm, parseDocument } from "../../store/document-form.ts";
import type { Ownership, Store } from "../../store/store.ts";
import type { StoredQuotas } from "./quota-server.ts";

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
const FORM = jsonForm<StoredQuotas>(KIND, object({ epoch: number, limits: listOf(storedLimit) }, KEPT));

type Documents = Pick<Store, "getDocument" | "swapDocument" | "putDocument">;

/** A stored document with its text and the quotas in it; null if there is none. */
type Found = { readonly body: string; readonly quotas: StoredQuotas } | "damaged" | null;

/** Stores quotas by compare-and-set. Returns false if a later owner has stored its own quotas, or another write came first. */
export async function storeQuotas(
  store: Documents,
  partition: number,
  quotas: StoredQuotas,
): Promise<boolean> {
  const id = String(partition);
  const was = await find(store, id);
  // Deletes a damaged document, because later owners cannot use it.
  if (was === "damaged") await store.putDocument(KIND, id, null);
  const before = was === "damaged" ? null : was;
  if (before !== null && before.quotas.epoch > quotas.epoch) return false;
  return store.swapDocument(KIND, id, { was: before?.body ?? null, body: JSON.stringify(quotas) });
}

/** Returns the quotas that the last owners of these partitions stored. */
export async function readQuotas(
  store: Pick<Store, "getDocument">,
  owned: readonly Ownership[],
): Promise<ReadonlyMap<number, StoredQuotas>> {
  const found = new Map<number, StoredQuotas>();
  await Promise.all(
    owned.map(async (own) => {
      const stored = await find(store, String(own.partition));
      const quotas = stored === "damaged" ? null : quotasFor(own, stored?.body ?? null);
      if (quotas !== null) found.set(own.partition, quotas);
    }),
  );
  return found;
}

/** Parses stored quotas. Returns null if a later owner may have granted permits without storing them. */
export function quotasFor(
  { partition, limitsStoredFrom }: Ownership,
  body: string | null,
): StoredQuotas | null {
  if (limitsStoredFrom === undefined) return null;
  if (body === null) return limitsStoredFrom === 1 ? { epoch: 0, limits: [] } : null;
  const quotas = parseDocument(FORM, String(partition), body);
  return quotas.epoch >= limitsStoredFrom ? quotas : null;
}

async function find(store: Pick<Store, "getDocument">, id: string): Promise<Found> {
  try {
    const body = await store.getDocument(KIND, id);
    return body === null ? null : { body, quotas: parseDocument(FORM, id, body) };
  } catch (thrown) {
    if (thrown instanceof DamagedData) return "damaged";
    throw thrown;
  }
}
