/** Checks the options of steps and waits inside a task. A wrong option fails the task without a retry. */
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

/** The options of a step (`StepOptions`) after their check. */
export interface StepBudget {
  /** When a failed try is repeated; null if the step has no retries and the code gets its error at once. */
  readonly retry: (RetryPolicy & { readonly attempts: number }) | null;
  readonly timeoutMs: number | null;
}

/** The options of a step that is called without options: no retries and no time limit. */
export const NO_BUDGET: StepBudget = { retry: null, timeoutMs: null };

/** Checks the options of a step. */
export function readStepOptions(options: StepOptions, path: string): StepBudget | Rejection {
  const { retry, timeout, ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return reject("invalid_input", `${path} has the unknown option "${unknown}"`);
  if (typeof retry === "object" && retry !== null && "crashes" in retry)
    return reject(
      "invalid_input",
      `${path}.retry.crashes: a step cannot limit crashes, because a crash counts for the whole task`,
    );
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

/** Returns the signals of a wait, in the form in which a worker reports them. */
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

/** Returns the values that a signal must match, in the form in which a worker reports them. */
export function matchOf(name: string, match: unknown): Pick<TaskWait, "match"> {
  if (match === undefined) return {};
  const text = toStoredText(match, { bytesMax: MATCH_CHARS_MAX, what: `waitFor "${name}".match` });
  if (isRejection(text)) throw refused(text);
  return { match: text };
}

/** Makes an error that fails the task without a retry, because every attempt would fail in the same way. */
export function fatal(message: string): Error {
  return brandFatal(new Error(message));
}

/** Makes the error for a rejected option. */
export function refused({ message, hint }: Rejection): Error {
  return fatal(hint === undefined ? message : `${message} (${hint})`);
}
