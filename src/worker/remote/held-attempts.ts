/** The attempts that a remote worker has: from the claim that brought them until their receipts are acknowledged. */
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, ReportedAttempt } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";

export interface HeldAttempt {
  readonly id: string;
  readonly token: string;
  readonly at: ReportedAttempt;
  readonly heartbeatMs: number;
  readonly since: number;
  /** Numbers under which what earlier attempts journaled is kept here. */
  readonly kept: readonly number[];
  /** The number of its newest event. */
  n: number;
  hasStarted: boolean;
  /** Its receipt is on the way. */
  hasEnded: boolean;
}

export class HeldAttempts {
  readonly #attempts = new Map<string, HeldAttempt>();
  readonly #byExecution = new Map<string, Set<HeldAttempt>>();
  #open = 0;

  /** Attempts that have not ended: those that take up capacity. */
  get open(): number {
    return this.#open;
  }

  /** All of them, those with receipts on the way included. */
  get size(): number {
    return this.#attempts.size;
  }

  get(id: string): HeldAttempt | undefined {
    return this.#attempts.get(id);
  }

  add(attempt: HeldAttempt): void {
    this.#attempts.set(attempt.id, attempt);
    const { execution } = attempt.at;
    const others = this.#byExecution.get(execution);
    if (others === undefined) this.#byExecution.set(execution, new Set([attempt]));
    else others.add(attempt);
    this.#open++;
  }

  /** Its receipt is on the way: it takes up no capacity any more. */
  end(attempt: HeldAttempt): void {
    if (attempt.hasEnded) return;
    attempt.hasEnded = true;
    this.#open--;
  }

  /** Its receipt is acknowledged. */
  forget(attempt: HeldAttempt): void {
    this.end(attempt);
    if (!this.#attempts.delete(attempt.id)) return;
    const { execution } = attempt.at;
    const others = this.#byExecution.get(execution);
    others?.delete(attempt);
    if (others?.size === 0) this.#byExecution.delete(execution);
  }

  /** One that is open, of an execution: its token opens what can be read of that. */
  openOf(execution: string): HeldAttempt | undefined {
    for (const attempt of this.#byExecution.get(execution) ?? []) if (!attempt.hasEnded) return attempt;
    return undefined;
  }

  /** Those that have begun: each must be kept alive until its receipt is acknowledged. */
  *started(): Generator<HeldAttempt> {
    for (const attempt of this.#attempts.values()) if (attempt.hasStarted) yield attempt;
  }

  /** The shortest silence that one of them can bear. */
  shortestHeartbeatMs(): number {
    let shortest = Number.POSITIVE_INFINITY;
    for (const { heartbeatMs } of this.#attempts.values()) shortest = Math.min(shortest, heartbeatMs);
    return shortest;
  }
}

/** Beats that name these attempts, as a worker is told what to stop. */
export function beatsOf(ids: readonly string[]): Beat[] {
  return ids.map((id) => {
    const at = decodeAttempt(id);
    assert(at !== null, "an attempt that is held has a readable id");
    const { task, attempt, claim, ...place } = at;
    return { ...place, attempts: [{ task, attempt, claim }] };
  });
}
