/** Converts the way in which user code ended (it returned, threw or exceeded its time limit) to an `Outcome`. */
import { LIMITS } from "../kernel/definition/definition.ts";
import type { Items } from "../kernel/definition/task-name.ts";
import type { Outcome } from "../kernel/message.ts";
import { brandFatal, FATAL, RETRY_AFTER } from "../protocol/error-brands.ts";
import { cutStack, cutText, storedCause, userFrames } from "../protocol/error-cause.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { HandlerCode } from "./handler-code.ts";

/** Returns the outcome of code that returned this value: done, or failed without a retry if the value cannot be stored. */
export function doneWith(value: unknown, adds?: Items): Outcome {
  let text: string | Rejection;
  try {
    text = toStoredText(value, { bytesMax: LIMITS.resultBytes, what: "result" });
  } catch (thrown) {
    // The value's toJSON and getters are user code and may throw.
    return threw(thrown);
  }
  if (isRejection(text)) return refused(text);
  return adds === undefined ? { status: "done", payload: text } : { status: "done", payload: text, adds };
}

/** Makes the outcome of code that failed because one of its values cannot be stored. */
export function refused(rejection: Rejection): Outcome {
  const { code, message, hint, path } = rejection;
  return {
    status: "failed",
    fatal: true,
    payload: JSON.stringify({ name: "NotStorable", code, message, hint, path }),
  };
}

export function threw(thrown: unknown): Outcome {
  const failed: Outcome = { status: "failed", payload: errorText(thrown) };
  if (typeof thrown !== "object" || thrown === null) return failed;
  try {
    const { [FATAL]: fatal, [RETRY_AFTER]: retryAfterMs } = thrown as Record<symbol, unknown>;
    return {
      ...failed,
      ...(fatal === true ? { fatal: true } : {}),
      ...(typeof retryAfterMs === "number" && Number.isFinite(retryAfterMs)
        ? { retryAfterMs: Math.max(0, Math.round(retryAfterMs)) }
        : {}),
    };
  } catch {
    // An error object of user code may throw when its fields are read.
    return failed;
  }
}

export function outOfTime(timeoutMs: number): Outcome {
  return {
    status: "killed",
    payload: JSON.stringify({ name: "Timeout", code: "timeout", message: `ran longer than ${timeoutMs} ms` }),
  };
}

/** Makes the outcome of an attempt that is handed back, because it was cancelled or given up before it began. */
export function handedBack(why: string): Outcome {
  return {
    status: "cancelled",
    payload: JSON.stringify({ name: "Cancelled", code: "cancelled", message: why }),
  };
}

export function errorText(thrown: unknown): string {
  try {
    if (thrown instanceof Error || (typeof thrown === "object" && thrown !== null && "message" in thrown)) {
      const error = thrown as Record<"name" | "message" | "stack" | "code" | "path" | "cause", unknown>;
      const cause = storedCause(error.cause);
      return JSON.stringify({
        name: cut(error.name, 100) ?? "Error",
        message: cut(error.message, LIMITS.errorChars) ?? "",
        ...(typeof error.code === "string" ? { code: cut(error.code, 100) } : {}),
        ...(typeof error.path === "string" ? { path: cut(error.path, 1_000) } : {}),
        ...(typeof error.stack === "string"
          ? { stack: cutStack(userFrames(error.stack), error.message, LIMITS.errorChars) }
          : {}),
        ...(cause === undefined ? {} : { cause }),
      });
    }
    const shown = typeof thrown === "object" && thrown !== null ? thrown : String(thrown);
    return JSON.stringify({ name: "Error", message: cut(shown, LIMITS.errorChars) });
  } catch {
    // Getters of an error object are user code and may throw. The failure must still be reported.
    return JSON.stringify({ name: "Error", message: "user code threw something that cannot be shown" });
  }
}

function cut(value: unknown, max: number): string | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? typeof value);
  return cutText(text, max);
}

/** The tasks that the code of an attempt adds to its handler. If the attempt ends as done, they are part of its outcome. */
export class AddedTasks {
  readonly #code: HandlerCode;
  readonly #tasks: string[] = [];
  readonly #keys: string[] = [];
  readonly #identities: string[] = [];
  readonly #afters: (readonly string[])[] = [];
  #chars = 0;

  constructor(code: HandlerCode) {
    this.#code = code;
  }

  /** Adds a task. If the item cannot be stored, or if there are too many, it throws an error that fails the task without a retry. */
  add(item: unknown): void {
    const { addedTasks, addedChars, taskBytes } = LIMITS;
    const text = toStoredText(item, { bytesMax: taskBytes, what: `added task ${this.#tasks.length}` });
    if (isRejection(text)) throw fatal(text.message, text.code);
    if (this.#tasks.length >= addedTasks)
      throw fatal(`add: an attempt adds at most ${addedTasks.toLocaleString("en")} tasks`, "too_large");
    this.#chars += text.length;
    if (this.#chars > addedChars)
      throw fatal(`add: the tasks that an attempt adds have at most ${addedChars} characters`, "too_large");
    const { key, identity, after } = this.#code;
    this.#tasks.push(text);
    if (key !== undefined) this.#keys.push(String(key(item)));
    if (identity !== undefined) this.#identities.push(String(identity(item)));
    if (after !== undefined) this.#afters.push(after(item));
  }

  /** The tasks that were added so far. */
  get items(): Items {
    const { key, identity, after } = this.#code;
    return {
      tasks: this.#tasks,
      keys: key === undefined ? null : this.#keys,
      identities: identity === undefined ? null : this.#identities,
      ...(after === undefined ? {} : { afters: this.#afters }),
    };
  }
}

function fatal(message: string, code: string): Error {
  return brandFatal(Object.assign(new Error(message), { code }));
}
