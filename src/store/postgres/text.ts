/**
 * How texts and columns travel. PostgreSQL's texts hold no NUL, and a text array as a literal costs more to quote and
 * to parse than to store; so a column of texts is one text, joined by U+001F, and a text that holds NUL or U+001F, or
 * begins as an escape does, is escaped. Almost none is, so the check has to be quick, not the escaping.
 */
import { assert } from "../../std/assert.ts";

const SEPARATOR = "\x1f";
const ESCAPED = "\x01";
const NULL = "\x02";

/** A text as it is stored. */
export function encodeText(text: string): string {
  const first = text.charCodeAt(0);
  if (first !== 1 && first !== 2 && !text.includes("\0") && !text.includes(SEPARATOR)) return text;
  const escaped = text.replaceAll(ESCAPED, `${ESCAPED}a`).replaceAll("\0", `${ESCAPED}b`);
  return ESCAPED + escaped.replaceAll(SEPARATOR, `${ESCAPED}c`);
}

/** A text as it was before it was stored. */
export function decodeText(text: string): string {
  if (text.charCodeAt(0) !== 1) return text;
  const rest = text.slice(1).replaceAll(`${ESCAPED}c`, SEPARATOR);
  return rest.replaceAll(`${ESCAPED}b`, "\0").replaceAll(`${ESCAPED}a`, ESCAPED);
}

/** A name as it is, which holds nothing that would have to be escaped. */
export function plainText(text: string): string {
  assert(!text.includes(SEPARATOR) && !text.includes("\0"), "names hold no control characters");
  return text;
}

/** A column of texts; each is encoded or plain already. Null for none. */
export function joinTexts(texts: readonly (string | null)[]): string | null {
  if (texts.length === 0) return null;
  return texts.includes(null) ? texts.map((text) => text ?? NULL).join(SEPARATOR) : texts.join(SEPARATOR);
}

/** A column of texts, or its one text if all are the same: for functions that know what to make of it. */
export function joinOrOnce(texts: readonly (string | null)[]): string | null {
  const [first] = texts;
  if (first === undefined) return null;
  return texts.every((text) => text === first) ? (first ?? NULL) : joinTexts(texts);
}

/** The texts of a column. */
export function splitTexts(column: string): string[] {
  return column.split(SEPARATOR);
}

/** A column of numbers without nulls, or its one number if all are the same. Null for none. */
export function joinNumbersOrOnce(numbers: readonly (number | null)[]): string | null {
  const [first] = numbers;
  return first !== undefined && numbers.every((number) => number === first)
    ? `{${first}}`
    : joinNumbers(numbers);
}

/** A column of numbers. Null for none, or if all are null. */
export function joinNumbers(numbers: readonly (number | null)[]): string | null {
  if (!numbers.includes(null)) return numbers.length === 0 ? null : `{${numbers.join()}}`;
  if (numbers.every((number) => number === null)) return null;
  return `{${numbers.map((number) => number ?? "NULL").join()}}`;
}
