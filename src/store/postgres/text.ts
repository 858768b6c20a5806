/**
 * The encoding of texts in calls of SQL functions: a column is one text whose values are joined by U+001F, which is faster than
 * an array literal.
 */
import { assert } from "../../std/assert.ts";

const SEPARATOR = "\x1f";
const ESCAPED = "\x01";
const NULL = "\x02";

export function encodeText(text: string): string {
  const first = text.charCodeAt(0);
  if (first !== 1 && first !== 2 && !text.includes("\0") && !text.includes(SEPARATOR)) return text;
  const escaped = text.replaceAll(ESCAPED, `${ESCAPED}a`).replaceAll("\0", `${ESCAPED}b`);
  return ESCAPED + escaped.replaceAll(SEPARATOR, `${ESCAPED}c`);
}

export function decodeText(text: string): string {
  if (text.charCodeAt(0) !== 1) return text;
  const rest = text.slice(1).replaceAll(`${ESCAPED}c`, SEPARATOR);
  return rest.replaceAll(`${ESCAPED}b`, "\0").replaceAll(`${ESCAPED}a`, ESCAPED);
}

/** Encodes a name. Names never need escaping. */
export function plainText(text: string): string {
  assert(!text.includes(SEPARATOR) && !text.includes("\0"), "a name contains no control characters");
  return text;
}

/** Joins texts, encoded or plain, into a column; null if there are none. */
export function joinTexts(texts: readonly (string | null)[]): string | null {
  if (texts.length === 0) return null;
  return texts.includes(null) ? texts.map((text) => text ?? NULL).join(SEPARATOR) : texts.join(SEPARATOR);
}

/** Joins texts into a column, or returns a single text if all are the same. For SQL functions that accept both. */
export function joinOrOnce(texts: readonly (string | null)[]): string | null {
  const [first] = texts;
  if (first === undefined) return null;
  return texts.every((text) => text === first) ? (first ?? NULL) : joinTexts(texts);
}

export function splitTexts(column: string): string[] {
  return column.split(SEPARATOR);
}

/** Joins numbers into a column, or returns a single number if all are the same; null if there are none. */
export function joinNumbersOrOnce(numbers: readonly (number | null)[]): string | null {
  const [first] = numbers;
  return first !== undefined && numbers.every((number) => number === first)
    ? `{${first}}`
    : joinNumbers(numbers);
}

/** Joins numbers, which may be null, into a column; null if there are none, or if all are null. */
export function joinNumbers(numbers: readonly (number | null)[]): string | null {
  if (!numbers.includes(null)) return numbers.length === 0 ? null : `{${numbers.join()}}`;
  if (numbers.every((number) => number === null)) return null;
  return `{${numbers.map((number) => number ?? "NULL").join()}}`;
}
