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
  /** The node that takes what is said about it, by its session's name; null: it is being looked for. */
  home: string | null;
  /** Its events on their way to a node. */
  queued: number;
  /** Events that a former process left of it and that are not acknowledged; 0: it is this process's own. */
  left: number;
  /** The number of its newest event. */
  n: number;
  hasStarted: boolean;
  /** Its receipt is on the way. */
  hasEnded: boolean;
}

export class HeldAttempts {
  readonly #attempts = new Map<string, HeldAttempt>();
  readonly #byExecution = new Map<string, Set<HeldAttempt>>();
  readonly #homeless = new Set<HeldAttempt>();
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
    if (attempt.home === null) this.#homeless.add(attempt);
    if (!attempt.hasEnded) this.#open++;
  }

  /** Another node takes what is said about it; null: nobody is known to. */
  move(attempt: HeldAttempt, home: string | null): void {
    attempt.home = home;
    if (home === null && this.#attempts.has(attempt.id)) this.#homeless.add(attempt);
    else this.#homeless.delete(attempt);
  }

  /** Those that no node is known to take. */
  get homeless(): ReadonlySet<HeldAttempt> {
    return this.#homeless;
  }

  /** Those whose words a node took, and of which none is on its way there. */
  *quietAt(home: string): Generator<HeldAttempt> {
    for (const attempt of this.#attempts.values())
      if (attempt.home === home && attempt.queued === 0) yield attempt;
  }

  /** Whether one of them is at a node, or may be. */
  mayBeAt(home: string): boolean {
    if (this.#homeless.size > 0) return true;
    for (const attempt of this.#attempts.values()) if (attempt.home === home) return true;
    return false;
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
    this.#homeless.delete(attempt);
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

  /**
   * Those that have begun and that a node has, or may have: each must be kept alive until its receipt is acknowledged.
   * What a former process left is shown only while its node is looked for.
   */
  *startedAt(home: string): Generator<HeldAttempt> {
    for (const attempt of this.#attempts.values()) {
      if (!attempt.hasStarted || (attempt.left > 0 && attempt.home !== null)) continue;
      if (attempt.home === home || attempt.home === null) yield attempt;
    }
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
