/** Adds a checksum to stored documents and checks it (std/seal.ts). */
import { DamagedData, WRONG_CHECKSUM } from "../kernel/journal/damage.ts";
import { seal, unseal } from "../std/seal.ts";

/** Kinds of documents that are stored without a checksum, because older versions compare them as plain texts. */
const PLAIN_KINDS: readonly string[] = ["cluster-secret", "schedule-mark"];

/** Adds the checksum to the body of a document. */
export function sealDocument(kind: string, id: string, body: string): string {
  return PLAIN_KINDS.includes(kind) ? body : seal(body, keyOf(kind, id));
}

/** Checks and removes the checksum of a document; throws `DamagedData` if it is wrong. */
export function openDocument(kind: string, id: string, stored: string): string {
  const { body, damage } = listedDocument(kind, { id, body: stored });
  if (damage === undefined) return body;
  throw new DamagedData({ table: "documents", execution: null, row: `${kind}/${id}`, why: damage });
}

/**
 * Checks and removes the checksum of a document in a list. A damaged one is returned with `damage`, the reason, so that the
 * rest of the list can still be read.
 */
export function listedDocument(kind: string, { id, body }: { readonly id: string; readonly body: string }) {
  if (PLAIN_KINDS.includes(kind)) return { id, body };
  const { text, state } = unseal(body, keyOf(kind, id));
  return state === "broken" ? { id, body: text, damage: WRONG_CHECKSUM } : { id, body: text };
}

function keyOf(kind: string, id: string): string {
  return `${kind}\n${id}`;
}
