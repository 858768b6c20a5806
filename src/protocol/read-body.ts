/**
 * Reads bodies of messages at a broker, to which anybody can write: JSON objects in UTF-8, whose fields are checked by a table.
 * A body that does not fit is a rejection with the reason.
 */
import { isUtf8 } from "node:buffer";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { decodeAttempt } from "./attempt-id.ts";

export type Fields = Readonly<Record<string, unknown>>;

const QUEUE_BYTES_MAX = 255;

const KINDS = {
  text: { what: "a text", fits: isText },
  flag: { what: "true or false", fits: (value: unknown) => typeof value === "boolean" },
  count: { what: "a number from 0", fits: isCount },
  list: { what: "a list", fits: Array.isArray },
  queue: { what: "the name of a queue", fits: isQueue },
  attempt: { what: "the id of an attempt", fits: isAttempt },
  attempts: {
    what: "a list of ids of attempts",
    fits: (value: unknown) => Array.isArray(value) && value.every(isAttempt),
  },
  resume: { what: "an object with `count` and `checksum`", fits: isResume },
  do: { what: "`next` or `returns`", fits: (value: unknown) => value === "next" || value === "returns" },
} as const;

type Kind = keyof typeof KINDS;

/** The kind of each field; `?` marks a field that may be absent. */
export type Shape = Readonly<Record<string, Kind | `${Kind}?`>>;

/** The fields of a message's body. */
export function readFields(body: Buffer): Fields | Rejection {
  if (!isUtf8(body)) return reject("invalid_json", "the message is not UTF-8");
  try {
    const value = JSON.parse(body.toString("utf8")) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return withoutKind(value);
    return invalid("the message is not a JSON object");
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    return reject("invalid_json", `the message is not JSON: ${thrown.message.slice(0, 200)}`);
  }
}

/** The fields of a message's body, which have this shape. */
export function readShape<T>(body: Buffer, shape: Shape): T | Rejection {
  const fields = readFields(body);
  return isRejection(fields) ? fields : (refuseShape(fields, shape) ?? (fields as T));
}

/** Why fields do not have a shape; null: they have. */
export function refuseShape(fields: Fields, shape: Shape): Rejection | null {
  for (const [name, kind] of Object.entries(shape)) {
    const value = fields[name];
    const isOptional = kind.endsWith("?");
    if (value === undefined && isOptional) continue;
    const { what, fits } = KINDS[(isOptional ? kind.slice(0, -1) : kind) as Kind];
    if (value === undefined) return invalid(`it lacks \`${name}\``);
    if (!fits(value)) return invalid(`\`${name}\` is not ${what}`);
  }
  return null;
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function invalid(message: string): Rejection {
  return reject("invalid_input", message);
}

/**
 * Leaves out the field `kind`. No message of the protocol has one, and callers tell fields from rejections by it: a sender's
 * own `"kind": "rejection"` must not turn its message into one.
 */
function withoutKind(value: object): Fields {
  const { kind: _, ...fields } = value as Record<string, unknown>;
  return fields;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isAttempt(value: unknown): boolean {
  return isText(value) && decodeAttempt(value) !== null;
}

function isQueue(value: unknown): boolean {
  return isText(value) && value !== "" && Buffer.byteLength(value) <= QUEUE_BYTES_MAX;
}

function isResume(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { count, checksum } = value as { count?: unknown; checksum?: unknown };
  return isCount(count) && Number.isSafeInteger(checksum);
}
