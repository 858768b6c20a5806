/**
 * Names that are chosen at run time: ids of executions, and names of steps, signals, tags and keys. The same rule applies to all of
 * them. (Names in code, of workflows, phases and handlers, follow `NAME_PATTERN`.) `encodeName` encodes such a name as a part of a
 * longer id or key.
 */
import { anything, checked, type Decode, text } from "../../std/decode.ts";
import { byteLength } from "../../std/json.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { NAME_PATTERN } from "./definition.ts";

/** The longest name, in bytes of UTF-8. */
export const NAME_BYTES_MAX = 200;

/** The rule for names in words, for the hints of error messages. */
export const NAME_RULE = `1 to ${NAME_BYTES_MAX} bytes of UTF-8, without control or format characters`;

/** Characters that names must not contain: control characters, format characters, lone surrogates. */
const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Cs}]/u;

/** The character that every id made by the engine contains. Users' ids must not contain it, so the two never collide. */
export const ENGINE_MARK = "~";

/** A pattern of ids that every version of Rondo accepts. */
const PLAIN = /^[A-Za-z0-9][A-Za-z0-9_:~-]{0,199}$/;

/** The version of events from which on nodes accept every id that the rule for names allows. */
export const ANY_ID_SINCE = 4;

/** Returns why a value is not a valid name; null if it is valid. */
export function whyNoName(value: unknown): string | null {
  // Most names are plain, and this pattern costs much less than the one of forbidden characters.
  if (typeof value === "string" && PLAIN.test(value)) return null;
  if (value === undefined) return "is missing";
  if (typeof value !== "string")
    return `is not a text (its type is ${value === null ? "null" : typeof value})`;
  if (value === "") return "is empty";
  if (value.length > NAME_BYTES_MAX || byteLength(value) > NAME_BYTES_MAX)
    return `has ${byteLength(value)} bytes; at most ${NAME_BYTES_MAX} are allowed`;
  const found = FORBIDDEN.exec(value);
  return found === null ? null : `holds ${nameOfCharacter(found[0])}`;
}

/** Returns why a value is not a valid execution id, of a user or of the engine; null if it is valid. */
export function whyNoExecutionId(value: unknown): string | null {
  const why = whyNoName(value);
  if (why !== null) return why;
  return value === "." || value === ".." ? "has a special meaning in a URL" : null;
}

/** Returns the rejection of an invalid name; null if the name is valid. `path` is its place in the input, and `what` its kind. */
export function refuseName(value: unknown, path: string, what: string): Rejection | null {
  const why = whyNoName(value);
  return why === null ? null : refusal(value, path, `is not ${what}: it ${why}`);
}

/** Returns the rejection of an invalid execution id that a user chose; null if the id is valid. */
export function refuseExecutionId(value: unknown, path = "id"): Rejection | null {
  const why =
    whyNoExecutionId(value) ??
    ((value as string).includes(ENGINE_MARK) ? "contains a ~, which only the engine's own ids have" : null);
  return why === null ? null : refusal(value, path, `is not an execution id: it ${why}`);
}

/** Decodes a name that is composed at run time. */
export function composedName(what: string): Decode<string> {
  return checked(anything as Decode<string>, (value) => refuseName(value, "", what));
}

/** Decodes the id that a user gives to an execution. */
export const executionId: Decode<string> = checked(anything as Decode<string>, (value) =>
  refuseExecutionId(value, ""),
);

/** Decodes a name that a user writes in code or configuration; the rule is stricter than for names composed at run time. */
export function writtenName(what: string): Decode<string> {
  return text({ pattern: NAME_PATTERN, what, hint: "a letter, then up to 39 letters, digits, _ or -" });
}

/** The version of events that a node must know to accept an execution with this id. */
export function versionOfId(id: string): number {
  return PLAIN.test(id) ? 1 : ANY_ID_SINCE;
}

/** Whether the id is accepted by every version of Rondo, and as a part of a queue's name. */
export function isPlainId(id: string): boolean {
  return PLAIN.test(id);
}

/** Encodes a name: letters, digits, `_ : ~ -` stay, every other byte becomes `%` and two hex digits. */
export function encodeName(name: string): string {
  if (PLAIN.test(name)) return name;
  return encodeURIComponent(name).replace(/%3A|[.!'()*]/g, (found) =>
    found === "%3A" ? ":" : `%${found.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Decodes a name that `encodeName` wrote; null if the text is not an encoded name. */
export function decodeName(text: string): string | null {
  if (PLAIN.test(text)) return text;
  try {
    const name = decodeURIComponent(text);
    return whyNoName(name) === null && encodeName(name) === text ? name : null;
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

/** Returns the longest prefix of a text that has at most `bytesMax` bytes. */
export function cutToBytes(text: string, bytesMax: number): string {
  if (text.length * 3 <= bytesMax || (text.length <= bytesMax && byteLength(text) <= bytesMax)) return text;
  let bytes = 0;
  let kept = "";
  for (const character of text) {
    bytes += byteLength(character);
    if (bytes > bytesMax) return kept;
    kept += character;
  }
  return kept;
}

function refusal(value: unknown, path: string, why: string): Rejection {
  const shown = typeof value === "string" ? `${JSON.stringify(cutToBytes(value, 60))} ` : "";
  return reject("invalid_input", `${path}: ${shown}${why}`, { path, hint: NAME_RULE });
}

function nameOfCharacter(character: string): string {
  const code = character.codePointAt(0) as number;
  const shown = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  if (code >= 0xd800 && code <= 0xdfff) return `an unpaired surrogate (${shown})`;
  return `the ${/\p{Cc}/u.test(character) ? "control" : "format"} character ${shown}`;
}

/** Matches the number at the end of a numbered execution's id. Other ids of the engine end with times and hashes, which are longer. */
const NUMBER = /~([1-9]\d{0,8})$/;

/** Returns the stored id that an id from a user means, and whether the user means only that execution and not its successors. */
export function addressOf(id: string): { readonly stored: string; readonly isExact: boolean } {
  const number = NUMBER.exec(id)?.[1];
  return { stored: number === "1" ? id.slice(0, -2) : id, isExact: number !== undefined };
}

/** Returns an id that means only the execution with this stored id, and never a later one. */
export function exactly(stored: string): string {
  return NUMBER.test(stored) ? stored : `${stored}~1`;
}

/** Whether a stored id belongs to a child execution, or to a successor of a child execution. */
export function isChildId(stored: string): boolean {
  return stored.replace(NUMBER, "").includes(ENGINE_MARK);
}

/** Returns the number of an execution among those that continue one another under an id. */
export function numberOf(stored: string): number {
  return Number(NUMBER.exec(stored)?.[1] ?? 1);
}
