/**
 * JSON values as they are stored. Every value of a user becomes stored text through `toStoredText`. A value that cannot be
 * stored without loss is refused with its path, before anything else happens.
 */
import { type Rejection, reject } from "./rejection.ts";

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** The deepest nesting that is stored. */
export const JSON_DEPTH_MAX = 100;

/** Writes a value as the JSON text that is stored, or returns a rejection with the path of the part that cannot be stored. */
export function toStoredText(value: unknown, limits: { bytesMax: number; what: string }): string | Rejection {
  let text: string;
  try {
    const stored = isFlatAndPlain(value) ? value : walk(value, limits.what, 0, new Set());
    if (stored instanceof Refused) return stored.rejection;
    text = stored === undefined ? "null" : JSON.stringify(stored);
  } catch (thrown) {
    // A getter or a toJSON of the value threw.
    const why = thrown instanceof Error ? thrown.message : "something";
    return reject("not_storable", `${limits.what} cannot be read: it threw ${why}`, { path: limits.what });
  }
  if (text.length * 3 > limits.bytesMax && byteLength(text) > limits.bytesMax) {
    return reject(
      "too_large",
      `${limits.what} is ${byteLength(text)} bytes; at most ${limits.bytesMax} are stored`,
      {
        path: limits.what,
        hint: "store the data elsewhere and pass a reference to it",
      },
    );
  }
  return text;
}

const encoder = new TextEncoder();

/** Up to this length, a loop over the characters is faster than the encoder. */
const SHORT_CHARS = 100;

/** The number of bytes of a text in UTF-8. */
export function byteLength(text: string): number {
  if (text.length > SHORT_CHARS) return encoder.encode(text).length;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return encoder.encode(text).length;
  return text.length;
}

class Refused {
  readonly rejection: Rejection;
  constructor(rejection: Rejection) {
    this.rejection = rejection;
  }
}

/** Whether a value is a primitive, or an object with only primitive members. This common case is checked without allocation. */
function isFlatAndPlain(value: unknown): boolean {
  switch (typeof value) {
    case "string":
      return value.isWellFormed();
    case "number":
      return Number.isFinite(value);
    case "boolean":
      return true;
    case "object": {
      if (value === null) return true;
      if (Object.getPrototypeOf(value) !== Object.prototype) return false;
      for (const key in value) {
        const member = (value as Record<string, unknown>)[key];
        switch (typeof member) {
          case "string":
            if (!member.isWellFormed()) return false;
            break;
          case "number":
            if (!Number.isFinite(member)) return false;
            break;
          case "boolean":
            break;
          default:
            if (member !== null) return false;
        }
        if (!key.isWellFormed()) return false;
      }
      return true;
    }
    default:
      return false;
  }
}

function refuse(path: string, what: string, hint = "return plain JSON data"): Refused {
  return new Refused(reject("not_storable", `${path} is ${what}, which cannot be stored`, { path, hint }));
}

function walk(value: unknown, path: string, depth: number, above: Set<object>): unknown {
  if (depth > JSON_DEPTH_MAX) {
    return new Refused(
      reject("too_deep", `${path.slice(0, 200)} is nested deeper than ${JSON_DEPTH_MAX} levels`, {
        path: path.slice(0, 200),
        hint: "flatten the data",
      }),
    );
  }
  switch (typeof value) {
    case "string":
      return value.isWellFormed()
        ? value
        : refuse(path, "a string with a lone surrogate", "send bytes as base64");
    case "number":
      return Number.isFinite(value) ? value : refuse(path, String(value), "use null or a string");
    case "boolean":
      return value;
    case "undefined":
      return undefined;
    case "bigint":
      return refuse(path, "a BigInt", "convert it with String(value)");
    case "object":
      return value === null ? null : walkObject(value, path, depth, above);
    default:
      return refuse(path, `a ${typeof value}`);
  }
}

function walkObject(value: object, path: string, depth: number, above: Set<object>): unknown {
  if (above.has(value)) return refuse(path, "a cycle");
  const toJson = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJson === "function" && !(value instanceof Uint8Array)) {
    above.add(value);
    const replaced = walk(toJson.call(value, ""), path, depth + 1, above);
    above.delete(value);
    return replaced;
  }
  above.add(value);
  const walked = Array.isArray(value)
    ? walkArray(value, path, depth, above)
    : walkPlain(value, path, depth, above);
  above.delete(value);
  return walked;
}

function walkArray(value: unknown[], path: string, depth: number, above: Set<object>): unknown {
  const copy: unknown[] = new Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const at = `${path}[${i}]`;
    const member = walk(value[i], at, depth + 1, above);
    if (member instanceof Refused) return member;
    if (member === undefined) return refuse(at, "undefined in an array", "use null");
    copy[i] = member;
  }
  return copy;
}

/** Returns the kind of an object: the name of its class, or for a generator its tag, because a generator has no class. */
function kindOf(value: object): string {
  const { constructor, [Symbol.toStringTag]: tag } = value as {
    constructor?: unknown;
    [Symbol.toStringTag]?: unknown;
  };
  const name = typeof constructor === "function" && constructor.name !== "" ? constructor.name : tag;
  if (typeof name !== "string" || name === "") return "an object of a class";
  return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

function walkPlain(value: object, path: string, depth: number, above: Set<object>): unknown {
  const proto: unknown = Object.getPrototypeOf(value);
  if (proto !== Object.prototype && proto !== null) {
    return refuse(path, kindOf(value), "convert it to a plain object or array");
  }
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (!key.isWellFormed()) return refuse(path, "an object whose key has a lone surrogate");
    const member = walk((value as Record<string, unknown>)[key], `${path}.${key}`, depth + 1, above);
    if (member instanceof Refused) return member;
    if (member === undefined) continue;
    if (key === "__proto__") Object.defineProperty(copy, key, { value: member, enumerable: true });
    else copy[key] = member;
  }
  return copy;
}
