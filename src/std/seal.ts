/**
 * A checksum that a stored JSON text carries at its end, as 16 characters of white space: a CRC-32, two bits a character.
 * Every JSON reader skips white space, so programs that know nothing of seals read the text as before. The checksum
 * also covers a key (whose text it is), so a text found in the place of another one shows as well.
 */
import { checksum } from "./hash.ts";

const SYMBOLS = " \t\r\n";
const LENGTH = 16;
/** Each byte as four characters. */
const BYTES = Array.from({ length: 256 }, (_, byte) =>
  [0, 2, 4, 6].map((shift) => SYMBOLS[(byte >>> shift) & 3]).join(""),
);
/** JSON.stringify never ends a text with white space: so much of it is a seal, perhaps a broken one. */
const TRACES = 8;

/** The text with its seal. */
export function seal(text: string, key: string): string {
  const sum = checksum(text, checksum(key, 0));
  return text + BYTES[sum & 255] + BYTES[(sum >>> 8) & 255] + BYTES[(sum >>> 16) & 255] + BYTES[sum >>> 24];
}

/** `whole`: the checksum fits. `plain`: the text has no seal, so nothing is known. `broken`: it is not what was sealed. */
export type SealState = "whole" | "plain" | "broken";

/** The text without its seal, and what the seal says. */
export function unseal(stored: string, key: string): { readonly text: string; readonly state: SealState } {
  const from = stored.length - LENGTH;
  const traces = countWhiteSpace(stored, Math.max(0, from));
  if (traces < TRACES) return { text: stored, state: "plain" };
  if (from < 0) return { text: stored, state: "broken" };
  const text = stored.slice(0, from);
  return { text, state: seal(text, key) === stored ? "whole" : "broken" };
}

/** What a seal says, for texts that are read with it. */
export function sealState(stored: string, key: string): SealState {
  return unseal(stored, key).state;
}

function countWhiteSpace(text: string, from: number): number {
  let count = 0;
  for (let i = from; i < text.length; i++) if (SYMBOLS.includes(text[i] as string)) count++;
  return count;
}
