/**
 * Decoders for outside input: messages, requests, settings, stored documents. A decoder returns the value with its type, or throws
 * `Undecodable`. Decoders compose; `decode` runs one and gives a rejection instead of the exception. A value that fits is
 * returned as it is, without a copy. Paths are built only for errors.
 */
import { isRejection, type Rejection, type RejectionCode, reject } from "./rejection.ts";

/** The most characters of a name that a path shows. */
const PART_MAX = 60;

export type Decode<T> = (value: unknown) => T;
export type Decoded<D> = D extends Decode<infer T> ? T : never;
export type Fields = Readonly<Record<string, unknown>>;

interface UndecodableOptions {
  readonly path?: string;
  readonly hint?: string | undefined;
  readonly code?: RejectionCode | undefined;
}

/** Thrown if a value does not have the wanted form. `path` leads from the decoded whole to the wrong part. */
export class Undecodable extends Error {
  path: string;
  readonly hint: string | undefined;
  readonly code: RejectionCode | undefined;
  constructor(why: string, { path = "", hint, code }: UndecodableOptions = {}) {
    super(why);
    this.path = path;
    this.hint = hint;
    this.code = code;
  }

  /** The error in one sentence, with the path. */
  at(path = this.path): string {
    return path === "" ? this.message : `${path}: ${this.message}`;
  }
}

interface DecodeOptions {
  /** The path of the decoded value within a larger value; by default it is the whole. */
  readonly path?: string;
  /** The path of an error that concerns the whole value. */
  readonly whole?: string;
  /** The code of the rejection, if the decoder itself sets none. */
  readonly code?: RejectionCode;
}

/** Decodes a value, or returns a rejection with the path of the wrong part. */
export function decode<T>(
  read: Decode<T>,
  value: unknown,
  { path: base = "", whole = "", code = "invalid_input" }: DecodeOptions = {},
): T | Rejection {
  try {
    return read(value);
  } catch (thrown) {
    if (!(thrown instanceof Undecodable)) throw thrown;
    const { hint } = thrown;
    const path = join(base, thrown.path) || whole;
    const more = { ...(path === "" ? {} : { path }), ...(hint === undefined ? {} : { hint }) };
    return reject(thrown.code ?? code, thrown.at(path), more);
  }
}

/** Returns why a decoder refuses a value; null if it accepts the value. */
export function refusal(read: Decode<unknown>, value: unknown, options?: DecodeOptions): Rejection | null {
  const decoded = decode(read, value, options);
  return isRejection(decoded) && decoded !== value ? decoded : null;
}

/** Decodes a value; returns null if the decoder refuses it. */
export function decodeOrNull<T>(read: Decode<T>, value: unknown): T | null {
  try {
    return read(value);
  } catch (thrown) {
    if (thrown instanceof Undecodable) return null;
    throw thrown;
  }
}

/** Makes a decoder from a test of the value. `what` completes the error "... is not <what>". */
export function where<T>(what: string, test: (value: unknown) => boolean, hint?: string): Decode<T> {
  return (value) => {
    if (test(value)) return value as T;
    throw new Undecodable(`${show(value)} is not ${what}`, { hint });
  };
}

/** Makes a decoder like `where`, whose errors never show the value, because it may be secret. */
export function secret<T>(what: string, test: (value: unknown) => boolean, hint?: string): Decode<T> {
  return (value) => {
    if (test(value)) return value as T;
    throw new Undecodable(`this is not ${what}`, { hint });
  };
}

interface TextOptions {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
  /** The description of the expected text in errors; by default its allowed length. */
  readonly what?: string;
  readonly hint?: string;
}

/** Makes a decoder of well-formed strings. */
export function text({
  min = 0,
  max = Number.POSITIVE_INFINITY,
  pattern,
  what,
  hint,
}: TextOptions = {}): Decode<string> {
  const length =
    max === Number.POSITIVE_INFINITY
      ? min > 0
        ? "a text that is not empty"
        : "a text"
      : `a text of ${min} to ${max} characters`;
  return where(
    what ?? length,
    (value) =>
      typeof value === "string" &&
      value.length >= min &&
      value.length <= max &&
      value.isWellFormed() &&
      (pattern === undefined || pattern.test(value)),
    hint,
  );
}

/** Makes a decoder of whole numbers within bounds. */
export function integer(min = 0, max = Number.MAX_SAFE_INTEGER, what?: string): Decode<number> {
  const range =
    max === Number.MAX_SAFE_INTEGER ? `a whole number from ${min}` : `a whole number from ${min} to ${max}`;
  return (value) => {
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max)
      return value as number;
    const isQuoted = typeof value === "string" && /^\d+$/.test(value);
    const hint = isQuoted ? "write it without quotes" : undefined;
    throw new Undecodable(`${show(value)} is not ${what ?? range}`, { hint });
  };
}

