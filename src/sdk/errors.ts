/** Errors that user code throws or catches. */

import { type DamagedData, damageRemedy } from "../kernel/journal/damage.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { FATAL, RETRY_AFTER } from "../protocol/error-brands.ts";
import { restoreError } from "../protocol/error-cause.ts";
import type { RefusedUpdate, UpdateAnswer } from "../protocol/update-answer.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";

/**
 * Throw it in a handler: the task fails now, without further attempts.
 *
 * @example throw new Fatal("the account is closed");
 */
export class Fatal extends Error {
  override name = "Fatal";
  /** Tells workers that the task must not be retried. */
  readonly [FATAL] = true;
}

/**
 * Throw it in a handler: the attempt fails, and the next one starts after this time instead of the usual back-off.
 *
 * @example throw new RetryAfter("30s", "rate limited");
 */
export class RetryAfter extends Error {
  override name = "RetryAfter";
  /** Milliseconds until the next attempt. */
  readonly [RETRY_AFTER]: number;
  /**
   * @throws RondoError if the delay is not a duration
   */
  constructor(delay: Duration, message?: string, options?: ErrorOptions) {
    super(message ?? `to be retried after ${typeof delay === "number" ? `${delay} ms` : delay}`, options);
    this[RETRY_AFTER] = unwrap(parseDuration(delay, "RetryAfter"));
  }
}

/** Thrown by `update()`: the code of the execution has refused the update. Its `code` is `update_refused`. */
export class UpdateRefused extends RondoError {
  override name = "UpdateRefused";
  /** The name of the update. */
  readonly update: string;
  /** The error with which the code refused it: its name, its message, and its own code if it has one, such as `invalid_input`. */
  readonly refusal: RefusedUpdate;
  /** Made by Rondo. */
  constructor(update: string, refusal: RefusedUpdate) {
    super(reject("update_refused", `update "${update}" was refused: ${refusal.message}`));
    this.update = update;
    this.refusal = refusal;
  }
}

/** Returns the value of the answer to an update. Throws `UpdateRefused` if the update was refused. */
export function answerOf<Answer>(update: string, answer: UpdateAnswer): Answer {
  if ("error" in answer) throw new UpdateRefused(update, answer.error);
  return answer.value as Answer;
}

/**
 * Thrown by `result()`: the execution failed, or its stored data is damaged. `events()` and `logs()` of a damaged
 * execution throw it after the part that can be read. `cause` is the error that user code threw, with its stack and causes.
 */
export class ExecutionFailed extends Error {
  override name = "ExecutionFailed";
  /** Why the execution failed, such as `task_failed` or `wait_timeout`; `Damaged` if its data cannot be read. */
  readonly code: string;
  /** The execution as it was after it had failed. */
  readonly execution: ExecutionView;
  /** Made by Rondo. */
  constructor(execution: ExecutionView) {
    const { id, status, error } = execution;
    const why = error?.message ?? "no reason is known";
    const isDamaged = status === "damaged";
    super(
      isDamaged
        ? `execution ${id} is damaged: ${why} (${damagedHint(execution)})`
        : `execution ${id} failed: ${why}`,
      error?.cause === undefined ? undefined : { cause: restoreError(error.cause) },
    );
    this.code = execution.error?.code ?? "failed";
    this.execution = execution;
  }
}

/** Thrown by `result()`: the execution ended as cancelled. */
export class ExecutionCancelled extends Error {
  override name = "ExecutionCancelled";
  /** Why the execution was cancelled, such as `cancelled` or `deadline`. */
  readonly code: string;
  /** The execution as it was after it was cancelled. */
  readonly execution: ExecutionView;
  /** Made by Rondo. */
  constructor(execution: ExecutionView) {
    const why = execution.error === null ? "" : `: ${execution.error.message}`;
    super(`execution ${execution.id} was cancelled${why}`);
    this.code = execution.error?.code ?? "cancelled";
    this.execution = execution;
  }
}

/** The hint for a damaged execution. */
export function damagedHint({ id, damage }: ExecutionView): string {
  return damageRemedy(damage ?? { table: "executions" }, id);
}

/** The rejection for a stored row that cannot be read. */
export function damagedRow({ message }: DamagedData): Rejection & { readonly hint: string } {
  const hint =
    "rondo audit says what can be repaired; else restore it from a backup or an export, or drop it";
  return { ...reject("wrong_status", `stored data is damaged: ${message}`), hint };
}

/** Returns the output of an execution that has ended. Throws if it failed, was cancelled or is damaged. */
export function outputOf<Output>(view: ExecutionView): Output {
  if (view.status === "failed" || view.status === "damaged") throw new ExecutionFailed(view);
  if (view.status === "cancelled") throw new ExecutionCancelled(view);
  return view.output as Output;
}

/** The error for a caller whose timeout passed before the execution ended. */
export function notEndedWithin(execution: string, ms: number): RondoError {
  return new RondoError(
    reject("timeout", `execution ${execution} has not ended within ${ms} ms`, {
      hint: "the execution goes on; wait for it again",
    }),
  );
}
