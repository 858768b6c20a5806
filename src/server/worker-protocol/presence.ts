/**
 * Whether the engine counts on a worker. It does while a claim waits, for one heartbeat after each request, and for a moment
 * after a claim was answered or cut off, in which the next one comes. After that the worker is silent.
 */
import type { Clock } from "../../std/clock.ts";

/** A worker whose claim was answered or cut off has at least this long to claim again. */
const GRACE_MIN_MS = 1_000;

export class Presence {
  readonly #clock: Clock;
  readonly #heartbeatMs: number;
  #trustedUntil = 0;
  lastSeenAt = 0;
  /** The engine counts on it. */
  isJoined = false;

  constructor(clock: Clock, heartbeatMs: number) {
    this.#clock = clock;
    this.#heartbeatMs = heartbeatMs;
    this.seen();
  }

  /** A request of the worker came. */
  seen(): void {
    this.#trust(this.#heartbeatMs);
  }

  /** A claim of the worker was answered, or its connection was cut. */
  claimEnded(): void {
    this.#trust(Math.max(GRACE_MIN_MS, this.#heartbeatMs / 3));
  }

  /** When the worker will have been silent for too long; Infinity: it has left already. */
  get silentAt(): number {
    return this.isJoined ? this.#trustedUntil : Number.POSITIVE_INFINITY;
  }

  #trust(ms: number): void {
    this.lastSeenAt = this.#clock.now();
    this.#trustedUntil = Math.max(this.#trustedUntil, this.lastSeenAt + ms);
  }
}
