/** The mark that workers of other processes have joined, and in which epoch. */
import { DamagedData } from "../kernel/journal/damage.ts";
import { fields, isNumber, jsonForm, readDocument } from "./document-form.ts";
import type { Store } from "./store.ts";

export const REMOTE_MARK = { of: "setting", id: "remote" } as const;

/** The form of the mark. */
export const REMOTE_FORM = jsonForm<{ readonly epoch: number }>(REMOTE_MARK.of, fields({ epoch: isNumber }));

/** The last epoch in which workers of other processes had joined; a mark that is damaged may be of any. */
export async function remoteEpoch(store: Pick<Store, "getDocument">): Promise<number> {
  try {
    return (await readDocument(store, REMOTE_FORM, REMOTE_MARK.id))?.epoch ?? 0;
  } catch (thrown) {
    if (thrown instanceof DamagedData) return Number.POSITIVE_INFINITY;
    throw thrown;
  }
}
