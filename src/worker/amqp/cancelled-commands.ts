/**
 * The commands that `cancel.consumer` named last, so that a copy that is delivered later is not run. Bounded: of very many
 * the oldest are forgotten.
 */
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

  /** Whether this attempt is cancelled, or an earlier one of the same task that is still in the topic. */
  has(at: ReportedAttempt): boolean {
    return at.attempt <= (this.#attempts.get(keyOf(at)) ?? -1);
  }
}

/** A retry of the execution opens another round: its commands have other keys. */
function keyOf(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}`;
}
