/** One parser per option of a handler: the canonical value, or undefined where it equals the default. */
import { toStoredText } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { parseCommand, parseTopic } from "../command/parse-command.ts";
import { DEFAULTS, LIMITS } from "./definition.ts";
import {
  duration,
  Invalid,
  integer,
  object,
  parseName,
  parseUse,
  pointer,
  reference,
  show,
  text,
} from "./parse-primitive.ts";

const RUNS_MAX = 1_000;

/** A subset of semver ranges: bounds by number, joined by spaces, " - " and "||". */
const NUMBER = "(?:0|[1-9]\\d{0,14}|[xX*])";
const IDENTIFIER = "(?:0|[1-9]\\d{0,14}|\\d*[A-Za-z-][0-9A-Za-z-]*)";
const VERSION = `v?${NUMBER}(?:\\.${NUMBER}(?:\\.${NUMBER}(?:-${IDENTIFIER}(?:\\.${IDENTIFIER})*)?)?)?`;
const BOUND = `(?:(?:[~^=]|[<>]=?) *)?${VERSION}`;
const BOUNDS = `(?:${VERSION} +- +${VERSION}|${BOUND}(?: +${BOUND})*)`;
const RANGE = new RegExp(`^${BOUNDS}(?: *\\|\\| *${BOUNDS})*$`);

type OptionParser = (value: unknown, path: string) => unknown;

const json: OptionParser = (value) => value;
const boolean: OptionParser = (value, path) => {
  if (typeof value !== "boolean") throw new Invalid(path, "must be true or false");
  return value;
};
const count =
  (fallback: number | undefined, min = 1, max = 1_000_000): OptionParser =>
  (value, path) => {
    const n = integer(value, path, min, max);
    return n === fallback ? undefined : n;
  };

/** A JSON Pointer, or true if code computes the value. */
const naming: OptionParser = (value, path) => (value === true ? true : pointer(value, path));

const retry: OptionParser = (value, path) => {
  const example = '{ "attempts": 5, "backoff": "exponential", "min": "1s", "max": "5m" }';
  const fields = object(value, path, ["attempts", "crashes", "backoff", "min", "max"], example);
  const parsed: Record<string, unknown> = {};
  const put = (key: string, given: unknown, fallback: unknown) => {
    if (given !== fallback) parsed[key] = given;
  };
  if (fields["attempts"] !== undefined)
    put("attempts", integer(fields["attempts"], `${path}.attempts`, 1, 250), DEFAULTS.attempts);
  if (fields["crashes"] !== undefined)
    put("crashes", integer(fields["crashes"], `${path}.crashes`, 1, 250), DEFAULTS.crashes);
  if (fields["backoff"] !== undefined) {
    if (fields["backoff"] !== "exponential" && fields["backoff"] !== "constant")
      throw new Invalid(
        `${path}.backoff`,
        `${show(fields["backoff"])} is not known`,
        'use "exponential" or "constant"',
      );
    put("backoff", fields["backoff"], "exponential");
  }
  const min = fields["min"] === undefined ? DEFAULTS.retryMinMs : duration(fields["min"], `${path}.min`);
  const max =
    fields["max"] === undefined ? Math.max(DEFAULTS.retryMaxMs, min) : duration(fields["max"], `${path}.max`);
  if (max < min)
    throw new Invalid(
      path,
      `max (${max} ms) is less than min (${min} ms)`,
      fields["min"] === undefined ? "give min too, which is 1s by default" : "swap them",
    );
  put("min", min, DEFAULTS.retryMinMs);
  put("max", max, DEFAULTS.retryMaxMs);
  return Object.keys(parsed).length === 0 ? undefined : parsed;
};

