/** Converts logged values to lines of plain text, without terminal escapes, secrets and overwritten text. */
import { inspect, stripVTControlCharacters } from "node:util";
import { isNativeError } from "node:util/types";
import type { Secrets } from "./secrets.ts";

/** The longest line in bytes of UTF-8, including the notice about a cut. */
export const LOG_LINE_BYTES = 8_192;
/** How many characters of one text are read. More than that would not fit into the logs of an attempt. */
const CHARS_MAX = 1_048_576;
const MEMBERS_MAX = 500;
const DEPTH_MAX = 4;
const NOTICE_BYTES = 48;

/** Control characters except tab, line feed and carriage return. Some of them act as a terminal escape even alone. */
const CONTROLS = /(?![\t\n\r])\p{Cc}/gu;

/** Writes the values of one call as text, like `console.log` but bounded. */
export function showParts(parts: readonly unknown[]): string {
  const [only] = parts;
  return parts.length === 1 && typeof only === "string" ? only : parts.map(showPart).join(" ");
}

/** The most characters of JSON in the fields of a line. Larger fields are not stored. */
const FIELDS_CHARS_MAX = 4_096;

/**
 * Returns the fields of a log line, and the values for its text. As with pino, the fields come from the first value: the members of
 * a plain object, which is then not in the text, or the field `err` for an error, which stays in the text.
 */
export function fieldsOf(parts: readonly unknown[]): {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly rest: readonly unknown[];
} {
  const [first, ...rest] = parts;
  if (isNativeError(first)) return { fields: { err: first }, rest: parts };
  if (typeof first !== "object" || first === null) return { fields: {}, rest: parts };
  const prototype: unknown = Object.getPrototypeOf(first);
  if (prototype !== Object.prototype && prototype !== null) return { fields: {}, rest: parts };
  return { fields: first as Readonly<Record<string, unknown>>, rest };
}

/**
 * Returns the fields as JSON text, with secrets redacted; undefined if they are too large or cannot be written as JSON. An
 * error is written as its name, message and stack.
 */
export function storedFields(
  fields: Readonly<Record<string, unknown>>,
  secrets: Secrets,
): string | undefined {
  try {
    const text = JSON.stringify(fields, (_, value: unknown) =>
      isNativeError(value)
        ? { type: value.name, message: value.message, stack: value.stack }
        : typeof value === "bigint"
          ? String(value)
          : value,
    );
    return text === undefined || text.length > FIELDS_CHARS_MAX || text === "{}"
      ? undefined
      : secrets.redactJson(text.toWellFormed());
  } catch {
    // The fields cannot be written as JSON: getters and `toJSON` are user code that may throw, and a value may refer to itself.
    // The text of the line still shows the value.
    return undefined;
  }
}

export function linesOf(text: string, secrets: Secrets): string[] {
  const looked = text.length > CHARS_MAX ? text.slice(0, CHARS_MAX) : text;
  const left = looked === text ? 0 : Buffer.byteLength(text) - Buffer.byteLength(looked);
  const lines = secrets.redact(plain(looked)).split("\n");
  // A line feed at the end of a text does not begin another line.
  if (lines.length > 1 && lines.at(-1) === "" && left === 0) lines.pop();
  return lines.map((line, i) => cut(overwritten(line), i === lines.length - 1 ? left : 0));
}

function plain(text: string): string {
  if (text.search(CONTROLS) < 0) return text.toWellFormed();
  return stripVTControlCharacters(text).replace(CONTROLS, "").toWellFormed();
}

/** Returns the text that a terminal would show for a line that overwrites itself with carriage returns. */
function overwritten(line: string): string {
  if (!line.includes("\r")) return line;
  const end = line.replace(/\r+$/, "");
  return end.slice(end.lastIndexOf("\r") + 1);
}

const encoder = new TextEncoder();
const head = new Uint8Array(LOG_LINE_BYTES - NOTICE_BYTES);

/** Cuts a line to the limit at a character boundary. `left` is the number of bytes that were cut off before. */
function cut(line: string, left: number): string {
  if (left === 0 && line.length * 3 <= LOG_LINE_BYTES) return line;
  const bytes = Buffer.byteLength(line) + left;
  if (bytes <= LOG_LINE_BYTES) return line;
  const { read, written } = encoder.encodeInto(line, head);
  return `${line.slice(0, read)}… [cut: ${bytes - written} bytes more]`;
}

function showPart(part: unknown): string {
  if (typeof part === "string") return part;
  try {
    return inspect(bounded(part), {
      depth: DEPTH_MAX,
      maxArrayLength: 100,
      maxStringLength: LOG_LINE_BYTES,
      breakLength: 120,
    });
  } catch {
    // Getters, proxies and custom inspectors are user code and may throw. A value that cannot be shown must not fail the attempt.
    return "[a value that cannot be shown]";
  }
}

/** Limits the number of an object's members: `inspect` limits depth and lists, but not the width of objects. */
function bounded(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
    return value;
  const keys = Object.keys(value);
  if (keys.length <= MEMBERS_MAX) return value;
  const copy: Record<string, unknown> = {};
  for (const key of keys.slice(0, MEMBERS_MAX))
    Object.defineProperty(copy, key, Object.getOwnPropertyDescriptor(value, key) ?? {});
  return Object.assign(copy, { "…": `${keys.length - MEMBERS_MAX} more` });
}
