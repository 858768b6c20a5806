/**
 * A seal is a checksum at the end of a stored JSON text, written as 16 white-space characters: a CRC-32, two bits per
 * character. JSON readers skip white space, so programs that do not know seals can read the text. The checksum also covers a
 * key that names the text, so it also detects a text that is stored in another text's place.
 */
import { checksum } from "./hash.ts";

const SYMBOLS = " \t\r\n";
const LENGTH = 16;
/** The four white-space characters for each value of a byte. */
const BYTES = Array.from({ length: 256 }, (_, byte) =>
  [0, 2, 4, 6].map((shift) => SYMBOLS[(byte >>> shift) & 3]).join(""),
);
/**
 * JSON.stringify never ends a text with white space, so a text with this many white-space characters at its end has a seal,
 * perhaps a broken one.
 */
const TRACES = 8;

export function seal(text: string, key: string): string {
  return text + sealOf(checksum(text, checksum(key, 0)));
}

/**
 * Seals a text that is given in two parts. V8 copies a concatenated text when its characters are read, so a large text is read
 * in the parts that it is made of.
 */
export function sealJoined(head: string, rest: string, key: string): string {
  return head + rest + sealOf(checksum(rest, checksum(head, checksum(key, 0))));
}

function sealOf(sum: number): string {
  return `${BYTES[sum & 255]}${BYTES[(sum >>> 8) & 255]}${BYTES[(sum >>> 16) & 255]}${BYTES[sum >>> 24]}`;
}

/**
 * The state of a seal. `whole`: the checksum matches. `plain`: the text has no seal. `broken`: the text has changed since it was sealed.
 */
export type SealState = "whole" | "plain" | "broken";

/** Splits a stored text into the text without its seal, and the state of the seal. */
export function unseal(stored: string, key: string): { readonly text: string; readonly state: SealState } {
  const from = stored.length - LENGTH;
  const traces = countWhiteSpace(stored, Math.max(0, from));
  if (traces < TRACES) return { text: stored, state: "plain" };
  if (from < 0) return { text: stored, state: "broken" };
  const text = stored.slice(0, from);
  return { text, state: seal(text, key) === stored ? "whole" : "broken" };
}

/** The state of the seal of a text. */
export function sealState(stored: string, key: string): SealState {
  return unseal(stored, key).state;
}

function countWhiteSpace(text: string, from: number): number {
  let count = 0;
  for (let i = from; i < text.length; i++) if (SYMBOLS.includes(text[i] as string)) count++;
  return count;
}
