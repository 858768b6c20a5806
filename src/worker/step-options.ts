/** Checks the options of steps and waits inside a task. Errors of options fail the task for good. */
import { DEFAULTS } from "../kernel/definition/definition.ts";
import { NAME_RULE, whyNoName } from "../kernel/definition/names.ts";
import { parseAnswer } from "../kernel/definition/parse-option.ts";
import { decodeDefinition } from "../kernel/definition/parse-primitive.ts";
import type { TaskWait } from "../kernel/message.ts";
import type { RetryPolicy } from "../kernel/tasks/retry.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { StepOptions } from "./handler-code.ts";

/** The most characters of the values that a signal must match. */
const MATCH_CHARS_MAX = 4_096;

/** A checked form of `StepOptions`. */
export interface StepBudget {
  /** The budget of the step; null if an error goes to the code at once. */
  readonly retry: (RetryPolicy & { readonly attempts: number }) | null;
  readonly timeoutMs: number | null;
}

/** The budget of a step without options. */
export const NO_BUDGET: StepBudget = { retry: null, timeoutMs: null };

/** Checks the options of a step. */
export function readStepOptions(options: StepOptions, path: string): StepBudget | Rejection {
  const { retry, timeout, ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return reject("invalid_input", `${path} has the unknown option "${unknown}"`);
  if (typeof retry === "object" && retry !== null && "crashes" in retry)
    return reject("invalid_input", `${path}.retry.crashes: a crash counts for the task, not for the step`);
  const read = decodeDefinition(parseAnswer, { use: "step", retry, timeout }, path);
  if (isRejection(read)) return read;
  const { attempts = DEFAULTS.attempts, backoff = "exponential", min, max } = read.retry ?? {};
  const retryMinMs = min ?? DEFAULTS.retryMinMs;
  const retryMaxMs = max ?? DEFAULTS.retryMaxMs;
  return {
    retry: retry === undefined ? null : { attempts, backoff, retryMinMs, retryMaxMs },
    timeoutMs: read.timeout ?? null,
  };
}

/** The signals of a wait as a worker reports them. */
export function signalsOf(
  name: string,
  signal: string | readonly string[],
): Pick<TaskWait, "signal" | "anyOf"> {
  const all = typeof signal === "string" ? [signal] : signal;
  if (!Array.isArray(all) || all.length === 0 || all.length > 100)
    throw fatal(`waitFor "${name}": signal must be a name or a list of 1 to 100 names`);
  for (const one of all as readonly string[]) {
    const wrong = whyNoName(one);
    if (wrong !== null)
      throw fatal(`waitFor "${name}": the name of a signal ${wrong} (a name has ${NAME_RULE})`);
  }
  return typeof signal === "string" ? { signal } : { anyOf: signal };
}

/** The values that a signal must have, as a worker reports them. */
export function matchOf(name: string, match: unknown): Pick<TaskWait, "match"> {
  if (match === undefined) return {};
  const text = toStoredText(match, { bytesMax: MATCH_CHARS_MAX, what: `waitFor "${name}".match` });
  if (isRejection(text)) throw refused(text);
  return { match: text };
}

/** Makes an error that would be the same in every attempt, so that the task is not retried. */
export function fatal(message: string): Error {
  return brandFatal(new Error(message));
}

/** The error of a rejected option. */
export function refused({ message, hint }: Rejection): Error {
  return fatal(hint === undefined ? message : `${message} (${hint})`);
}