/** Decodes any string, even one with half of a surrogate pair. */
export const string: Decode<string> = where("a text", (value) => typeof value === "string");
export const number: Decode<number> = where("a number", (value) => Number.isFinite(value));
export const flag: Decode<boolean> = where("true or false", (value) => typeof value === "boolean");
export const anything: Decode<unknown> = (value) => value;

export function oneOf<const T extends string | number | boolean | null>(values: readonly T[]): Decode<T> {
  const what = values.length === 1 ? show(values[0]) : `one of ${values.map(show).join(", ")}`;
  return where(what, (value) => (values as readonly unknown[]).includes(value));
}

/** Makes a decoder of lists. Each item is decoded. */
export function listOf<T>(
  item: Decode<T>,
  { min = 0, max = Number.POSITIVE_INFINITY } = {},
): Decode<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw new Undecodable(`${show(value)} is not a list`);
    checkSize(value.length, min, max);
    const given: readonly unknown[] = value;
    let found = given;
    for (let i = 0; i < given.length; i++) {
      const decoded = at(i, item, given[i]);
      if (decoded === given[i]) continue;
      if (found === given) found = [...given];
      (found as unknown[])[i] = decoded;
    }
    return found as readonly T[];
  };
}

interface MapOptions {
  readonly key?: Decode<unknown>;
  readonly min?: number;
  readonly max?: number;
}

/** Makes a decoder of objects with any keys, whose values are all decoded. `key` checks the keys. */
export function mapOf<T>(
  item: Decode<T>,
  { key = anything, min = 0, max = Number.POSITIVE_INFINITY }: MapOptions = {},
): Decode<Readonly<Record<string, T>>> {
  return (value) => {
    const given = plainObject(value);
    const names = Object.keys(given);
    checkSize(names.length, min, max);
    let isSame = true;
    const found = names.map((name) => {
      try {
        key(name);
        const decoded = item(given[name]);
        isSame &&= decoded === given[name];
        return decoded;
      } catch (thrown) {
        throw within(name, thrown);
      }
    });
    if (isSame) return given as Readonly<Record<string, T>>;
    return Object.fromEntries(names.map((name, i) => [name, found[i] as T]));
  };
}

/** Marks a field of an object that may be missing. */
export function optional<T>(read: Decode<T>): Decode<T | undefined> {
  return (value) => (value === undefined ? undefined : read(value));
}

/** Makes a decoder that also accepts null. */
export function orNull<T>(read: Decode<T>): Decode<T | null> {
  return (value) => (value === null ? null : read(value));
}

/** Makes a decoder that returns `otherwise` if the value is undefined. */
export function orElse<T, const E>(read: Decode<T>, otherwise: E): Decode<T | E> {
  return (value) => (value === undefined ? otherwise : read(value));
}

/** Makes a decoder that converts the decoded value with a function. */
export function mapped<T, U>(read: Decode<T>, to: (value: T) => U): Decode<U> {
  return (value) => to(read(value));
}

/** Makes a decoder that also checks the decoded value. The check returns a rejection, or null. */
export function checked<T>(read: Decode<T>, refuse: (value: T) => Rejection | null): Decode<T> {
  return (value) => {
    const decoded = read(value);
    const refusal = refuse(decoded);
    if (refusal === null) return decoded;
    throw undecodable(refusal);
  };
}

/**
 * Makes a decoder that parses the decoded value with a function, which may reject it. Paths of its rejections begin at the
 * value.
 */
export function parsed<T, U>(read: Decode<T>, parse: (value: T) => U | Rejection): Decode<U> {
  return (value) => {
    const found = parse(read(value));
    if (isRejection(found)) throw undecodable(found);
    return found;
  };
}

function undecodable({ code, message, path = "", hint }: Rejection): Undecodable {
  const rest = message.startsWith(path) ? message.slice(path.length) : message;
  const why = rest.startsWith(": ") ? rest.slice(2) : rest.startsWith(" ") ? `it${rest}` : rest;
  return new Undecodable(why, { path: path.replace(/^\./, ""), code, hint });
}

export type ObjectOf<F> = {
  readonly [K in keyof F as undefined extends Decoded<F[K]> ? never : K]: Decoded<F[K]>;
} & {
  readonly [K in keyof F as undefined extends Decoded<F[K]> ? K : never]?: Exclude<Decoded<F[K]>, undefined>;
};

/** How unknown fields of an object are treated. */
type Others = "refused" | "dropped" | "kept";

