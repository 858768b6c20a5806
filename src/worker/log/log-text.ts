/**
 * What user code logs, as lines of plain text: values shown, escapes of terminals taken out, progress that overwrites
 * itself reduced to its last word, secrets redacted, long lines cut with a notice.
 */
import { inspect, stripVTControlCharacters } from "node:util";
import type { Secrets } from "./secrets.ts";

/** Of UTF-8, the notice about a cut included. */
export const LOG_LINE_BYTES = 8_192;
/** What is looked at of one text: more does not fit in the logs of an attempt. */
const CHARS_MAX = 1_048_576;
const MEMBERS_MAX = 500;
const DEPTH_MAX = 4;
const NOTICE_BYTES = 48;

/** Control characters but tab, line feed and carriage return; also those that act alone as the escape of a terminal. */
const CONTROLS = /(?![\t\n\r])\p{Cc}/gu;

/** The values of one call as text: like `console.log`, but bounded. */
export function showParts(parts: readonly unknown[]): string {
  const [only] = parts;
  return parts.length === 1 && typeof only === "string" ? only : parts.map(showPart).join(" ");
}

/** The lines of a text, as they are stored. */
export function linesOf(text: string, secrets: Secrets): string[] {
  const looked = text.length > CHARS_MAX ? text.slice(0, CHARS_MAX) : text;
  const left = looked === text ? 0 : Buffer.byteLength(text) - Buffer.byteLength(looked);
  const lines = secrets.redact(plain(looked)).split("\n");
  // A line feed ends a line; it does not begin one.
  if (lines.length > 1 && lines.at(-1) === "" && left === 0) lines.pop();
  return lines.map((line, i) => cut(lastWord(line), i === lines.length - 1 ? left : 0));
}

function plain(text: string): string {
  if (text.search(CONTROLS) < 0) return text.toWellFormed();
  return stripVTControlCharacters(text).replace(CONTROLS, "").toWellFormed();
}

/** What a terminal would show in the end of a line that overwrites itself. */
function lastWord(line: string): string {
  if (!line.includes("\r")) return line;
  const end = line.replace(/\r+$/, "");
  return end.slice(end.lastIndexOf("\r") + 1);
}

const encoder = new TextEncoder();
const head = new Uint8Array(LOG_LINE_BYTES - NOTICE_BYTES);

/** The line within its limit, on the boundary of a character; `left` bytes of it are not here. */
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
    // Getters, proxies and custom inspectors are user code: a line that cannot be shown is no reason to fail.
    return "[a value that cannot be shown]";
  }
}

/** The value with as many members as may be shown: `inspect` bounds depth and lists, not the width of objects. */
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
