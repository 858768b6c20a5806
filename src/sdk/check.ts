/**
 * What the builder refuses at once, with the words that the kernel's parser of definitions uses. The parser stays the
 * judge; it is not used here because it needs `node:` modules. test/sdk/refusals.test.ts holds the two together.
 */
import type { LIMITS } from "../kernel/definition.ts";
import type { DEFAULTS } from "../kernel/plan.ts";
import { parseDuration } from "../std/duration.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";

type Check = (value: unknown, path: string) => void;

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;
const WIRE_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,149}$/;
const TASKS_MAX: (typeof LIMITS)["tasksPerVisit"] = 10_000_000;
const BATCH_MAX: (typeof LIMITS)["pageTasks"] = 1_000;
const TASK_BYTES_MAX: (typeof LIMITS)["taskBytes"] = 65_536;
const RETRY_MIN_MS: (typeof DEFAULTS)["retryMinMs"] = 1_000;

/** The error that a builder throws. */
export function invalid(path: string, why: string, hint?: string): RondoError {
  return new RondoError(
    reject("invalid_definition", `${path}: ${why}`, { path, ...(hint === undefined ? {} : { hint }) }),
  );
}

/** Refuses what is not a name of a workflow, phase, handler or signal. */
export function checkName(value: unknown, path: string): void {
  if (typeof value !== "string" || !NAME.test(value))
    throw invalid(path, `${show(value)} is not a name`, "a letter, then up to 39 letters, digits, _ or -");
}

/** Refuses what is not a whole number within bounds. */
export function checkInteger(value: unknown, path: string, min: number, max: number): void {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min || value > max)
    throw invalid(path, `${show(value)} is not a whole number from ${min} to ${max}`);
}

/** Milliseconds of a duration; refuses what is none. */
export function checkDuration(value: unknown, path: string, minMs = 0): number {
  const ms = unwrap(parseDuration(value, path));
  if (ms < minMs) throw invalid(path, `${show(value)} is shorter than ${minMs} ms`);
  return ms;
}

/** Refuses what cannot be the wire name of a handler. */
export function checkWireName(value: unknown, path: string): void {
  if (typeof value !== "string" || !WIRE_NAME.test(value))
    throw invalid(
      path,
      `${show(value)} is not a handler's name`,
      "a letter, then letters, digits, dots, _ or -",
    );
}

/** Refuses what is not a text of a sensible length. */
export function checkText(value: unknown, path: string): void {
  if (typeof value !== "string" || value === "" || value.length > 200)
    throw invalid(path, "must be a text of 1 to 200 characters");
}

/** Refuses fields that are not known: most of them are misspelt options. */
export function checkFields(value: unknown, path: string, known: readonly string[]): void {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(path, "must be an object");
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown !== undefined)
    throw invalid(path, `has the unknown field "${unknown.slice(0, 60)}"`, `known are: ${known.join(", ")}`);
}

/** A copy of a value as JSON; refuses what cannot be stored, with the path to it. */
export function storedCopy(value: unknown, what: string, bytesMax: number = TASK_BYTES_MAX): Json {
  return JSON.parse(unwrap(toStoredText(value, { bytesMax, what }))) as Json;
}

function show(value: unknown): string {
  return typeof value === "string"
    ? `"${value.slice(0, 60)}"`
    : String(JSON.stringify(value) ?? typeof value).slice(0, 60);
}

const count =
  (min: number, max: number): Check =>
  (value, path) =>
    checkInteger(value, path, min, max);

const pointerOrFunction: Check = (value, path) => {
  if (typeof value === "function" || value === "") return;
  if (typeof value !== "string" || !value.startsWith("/"))
    throw invalid(path, `${show(value)} is not a JSON Pointer`, 'write "/customer"');
};

const retry: Check = (value, path) => {
  checkFields(value, path, ["attempts", "crashes", "backoff", "min", "max"]);
  const { attempts, crashes, backoff, min, max } = value as Record<string, unknown>;
  if (attempts !== undefined) checkInteger(attempts, `${path}.attempts`, 1, 250);
  if (crashes !== undefined) checkInteger(crashes, `${path}.crashes`, 1, 250);
  if (backoff !== undefined && backoff !== "exponential" && backoff !== "constant")
    throw invalid(`${path}.backoff`, `${show(backoff)} is not known`, 'use "exponential" or "constant"');
  const minMs = min === undefined ? RETRY_MIN_MS : checkDuration(min, `${path}.min`);
  const maxMs = max === undefined ? minMs : checkDuration(max, `${path}.max`);
  if (maxMs < minMs) throw invalid(path, `max (${maxMs} ms) is less than min (${minMs} ms)`, "swap them");
};

const rate: Check = (value, path) => {
  checkFields(value, path, ["limit", "per"]);
  const { limit, per } = value as Record<string, unknown>;
  checkInteger(limit, `${path}.limit`, 1, 1_000_000);
  checkDuration(per, `${path}.per`, 1);
};

const tolerate: Check = (value, path) => {
  if (typeof value !== "string") return checkInteger(value, path, 0, TASKS_MAX);
  const share = /^(\d{1,3}(?:\.\d{1,4})?)%$/.exec(value)?.[1];
  if (share === undefined || Number(share) > 100)
    throw invalid(path, `${show(value)} is not a percentage`, 'write it as "1%"');
};

/** Options that are data, each with its check. */
export const OPTION_CHECKS: Readonly<Record<string, Check>> = {
  retry,
  timeout: (value, path) => void checkDuration(value, path, 1),
  heartbeat: (value, path) => checkInteger(checkDuration(value, path, 100), path, 100, 86_400_000),
  concurrency: count(1, 1_000_000),
  concurrencyPerKey: count(1, 1_000_000),
  rate,
  priority: count(-1_000, 1_000),
  tolerate,
  batch: count(1, BATCH_MAX),
  key: pointerOrFunction,
  identity: pointerOrFunction,
  version: checkText,
  topic: checkText,
  receiptTopic: checkText,
};