const tolerate: OptionParser = (value, path) => {
  if (typeof value === "string") {
    const match = /^(\d{1,3}(?:\.\d{1,4})?)%$/.exec(value);
    if (!match || Number(match[1]) > 100)
      throw new Invalid(path, `${show(value)} is not a percentage`, 'write it as "1%"');
    return `${Number(match[1])}%`;
  }
  if (typeof value === "number" && value > 0 && value < 1)
    throw new Invalid(path, `${value} is not a number of tasks`, 'a share of them is written as "1%"');
  return count(0, 0, LIMITS.tasksPerVisit)(value, path);
};

const rate: OptionParser = (value, path) => {
  const fields = object(value, path, ["limit", "per"], '{ "limit": 5, "per": "1s" }');
  return {
    limit: integer(fields["limit"], `${path}.limit`, 1, 1_000_000),
    per: duration(fields["per"], `${path}.per`, 1),
  };
};

const tasks: OptionParser = (value, path) => {
  if (!Array.isArray(value)) throw new Invalid(path, "must be a list of tasks");
  if (value.length > 100_000)
    throw new Invalid(
      path,
      `${value.length} tasks in a definition; at most 100000 are allowed`,
      "enumerate them in code",
    );
  for (const [i, task] of value.entries()) {
    const text = toStoredText(task, { bytesMax: LIMITS.taskBytes, what: "the task" });
    if (isRejection(text)) throw new Invalid(`${path}[${i}]`, text.message, text.hint);
  }
  return value;
};

/** The ordered runs of a script. */
const script: OptionParser = (value, path) => {
  if (!Array.isArray(value) || value.length === 0)
    throw new Invalid(path, "must be a list of runs", 'write [{ "name": "one", "expression": "s => s" }]');
  if (value.length > RUNS_MAX)
    throw new Invalid(path, `${value.length} runs; at most ${RUNS_MAX} are allowed`);
  const names = new Set<string>();
  return value.map((entry: unknown, i) => {
    const at = `${path}[${i}]`;
    const fields = object(entry, at, ["name", "expression", "timeout"]);
    const name = parseName(fields["name"], `${at}.name`);
    if (names.has(name)) throw new Invalid(`${at}.name`, `"${name}" is the name of two runs`);
    names.add(name);
    const { expression } = fields;
    if (typeof expression !== "string" || expression.trim() === "" || expression.length > LIMITS.rowBytes)
      throw new Invalid(
        `${at}.expression`,
        `must be JavaScript of 1 to ${LIMITS.rowBytes} characters`,
        "it evaluates to a function: (state, ctx) => nextState",
      );
    if (!expression.isWellFormed()) throw new Invalid(`${at}.expression`, "holds half of a surrogate pair");
    const timeout = fields["timeout"];
    return {
      name,
      expression,
      ...(timeout === undefined ? {} : { timeout: duration(timeout, `${at}.timeout`, 1) }),
    };
  });
};

/** A semver range. */
const version: OptionParser = (value, path) => {
  const range = text(value, path);
  if (!RANGE.test(range))
    throw new Invalid(path, `${show(value)} is not a range of versions`, 'write "~1.2" or ">=1 <3"');
  return range;
};

/** Every field a handler can have. */
export const OPTION_PARSERS: Readonly<Record<string, OptionParser>> = {
  use: parseUse,
  sleep: (value, path) => duration(value, path),
  waitFor: parseName,
  optional: (value, path) => boolean(value, path) || undefined,
  schema: json,
  command: parseCommand,
  topic: parseTopic,
  receiptTopic: parseTopic,
  script,
  state: json,
  resume: (value, path) => (boolean(value, path) === true ? undefined : false),
  workflow: parseName,
  tasks,
  enumerate: reference,
  version,
  timeout: (value, path) => duration(value, path, 1),
  heartbeat: (value, path) => {
    const ms = duration(value, path, 100, 86_400_000);
    return ms === DEFAULTS.heartbeatMs ? undefined : ms;
  },
  retry,
  concurrency: count(undefined),
  key: naming,
  identity: naming,
  concurrencyPerKey: count(undefined),
  rate,
  priority: count(0, -1_000, 1_000),
  tolerate,
  batch: count(1, 1, LIMITS.pageTasks),
};
