/**
 * The decoders of a handler's options, one for each option. A decoder returns the canonical value, or undefined if the value equals
 * the default.
 */
import {
  anything,
  checked,
  type Decode,
  flag,
  integer,
  invalid,
  listOf,
  mapped,
  optional,
  show,
  text,
  where,
} from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { durationMs } from "../../std/duration.ts";
import { toStoredText } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { parseCommand, parseTopic, retryFields } from "../command/parse-command.ts";
import { type AnswerDefinition, DEFAULTS, LIMITS, type RetryDefinition } from "./definition.ts";
import { parseName, parseUse, pointer, reference, shortText, strict, wrong } from "./parse-primitive.ts";

const TASKS_MAX = 100_000;
const RUNS_MAX = 1_000;

/** Patterns for a subset of semver ranges: version bounds, joined by spaces, " - " and "||". */
const WHOLE = "(?:0|[1-9]\\d{0,14})";
const NUMBER = `(?:${WHOLE}|[xX*])`;
const IDENTIFIER = "(?:0|[1-9]\\d{0,14}|\\d*[A-Za-z-][0-9A-Za-z-]*)";
const VERSION = `v?${NUMBER}(?:\\.${NUMBER}(?:\\.${NUMBER}(?:-${IDENTIFIER}(?:\\.${IDENTIFIER})*)?)?)?`;
const BOUND = `(?:(?:[~^=]|[<>]=?) *)?${VERSION}`;
const BOUNDS = `(?:${VERSION} +- +${VERSION}|${BOUND}(?: +${BOUND})*)`;
const RANGE = new RegExp(`^${BOUNDS}(?: *\\|\\| *${BOUNDS})*$`);

/** Returns the value, or undefined if it equals the default. */
function unless<T>(value: T, fallback: unknown): T | undefined {
  return value === fallback ? undefined : value;
}

function count(fallback: number | undefined, min = 1, max = 1_000_000): Decode<number | undefined> {
  return mapped(integer(min, max), (n) => unless(n, fallback));
}

/** Decodes a JSON Pointer, or true, which means that code computes the value. */
const naming: Decode<string | true> = (value) => (value === true ? true : pointer(value));

const givenRetry = strict(
  { ...retryFields, crashes: optional(integer(1, 250)) },
  '{ "attempts": 5, "backoff": "exponential", "min": "1s", "max": "5m" }',
);

const retry: Decode<RetryDefinition | undefined> = (value) => {
  const given = givenRetry(value);
  const { min = DEFAULTS.retryMinMs } = given;
  const { max = Math.max(DEFAULTS.retryMaxMs, min) } = given;
  if (max < min)
    throw wrong(
      "",
      `max (${max} ms) is less than min (${min} ms)`,
      given.min === undefined ? "give min too, which is 1s by default" : "swap them",
    );
  const parsed = defined({
    attempts: unless(given.attempts, DEFAULTS.attempts),
    crashes: unless(given.crashes, DEFAULTS.crashes),
    backoff: unless(given.backoff, "exponential"),
    min: unless(min, DEFAULTS.retryMinMs),
    max: unless(max, DEFAULTS.retryMaxMs),
  });
  return Object.keys(parsed).length === 0 ? undefined : parsed;
};

const numberOfTasks = count(0, 0, LIMITS.tasksPerVisit);

const tolerate: Decode<number | string | undefined> = (value) => {
  if (typeof value === "string") {
    const match = /^(\d{1,3}(?:\.\d{1,4})?)%$/.exec(value);
    if (!match || Number(match[1]) > 100)
      throw wrong("", `${show(value)} is not a percentage`, 'write it as "1%"');
    return `${Number(match[1])}%`;
  }
  if (typeof value === "number" && value > 0 && value < 1)
    throw wrong("", `${value} is not a number of tasks`, 'a share of them is written as "1%"');
  return numberOfTasks(value);
};

const rate = mapped(
  strict(
    {
      limit: integer(1, 1_000_000),
      per: durationMs(1),
      spread: optional(mapped(flag, (isSpread) => isSpread || undefined)),
    },
    '{ "limit": 5, "per": "1s" }',
  ),
  defined,
);

