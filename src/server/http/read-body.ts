/** Reads the body of a request up to a size limit. A larger body is refused and discarded. */
import type { IncomingMessage } from "node:http";
import { JSON_DEPTH_MAX } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";

export interface BodyLimits {
  readonly bytesMax: number;
  readonly keysMax: number;
}

/** The nesting levels that a request adds around the user's value. The value has its own limit of depth. */
const ENVELOPE_DEPTH = 10;
/** How much of a refused body is read and discarded, so that the client can read the refusal. */
const DROPPED_BYTES_MAX = 33_554_432;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** A JSON value from outside. It is wrapped because the value itself may look like a rejection. */
export interface Parsed {
  readonly kind: "parsed";
  readonly value: unknown;
}

/** Reads the JSON value of a request's body; `undefined` if the request has no body. */
export async function readJsonBody(
  incoming: IncomingMessage,
  limits: BodyLimits,
): Promise<Parsed | Rejection> {
  const encoding = incoming.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    return reject("invalid_json", `a body with Content-Encoding: ${encoding.slice(0, 40)} is not read`, {
      hint: "send the body without an encoding",
    });
  const bytes = await readBytes(incoming, limits.bytesMax);
  if (isRejection(bytes)) return bytes;
  if (bytes.length === 0) return { kind: "parsed", value: undefined };
  const type = incoming.headers["content-type"];
  if (type === undefined || !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type))
    return reject("invalid_json", `the body is of type ${type?.slice(0, 60) ?? "(none)"}, not JSON`);
  const wrong = scanJson(bytes, {
    depthMax: JSON_DEPTH_MAX + ENVELOPE_DEPTH,
    keysMax: limits.keysMax,
  });
  return wrong ?? parse(bytes);
}

function parse(bytes: Uint8Array): Parsed | Rejection {
  try {
    return { kind: "parsed", value: JSON.parse(decoder.decode(bytes)) as unknown };
  } catch (thrown) {
    const why = thrown instanceof SyntaxError ? thrown.message : "the body is not UTF-8";
    return reject("invalid_json", `the body is not JSON: ${why.slice(0, 200)}`);
  }
}

/** Reads the bytes of a body. */
export function readBytes(incoming: IncomingMessage, max: number): Promise<Uint8Array | Rejection> {
  const tooLarge = () =>
    reject("too_large", `the body is larger than ${max} bytes`, {
      hint: "send the data in several requests",
    });
  const announced = Number(incoming.headers["content-length"] ?? 0);
  if (announced > max) return Promise.resolve(tooLarge());
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const end = (result: Uint8Array | Rejection): void => {
      incoming.off("data", take).off("end", whole).off("error", broken).off("close", broken);
      resolve(result);
    };
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > max) end(tooLarge());
      else chunks.push(chunk);
    };
    const whole = (): void => end(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    const broken = (): void =>
      end(reject("invalid_json", "the connection broke before the body was complete"));
    incoming.on("data", take).once("end", whole).once("error", broken).once("close", broken);
  });
}

/** Discards the rest of a body. A client that keeps sending is cut off. */
export function dropBody(incoming: IncomingMessage): void {
  if (incoming.complete || incoming.destroyed) return;
  let dropped = 0;
  incoming.on("error", () => {});
  incoming.on("data", (chunk: Buffer) => {
    dropped += chunk.length;
    if (dropped > DROPPED_BYTES_MAX) incoming.destroy();
  });
}

export interface ScanLimits {
  readonly depthMax: number;
  readonly keysMax: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** Counts the nesting levels and the keys of a JSON text before it is parsed; null if both are within the limits. */
export function scanJson(bytes: Uint8Array, limits: ScanLimits): Rejection | null {
  let depth = 0;
  let keys = 0;
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i++;
        break;
      case 0x7b:
      case 0x5b:
        if (++depth > limits.depthMax)
          return reject("too_deep", `the body is nested deeper than ${limits.depthMax} levels`);
        break;
      case 0x7d:
      case 0x5d:
        depth--;
        break;
      case COLON:
        if (++keys > limits.keysMax)
          return reject("too_large", `the body has more than ${limits.keysMax} keys`, {
            hint: "send the data in several requests",
          });
        break;
      default:
    }
  }
  return null;
}
