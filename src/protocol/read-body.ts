/** Bodies of messages at a broker, to which anybody can write: JSON objects in UTF-8, or a rejection with the reason. */
import { isUtf8 } from "node:buffer";
import { type Rejection, reject } from "../std/rejection.ts";

/** The fields of a message's body. */
export function readFields(body: Buffer): Readonly<Record<string, unknown>> | Rejection {
  if (!isUtf8(body)) return reject("invalid_json", "the message is not UTF-8");
  try {
    const value = JSON.parse(body.toString("utf8")) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return withoutKind(value);
    return reject("invalid_input", "the message is not a JSON object");
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    return reject("invalid_json", `the message is not JSON: ${thrown.message.slice(0, 200)}`);
  }
}

/**
 * Leaves out the field `kind`. No message of the protocol has one, and callers tell fields and rejections apart by it: a sender's
 * own `"kind": "rejection"` must not make its message one.
 */
function withoutKind(value: object): Readonly<Record<string, unknown>> {
  const { kind: _, ...fields } = value as Record<string, unknown>;
  return fields;
}
