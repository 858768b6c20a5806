/**
 * Basic parsers, shared by definitions, their options and the SDK's builder. Each returns a checked value or throws
 * `Invalid`.
 */
import { DURATION_MAX_MS, parseDuration, showDuration } from "../../std/duration.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { NAME_PATTERN, USE_PATTERN } from "./definition.ts";

type Fields = Record<string, unknown>;

/** Carries a rejection out of nested parsers to `rejectInvalid`. */
export class Invalid extends Error {
  readonly rejection: Rejection;
  constructor(path: string, why: string, hint?: string) {
    super(why);
    this.rejection = reject("invalid_definition", `${path}: ${why}`, { path, ...(hint ? { hint } : {}) });
  }
}

/** The result of `parse`, or the rejection of the `Invalid` that it throws. */
export function rejectInvalid<T>(parse: () => T): T | Rejection {
  try {
    return parse();
  } catch (thrown) {
    if (thrown instanceof Invalid) return thrown.rejection;
    throw thrown;
  }
}

/** The fields of a plain object; unknown fields are refused. `example` is shown in the hint. */
export function object(data: unknown, path: string, known: readonly string[], example?: string): Fields {
  if (typeof data !== "object" || data === null || Array.isArray(data)) {
    if (example === undefined) throw new Invalid(path, "must be an object");
    throw new Invalid(path, `${show(data)} is not an object`, `write it as ${example}`);
  }
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
      "a letter, then up to 149 letters, digits, dots, _ or -",
    );
  }
  return data;
}

/** An object that names a handler's code. */
export function reference(data: unknown, path: string): { readonly use: string } {
  return { use: parseUse(object(data, path, ["use"], '{ "use": "resize" }')["use"], `${path}.use`) };
}

/** A text of 1 to 200 characters. */
export function text(data: unknown, path: string): string {
  if (typeof data !== "string" || data === "" || data.length > 200)
    throw new Invalid(path, "must be a text of 1 to 200 characters");
  return data;
}

/** A JSON Pointer. */
export function pointer(data: unknown, path: string): string {
  if (typeof data !== "string" || !(data === "" || data.startsWith("/")))
    throw new Invalid(path, `${show(data)} is not a JSON Pointer`, 'write "/customer"');
  return data;
}

/** An integer within bounds. */
export function integer(data: unknown, path: string, min: number, max: number): number {
  if (typeof data !== "number" || !Number.isSafeInteger(data) || data < min || data > max) {
    const isQuoted = typeof data === "string" && /^\d+$/.test(data);
    throw new Invalid(
      path,
      `${show(data)} is not a whole number from ${min} to ${max}`,
      isQuoted ? "write it without quotes" : undefined,
    );
  }
  return data;
}

/** A duration within bounds, in milliseconds. */
export function duration(data: unknown, path: string, minMs = 0, maxMs = DURATION_MAX_MS): number {
  const ms = parseDuration(data, path);
  if (isRejection(ms)) throw new Invalid(path, ms.message.slice(path.length + 2), ms.hint);
  if (ms < minMs) throw new Invalid(path, `${show(data)} is shorter than ${minMs} ms`);
  if (ms > maxMs) throw new Invalid(path, `${show(data)} is longer than ${showDuration(maxMs)}`);
  return ms;
}

/** A value for the text of a refusal, cut short. */
export function show(data: unknown): string {
  if (typeof data === "string") return `"${data.slice(0, 60)}"`;
  return typeof data === "number" ? String(data) : String(JSON.stringify(data) ?? typeof data).slice(0, 60);
}