/** The option for objects to which a later version may add fields: unknown fields are kept. */
export const KEPT = { others: "kept" } as const;

interface ObjectOptions {
  readonly others?: Others;
  readonly ignores?: readonly string[];
  readonly what?: string;
}

/**
 * Makes a decoder of objects with these fields. Unknown fields are refused by default, since most of them are misspelt. `what`
 * names the object in that refusal. Fields that `ignores` names are accepted and dropped.
 */
export function object<const F extends Readonly<Record<string, Decode<unknown>>>>(
  fields: F,
  { others = "refused", ignores = [], what }: ObjectOptions = {},
): Decode<ObjectOf<F>> {
  const names = Object.keys(fields);
  const readers = Object.values(fields);
  return (value) => {
    const given = plainObject(value);
    if (others === "refused")
      for (const name in given)
        if (!Object.hasOwn(fields, name) && !ignores.includes(name)) throw unknownField(name, names, what);
    let found: Fields = others === "dropped" || ignores.length > 0 ? {} : given;
    let i = 0;
    try {
      for (; i < names.length; i++) {
        const name = names[i] as string;
        const decoded = (readers[i] as Decode<unknown>)(given[name]);
        if (decoded === found[name]) continue;
        if (found === given) found = { ...given };
        (found as Record<string, unknown>)[name] = decoded;
      }
    } catch (thrown) {
      throw within(names[i] as string, thrown);
    }
    return found as ObjectOf<F>;
  };
}

/** Makes the rejection of a value at a path, for checks that are written by hand. */
export function invalid(path: string, why: string): Rejection {
  return reject("invalid_input", `${path}: ${why}`, { path });
}

/** Whether a value is an object and not an array. */
export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value as an object with fields; null if it is an array or no object. */
export function fieldsOf(value: unknown): Fields | null {
  return isObject(value) ? value : null;
}

/** Parses a JSON text, which another program may have written, as an object; null if the text is not JSON or no object. */
export function jsonFields(text: string): Fields | null {
  try {
    return fieldsOf(JSON.parse(text));
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}

/** Shows a value in the text of an error, cut to a bounded length. */
export function show(value: unknown): string {
  const kind = typeof value === "object" ? "an object" : `a ${typeof value}`;
  const shown = value === undefined ? "nothing" : (jsonOf(value) ?? kind);
  return shown.length <= 60 ? shown : `${shown.slice(0, 59)}…`;
}

function jsonOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    // The value is a BigInt, contains itself, is nested too deeply, or has a `toJSON` that throws. Its type is shown instead.
    return undefined;
  }
}

/** Whether two names are equal except for case, or for one character that is missing, added, wrong or swapped. */
export function isNear(a: string, b: string): boolean {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()];
  let head = 0;
  while (head < x.length && x[head] === y[head]) head++;
  const [p, q] = [x.slice(head), y.slice(head)];
  if (p === q) return true;
  const isSwapped = p.slice(2) === q.slice(2) && p[0] === q[1] && p[1] === q[0];
  return isSwapped || p.slice(1) === q || p === q.slice(1) || p.slice(1) === q.slice(1);
}

/** Decodes a part of a value. The name of the part is added to the path of an error. */
export function at<T>(part: string | number, read: Decode<T>, value: unknown): T {
  try {
    return read(value);
  } catch (thrown) {
    throw within(part, thrown);
  }
}

/** Adds the name of the part to the path of an error. */
function within(part: string | number, thrown: unknown): unknown {
  if (thrown instanceof Undecodable)
    thrown.path = join(typeof part === "number" ? `[${part}]` : part.slice(0, PART_MAX), thrown.path);
  return thrown;
}

function checkSize(size: number, min: number, max: number): void {
  if (size > max) throw new Undecodable(`it has ${size} entries; at most ${max} are allowed`);
  if (size < min) throw new Undecodable(`it has ${size} entries; at least ${min} is needed`);
}

function plainObject(value: unknown): Fields {
  if (!isObject(value)) throw new Undecodable(`${show(value)} is not an object`);
  return value;
}

/** Makes the error for an unknown field. */
export function unknownField(name: string, known: readonly string[], what?: string): Undecodable {
  const near = known.find((one) => isNear(name, one));
  const all = `known are: ${known.join(", ")}`;
  const hint = near === undefined ? all : `did you mean "${near}"? ${all}`;
  const why = what === undefined ? "there is no such field" : `${what} has no such field`;
  return new Undecodable(why, { path: name.slice(0, PART_MAX), code: "unknown_field", hint });
}

function join(path: string, more: string): string {
  return path === "" || more === "" || /^[[ ]/.test(more) ? path + more : `${path}.${more}`;
}
