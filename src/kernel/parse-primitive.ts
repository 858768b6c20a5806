/** The smallest parsers, shared by definitions and their options: each gives a checked value or throws `Invalid`. */
import { parseDuration } from "../std/duration.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { NAME_PATTERN, USE_PATTERN } from "./definition.ts";

type Fields = Record<string, unknown>;

/** Carries a rejection out of nested parsing; never leaves the parsers of definitions. */
export class Invalid extends Error {
  readonly rejection: Rejection;
  constructor(path: string, why: string, hint?: string) {
    super(why);
    this.rejection = reject("invalid_definition", `${path}: ${why}`, { path, ...(hint ? { hint } : {}) });
  }
}

/** The fields of a plain object; anything unknown is refused. */
export function object(data: unknown, path: string, known: readonly string[]): Fields {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw new Invalid(path, "must be an object");
  for (const key of Object.keys(data)) {
    if (!known.includes(key))
      throw new Invalid(
        path,
        `has the unknown field "${key.slice(0, 60)}"`,
        `known are: ${known.join(", ")}`,
      );
  }
  return data as Fields;
}

/** A name of a workflow, phase, handler or signal. */
export function parseName(data: unknown, path: string): string {
  if (typeof data !== "string" || !NAME_PATTERN.test(data)) {
    throw new Invalid(path, `${show(data)} is not a name`, "a letter, then up to 39 letters, digits, _ or -");
  }
  return data;
}

/** The wire name of a handler. */
export function parseUse(data: unknown, path: string): string {
  if (typeof data !== "string" || !USE_PATTERN.test(data)) {
    throw new Invalid(
      path,
      `${show(data)} is not a handler's name`,
      "a letter, then letters, digits, dots, _ or -",
    );
  }
  return data;
}

/** An integer within bounds. */
export function integer(data: unknown, path: string, min: number, max: number): number {
  if (typeof data !== "number" || !Number.isSafeInteger(data) || data < min || data > max) {
    throw new Invalid(path, `${show(data)} is not a whole number from ${min} to ${max}`);
  }
  return data;
}

/** A duration within bounds, in milliseconds. */
export function duration(data: unknown, path: string, minMs = 0): number {
  const ms = parseDuration(data, path);
  if (isRejection(ms)) throw new Invalid(path, ms.message.slice(path.length + 2), ms.hint);
  if (ms < minMs) throw new Invalid(path, `${show(data)} is shorter than ${minMs} ms`);
  return ms;
}

export function show(data: unknown): string {
  return typeof data === "string"
    ? `"${data.slice(0, 60)}"`
    : String(JSON.stringify(data) ?? typeof data).slice(0, 60);
}
