/** Errors of steps, waits and children inside a task. User code can catch them; uncaught, each fails its task for good. */
import { FATAL } from "./error-brands.ts";
import { restoreError, storedCause } from "./error-cause.ts";

/** Thrown by a step that has failed for good: its tries are used up, or its error is fatal. `cause` is the error of its last try. */
export class StepFailed extends Error {
  override name = "StepFailed";
  /** The code of this error. */
  readonly code = "step_failed";
  /** The name of the step. */
  readonly step: string;
  /** Marks the error for workers: the outcome is journaled, so another attempt would get the same error. */
  readonly [FATAL] = true;
  /** Made by Rondo. */
  constructor(step: string, cause: unknown) {
    super(`step "${step}" failed: ${messageOf(cause)}`, { cause });
    this.step = step;
  }
}

/** Thrown by `waitFor` if no signal came in time. */
export class WaitTimeout extends Error {
  override name = "WaitTimeout";
  /** The code of this error. */
  readonly code = "wait_timeout";
  /** Marks the error for workers: the time-out is journaled and will not change. */
  readonly [FATAL] = true;
}

/** Thrown by `run` if the child failed or was cancelled. `cause` is the error of the child. */
export class ChildFailed extends Error {
  override name = "ChildFailed";
  /** The code of this error. */
  readonly code = "child_failed";
  /** The id of the child. */
  readonly child: string;
  /** Marks the error for workers: the end of the child is journaled, so another attempt would get the same error. */
  readonly [FATAL] = true;
  /** Made by Rondo. */
  constructor(stored: unknown) {
    const { child, cause } = (stored ?? {}) as { readonly child?: unknown; readonly cause?: unknown };
    const known = storedCause(cause);
    super(messageOf(stored), known === undefined ? {} : { cause: restoreError(known) });
    this.child = typeof child === "string" ? child : "";
  }
}

/**
 * Thrown by `map` with a handler if more items failed than the handler tolerates, or if the map was cancelled. `cause` is the error
 * because of which it failed.
 */
export class MapFailed extends ChildFailed {
  override name = "MapFailed";
  /** The name of the map. */
  readonly map: string;
  /** The items that failed: their index, the item and its error. */
  readonly failures: () => AsyncIterable<FailedItem>;
  /** Made by Rondo. */
  constructor(stored: unknown, map: string, failures: () => AsyncIterable<FailedItem>) {
    super(stored);
    this.map = map;
    this.failures = failures;
  }
}

/** An item of a map that failed. */
export interface FailedItem {
  /** The index of the item. */
  readonly task: number;
  /** The item, as stored. */
  readonly data: unknown;
  /** The error of the last attempt at the item, as stored. */
  readonly error: { readonly name: string; readonly message: string; readonly code?: string };
}

/** Restores an error from its stored form. */
export function readError(text: string): Error {
  return restoreError(storedCause(JSON.parse(text)) ?? { name: "Error", message: text });
}

function messageOf(thrown: unknown): string {
  return storedCause(thrown)?.message ?? String(thrown);
}
