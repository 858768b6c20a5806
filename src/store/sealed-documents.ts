/** Stored documents end with a checksum (std/seal.ts). */
import { DamagedData, WRONG_CHECKSUM } from "../kernel/journal/damage.ts";
import { seal, unseal } from "../std/seal.ts";

/** Kinds that older versions compare as plain texts: stored without a checksum. */
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

/** Opens a document of a list. `damage` says why it is damaged, so that it does not hide the others. */
export function listedDocument(kind: string, { id, body }: { readonly id: string; readonly body: string }) {
  if (PLAIN_KINDS.includes(kind)) return { id, body };
  const { text, state } = unseal(body, keyOf(kind, id));
  return state === "broken" ? { id, body: text, damage: WRONG_CHECKSUM } : { id, body: text };
}

function keyOf(kind: string, id: string): string {
  return `${kind}\n${id}`;
}
