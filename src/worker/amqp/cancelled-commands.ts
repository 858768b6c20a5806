/** The commands that `cancel.consumer` named, so that a copy that is delivered later does not run. The oldest are forgotten. */
import { attemptPrefix } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";

const KEPT_MAX = 10_000;

export class CancelledCommands {
  /** The last cancelled attempt of each task. */
  readonly #attempts = new Map<string, number>();

  add(at: ReportedAttempt): void {
    const key = keyOf(at);
    const attempt = Math.max(at.attempt, this.#attempts.get(key) ?? 0);
    this.#attempts.delete(key);
    this.#attempts.set(key, attempt);
    for (const oldest of this.#attempts.keys()) {
      if (this.#attempts.size <= KEPT_MAX) return;
      this.#attempts.delete(oldest);
    }
  }

  /** Whether this attempt, or a later attempt of the same task, was cancelled. */
  has(at: ReportedAttempt): boolean {
    return at.attempt <= (this.#attempts.get(keyOf(at)) ?? -1);
  }
}

/** A retry of the execution starts another round, whose commands have other keys. */
function keyOf(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}`;
}
