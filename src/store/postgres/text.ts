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
export function joinOrOnce(texts: Column<string>): string | null {
  const { only } = texts;
  return only === undefined ? joinTexts(texts.values) : (only ?? NULL);
}

export function splitTexts(column: string): string[] {
  return column.split(SEPARATOR);
}

/** Joins numbers into a column, or returns a single number if all are the same; null if there are none. */
export function joinNumbersOrOnce(numbers: Column<number>): string | null {
  const only = numbers.only ?? null;
  return only === null ? joinNumbers(numbers.values) : `{${only}}`;
}

/** Joins numbers, which may be null, into a column; null if there are none, or if all are null. */
export function joinNumbers(numbers: readonly (number | null)[]): string | null {
  if (!numbers.includes(null)) return numbers.length === 0 ? null : `{${numbers.join()}}`;
  if (numbers.every((number) => number === null)) return null;
  return `{${numbers.map((number) => number ?? "NULL").join()}}`;
}

/** The values of one column of a call. While all rows have the same value, only that value and the number of rows are stored. */
export class Column<T> {
  #first: T | null = null;
  #values: (T | null)[] | null = null;
  length = 0;

  /** The value of all rows; undefined if there are no rows, or if their values differ. */
  get only(): T | null | undefined {
    return this.length === 0 || this.#values !== null ? undefined : this.#first;
  }

  get values(): (T | null)[] {
    return this.#values ?? new Array<T | null>(this.length).fill(this.#first);
  }

  /** Adds the value of another row; returns the number of rows. */
  push(value: T | null): number {
    if (this.length === 0) this.#first = value;
    if (this.#values !== null) this.#values.push(value);
    else if (value !== this.#first) {
      this.#values = this.values;
      this.#values.push(value);
    }
    return ++this.length;
  }

  /** Replaces the value of a row. */
  set(row: number, value: T | null): void {
    this.#values ??= this.values;
    this.#values[row] = value;
  }
}
