/** One setting: where it may come from, what it is if nothing says so, and how a given value is checked. */
import { parseDuration, showDuration } from "../std/duration.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";

/** What a setting can be; `null`: not set. */
export type Checked<T> = T | Rejection;

export interface Setting<T> {
  /** The flag that sets it, without dashes. */
  readonly flag?: string;
  /** The environment variable that sets it. */
  readonly env?: string;
  /** False: not in a file, since it belongs to one call or is secret. */
  readonly inFile: boolean;
  readonly fallback: T;
  /** Never shown. */
  readonly isSecret?: boolean;
  /** The value for people, where that is not plain JSON. */
  readonly show?: (value: T) => string;
  /** Holds paths that are meant from the folder of the file that names them. */
  readonly rebase?: (value: T, resolve: (path: string) => string) => T;
  /** The value, or why it is none; later, if what it takes to say so is loaded first. `what` names the setting and its origin. */
  readonly check: (value: unknown, what: string) => Checked<T> | Promise<Checked<T>>;
}

/** A text that is not empty. */
export function checkText(value: unknown, what: string): Checked<string> {
  return typeof value === "string" && value !== "" ? value : wrong(what, value, "a text");
}

/** A TCP port; as text too, since flags and variables are text. 0: any that is free. */
export function checkPort(value: unknown, what: string): Checked<number> {
  const port = typeof value === "string" && /^\d{1,5}$/.test(value) ? Number(value) : value;
  return Number.isInteger(port) && (port as number) >= 0 && (port as number) <= 65_535
    ? (port as number)
    : wrong(what, value, "a port", "a whole number from 0 (any free one) to 65535");
}

/** An http or https address. */
export function checkUrl(value: unknown, what: string): Checked<string> {
  if (typeof value === "string" && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol))
    return value.replace(/\/+$/, "");
  return wrong(what, value, "an address", 'write it as "http://127.0.0.1:7777"');
}

/** Milliseconds of a duration that is not shorter than this. */
export function checkDuration(minMs: number): (value: unknown, what: string) => Checked<number> {
  return (value, what) => {
    const ms = parseDuration(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value, what);
    if (isRejection(ms)) return { ...ms, code: "invalid_input" };
    return ms >= minMs ? ms : wrong(what, value, `a duration of at least ${showDuration(minMs)}`);
  };
}

/** A list of texts. */
export function checkTexts(value: unknown, what: string): Checked<readonly string[]> {
  if (!Array.isArray(value)) return wrong(what, value, "a list of texts", 'such as ["a", "b"]');
  const bad = value.findIndex((item) => typeof item !== "string" || item === "");
  return bad === -1 ? (value as string[]) : wrong(`${what}[${bad}]`, value[bad], "a text");
}

/** A whole number above zero. */
export function checkCount(value: unknown, what: string): Checked<number> {
  return countIn(value, what);
}

/** A number of bytes. */
export function checkBytes(value: unknown, what: string): Checked<number> {
  return countIn(value, what, "in bytes, without a unit, such as 1048576");
}

/** A number of milliseconds. */
export function checkMs(value: unknown, what: string): Checked<number> {
  return countIn(value, what, "in milliseconds, without a unit, such as 30000");
}

function countIn(value: unknown, what: string, hint?: string): Checked<number> {
  return Number.isSafeInteger(value) && (value as number) > 0
    ? (value as number)
    : wrong(what, value, "a whole number above zero", hint);
}

/** An object each of whose values passes `check`; `name` checks the keys. */
export function checkMap<T>(
  check: (value: unknown, what: string) => Checked<T>,
  name: { readonly pattern: RegExp; readonly what: string },
): (value: unknown, what: string) => Checked<Readonly<Record<string, T>>> {
  return (value, what) => {
    const given = fieldsOf(value);
    if (given === null) return wrong(what, value, "an object");
    for (const [key, member] of Object.entries(given)) {
      if (!name.pattern.test(key)) return wrong(what, key, name.what);
      const checked = check(member, `${what}.${key}`);
      if (isRejection(checked)) return checked;
    }
    return value as Readonly<Record<string, T>>;
  };
}

/** An object with these fields and no others, each of them optional. */
export function checkFields<T extends object>(
  fields: { readonly [K in keyof T]-?: (value: unknown, what: string) => Checked<unknown> },
): (value: unknown, what: string) => Checked<T> {
  return (value, what) => {
    const given = fieldsOf(value);
    if (given === null) return wrong(what, value, "an object");
    const checked: Record<string, unknown> = {};
    for (const [key, member] of Object.entries(given)) {
      const check = (fields as Record<string, (value: unknown, what: string) => Checked<unknown>>)[key];
      if (check === undefined || !Object.hasOwn(fields, key))
        return unknownField(`${what}.${key}`, key, Object.keys(fields));
      const result = check(member, `${what}.${key}`);
      if (isRejection(result)) return result;
      checked[key] = result;
    }
    return checked as T;
  };
}

/** The refusal of a name that nothing has, with the nearest one there is. */
export function unknownField(what: string, name: string, known: readonly string[]): Rejection {
  const near = known.find((candidate) => isNear(name, candidate));
  const all = `there are: ${known.join(", ")}`;
  return reject("unknown_field", `${what}: there is no such setting`, {
    path: name,
    hint: near === undefined ? all : `did you mean "${near}"? ${all}`,
  });
}

/** The fields of an object; null for anything else. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function wrong(what: string, value: unknown, wanted: string, hint?: string): Rejection {
  return reject("invalid_input", `${what}: ${show(value)} is not ${wanted}`, {
    path: what,
    ...(hint === undefined ? {} : { hint }),
  });
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? typeof value;
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

/** Equal but for case, or for one letter that is missing, too much, wrong, or swapped with its neighbour. */
export function isNear(a: string, b: string): boolean {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()];
  let head = 0;
  while (head < x.length && x[head] === y[head]) head++;
  const [p, q] = [x.slice(head), y.slice(head)];
  if (p === q) return true;
  const isSwapped = p.slice(2) === q.slice(2) && p[0] === q[1] && p[1] === q[0];
  return isSwapped || p.slice(1) === q || p === q.slice(1) || p.slice(1) === q.slice(1);
}
