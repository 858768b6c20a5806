/** The last epoch in which workers of other processes were connected. It is stored as a document. */
import { DamagedData } from "../kernel/journal/damage.ts";
import { KEPT, number, object } from "../std/decode.ts";
import { jsonForm, readDocument } from "./document-form.ts";
import type { Store } from "./store.ts";

export const REMOTE_MARK = { of: "setting", id: "remote" } as const;

export const REMOTE_FORM = jsonForm<{ readonly epoch: number }>(
  REMOTE_MARK.of,
  object({ epoch: number }, KEPT),
);

/**
 * Reads the last epoch in which workers of other processes were connected; 0 if there was none. If the document is damaged, it
 * returns infinity: such workers may have been connected in any epoch.
 */
export async function remoteEpoch(store: Pick<Store, "getDocument">): Promise<number> {
  try {
    return (await readDocument(store, REMOTE_FORM, REMOTE_MARK.id))?.epoch ?? 0;
  } catch (thrown) {
    if (thrown instanceof DamagedData) return Number.POSITIVE_INFINITY;
    throw thrown;
  }
}
