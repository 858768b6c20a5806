/** The attempts that a remote worker holds, from the claim that brought them until their receipts are acknowledged. */

import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, ReportedAttempt } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { RunStatuses } from "../run-statuses.ts";

export interface HeldAttempt {
  readonly id: string;
  readonly token: string;
  readonly at: ReportedAttempt;
  readonly heartbeatMs: number;
  readonly since: number;
  /** The numbers under which `RemoteResults` keeps the checkpoints of earlier attempts. */
  readonly kept: readonly number[];
  /** The session name of the node that owns the attempt; null while that node is searched for. */
  home: string | null;
  /** The number of the attempt's events that are being sent to a node. */
  queued: number;
  /** The number of unacknowledged events that an earlier process left in its spool; 0 if the attempt belongs to this process. */
  left: number;
  n: number;
  hasStarted: boolean;
  hasEnded: boolean;
  /** The runs of a script that have begun; null if there are none. */
  runs: RunStatuses | null;
}

export class HeldAttempts {
  readonly #attempts = new TransientMap<string, HeldAttempt>();
  readonly #byExecution = new TransientMap<string, Set<HeldAttempt>>();
  readonly #homeless = new Set<HeldAttempt>();
  #open = 0;

  /** The number of attempts without a receipt, which use capacity. */
  get open(): number {
    return this.#open;
  }

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

  /** Assigns the attempt to another node. `home` is null if that node is not known. */
  move(attempt: HeldAttempt, home: string | null): void {
    attempt.home = home;
    if (home === null && this.#attempts.has(attempt.id)) this.#homeless.add(attempt);
    else this.#homeless.delete(attempt);
  }

  get homeless(): ReadonlySet<HeldAttempt> {
    return this.#homeless;
  }

  /** Yields the attempts of a node that have no events in its event queue. */
  *quietAt(home: string): Generator<HeldAttempt> {
    for (const attempt of this.#attempts.values())
      if (attempt.home === home && attempt.queued === 0) yield attempt;
  }

  /** Whether this node owns a held attempt, or may own one because the attempt's node is not known. */
  mayBeAt(home: string): boolean {
    if (this.#homeless.size > 0) return true;
    for (const attempt of this.#attempts.values()) if (attempt.home === home) return true;
    return false;
  }

  /** Called when the attempt has ended and its receipt is being sent. From then on it uses no capacity of the worker. */
  end(attempt: HeldAttempt): void {
    if (attempt.hasEnded) return;
    attempt.hasEnded = true;
    this.#open--;
  }

  forget(attempt: HeldAttempt): void {
    this.end(attempt);
    this.#homeless.delete(attempt);
    if (!this.#attempts.delete(attempt.id)) return;
    const { execution } = attempt.at;
    const others = this.#byExecution.get(execution);
    others?.delete(attempt);
    if (others?.size === 0) this.#byExecution.delete(execution);
  }

  /** Finds an open attempt of an execution. The token of the attempt allows reads of that execution. */
  openOf(execution: string): HeldAttempt | undefined {
    for (const attempt of this.#byExecution.get(execution) ?? []) if (!attempt.hasEnded) return attempt;
    return undefined;
  }

  /** Yields the started attempts that this node owns or may own. Each needs heartbeats until its receipt is acknowledged. */
  *startedAt(home: string): Generator<HeldAttempt> {
    for (const attempt of this.#attempts.values()) {
      if (!attempt.hasStarted || (attempt.left > 0 && attempt.home !== null)) continue;
      if (attempt.home === home || attempt.home === null) yield attempt;
    }
  }

  /** Returns the shortest heartbeat time-out among the held attempts. */
  shortestHeartbeatMs(): number {
    let shortest = Number.POSITIVE_INFINITY;
    for (const { heartbeatMs } of this.#attempts.values()) shortest = Math.min(shortest, heartbeatMs);
    return shortest;
  }
}

/** Converts attempt ids to the form that `Worker.cancel` takes. */
export function beatsOf(ids: readonly string[]): Beat[] {
  return ids.map((id) => {
    const at = decodeAttempt(id);
    assert(at !== null, "the id of a held attempt must be decodable");
    const { task, attempt, claim, ...place } = at;
    return { ...place, attempts: [{ task, attempt, claim }] };
  });
}
