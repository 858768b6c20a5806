/** Reads bodies of messages at a broker as JSON objects. A rejection gives a reason that shows no values. */
import { isUtf8 } from "node:buffer";
import { type Decode, decode, type Fields, fieldsOf, secret } from "../std/decode.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { decodeAttempt } from "./attempt-id.ts";

const QUEUE_BYTES_MAX = 255;

/** Decoders of the fields of messages. */
export const string = secret<string>("a text", (value) => typeof value === "string");
export const bool = secret<boolean>("true or false", (value) => typeof value === "boolean");
export const count = secret<number>("a whole number from 0", isCount);
export const list = secret<readonly unknown[]>("a list", Array.isArray);
export const attemptId = secret<string>("the id of an attempt", isAttempt);
export const attemptIds = secret<readonly string[]>(
  "a list of ids of attempts",
  (value) => Array.isArray(value) && value.every(isAttempt),
);
export const queueName = secret<string>(
  "the name of a queue",
  (value) => typeof value === "string" && value !== "" && Buffer.byteLength(value) <= QUEUE_BYTES_MAX,
);

/** Reads the fields of a message's body. */
export function readFields(body: Buffer): Fields | Rejection {
  if (!isUtf8(body)) return reject("invalid_json", "the message is not UTF-8");
  try {
    const fields = fieldsOf(JSON.parse(body.toString("utf8")));
    return fields === null ? invalid("the message is not a JSON object") : withoutKind(fields);
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    return reject("invalid_json", `the message is not JSON: ${thrown.message.slice(0, 200)}`);
  }
}

/** Decodes a message's body. */
export function readBody<T>(body: Buffer, read: Decode<T>): T | Rejection {
  const fields = readFields(body);
  return isRejection(fields) ? fields : decode(read, fields);
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function invalid(message: string): Rejection {
  return reject("invalid_input", message);
}

/**
 * Drops the field `kind`. No message of the protocol has one, and callers use it to distinguish fields from rejections: a
 * message with `"kind": "rejection"` must not become a rejection.
 */
function withoutKind({ kind: _, ...fields }: Fields): Fields {
  return fields;
}

function isAttempt(value: unknown): boolean {
  return typeof value === "string" && decodeAttempt(value) !== null;
}
