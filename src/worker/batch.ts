/** Converts the result of `processBatch` to an outcome for each of its tasks. */
import { isNativeError } from "node:util/types";
import type { Outcome } from "../kernel/message.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import { doneWith, threw } from "./outcome.ts";

/**
 * One outcome per task: a value is done, an Error is failed. If the list does not have one entry per task, all tasks fail for
 * good.
 */
export function batchOutcomes(given: unknown, tasks: number): Outcome[] {
  if (!Array.isArray(given) || given.length !== tasks) {
    const what = Array.isArray(given) ? `a list of ${given.length}` : `no list`;
    const message = `processBatch must give a list with one value or Error for each of its tasks: it gave ${what} for ${tasks}`;
    const outcome = threw(brandFatal(new TypeError(message)));
    return new Array<Outcome>(tasks).fill(outcome);
  }
  // Not `map`, which skips holes.
  return Array.from(given, (value: unknown) =>
    value instanceof Error || isNativeError(value) ? threw(value) : doneWith(value),
  );
}