const taskList = listOf((value) => {
  const stored = toStoredText(value, { bytesMax: LIMITS.taskBytes, what: "the task" });
  if (isRejection(stored)) throw wrong("", stored.message, stored.hint);
  return value;
});

const tasks: Decode<readonly unknown[]> = (value) => {
  if (Array.isArray(value) && value.length > TASKS_MAX)
    throw wrong(
      "",
      `${value.length} tasks in a definition; at most ${TASKS_MAX} are allowed`,
      "enumerate them in code",
    );
  return taskList(value);
};

const expression = checked(
  where<string>(
    `JavaScript of 1 to ${LIMITS.rowBytes} characters`,
    (value) => typeof value === "string" && value.trim() !== "" && value.length <= LIMITS.rowBytes,
    "the expression must evaluate to a function: (state, ctx) => nextState",
  ),
  (code) => (code.isWellFormed() ? null : invalid("", "contains half of a surrogate pair")),
);

const runList = listOf(strict({ name: parseName, expression, timeout: optional(durationMs(1)) }), {
  max: RUNS_MAX,
});

/** Decodes the ordered runs of a script. */
const script: Decode<unknown> = (value) => {
  if (!Array.isArray(value) || value.length === 0)
    throw wrong("", "must be a list of runs", 'write [{ "name": "one", "expression": "s => s" }]');
  const names = new Set<string>();
  return runList(value).map(({ name, expression: code, timeout }, i) => {
    if (names.has(name)) throw wrong(`[${i}].name`, `"${name}" is the name of two runs`);
    names.add(name);
    return { name, expression: code, ...defined({ timeout }) };
  });
};

/** Decodes a semver range. */
const version: Decode<string> = mapped(
  shortText,
  text({ pattern: RANGE, what: "a range of versions", hint: 'write "~1.2" or ">=1 <3"' }),
);

/** The pattern of versions of workers and workflows, such as `1.2.0`. */
export const VERSION_PATTERN = new RegExp(
  `^${WHOLE}\\.${WHOLE}\\.${WHOLE}(?:-${IDENTIFIER}(?:\\.${IDENTIFIER})*)?(?:\\+[0-9A-Za-z.-]+)?$`,
);

/** Decodes the version of a workflow. */
export const parseVersion: Decode<string> = mapped(
  shortText,
  text({ pattern: VERSION_PATTERN, what: "a version", hint: 'write it as "1.2.0"' }),
);

/** Decoders for the fields of `next` and `returns`, whose code chooses the next phase or computes the output. */
export const answerFields = {
  use: parseUse,
  version: optional(version),
  timeout: optional(durationMs(1)),
  retry: optional(retry),
};

/** Decodes the code that computes the output. */
export const parseAnswer: Decode<AnswerDefinition> = mapped(
  strict(answerFields, '{ "use": "summary" }'),
  ({ use, ...options }) => ({ use, ...defined(options) }),
);

/** Decodes the code that compensates a task. */
const compensate = strict(
  {
    use: parseUse,
    version: optional(version),
    timeout: optional(durationMs(1)),
    retry: optional(retry),
    concurrency: optional(count(undefined)),
  },
  '{ "use": "refund" }',
);

/** Decoders of all fields that a handler can have. */
export const OPTIONS: Readonly<Record<string, Decode<unknown>>> = {
  use: parseUse,
  sleep: durationMs(),
  waitFor: parseName,
  optional: mapped(flag, (isOptional) => isOptional || undefined),
  schema: anything,
  command: parseCommand,
  topic: parseTopic,
  receiptTopic: parseTopic,
  script,
  state: anything,
  resume: mapped(flag, (isResumed) => unless(isResumed, true)),
  workflow: parseName,
  tasks,
  enumerate: reference,
  version,
  timeout: durationMs(1),
  heartbeat: mapped(durationMs(100, 86_400_000), (ms) => unless(ms, DEFAULTS.heartbeatMs)),
  retry,
  concurrency: count(undefined),
  key: naming,
  identity: naming,
  adds: mapped(flag, (isAdding) => isAdding || undefined),
  after: naming,
  concurrencyPerKey: count(undefined),
  rate,
  ratePerKey: rate,
  priority: count(0, -1_000, 1_000),
  tolerate,
  batch: count(1, 1, LIMITS.pageTasks),
  compensate: mapped(compensate, defined),
};
