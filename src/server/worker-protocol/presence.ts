/**
 * Decides whether the engine gives work to a worker: it does while a claim waits, and for a while after the worker's last
 * request.
 */
import type { Clock } from "../../std/clock.ts";
import type { WorkerSession } from "./worker-session.ts";

/** The shortest time that a worker has to send its next claim after a claim was answered or cut off. */
const GRACE_MIN_MS = 1_000;

export class Presence {
  readonly #clock: Clock;
  readonly #heartbeatMs: number;
  #trustedUntil = 0;
  lastSeenAt = 0;
  /** Whether the engine gives work to the worker. */
  isJoined = false;

  constructor(clock: Clock, heartbeatMs: number) {
    this.#clock = clock;
    this.#heartbeatMs = heartbeatMs;
    this.seen();
  }

  /** Called at each request of the worker. */
  seen(): void {
    this.#trust(this.#heartbeatMs);
  }

  /** Called when a claim was answered or its connection was cut. */
  claimEnded(): void {
    this.#trust(Math.max(GRACE_MIN_MS, this.#heartbeatMs / 3));
  }

  /** When the worker will have been silent for too long; Infinity if the worker has left. */
  get silentAt(): number {
    return this.isJoined ? this.#trustedUntil : Number.POSITIVE_INFINITY;
  }

  #trust(ms: number): void {
    this.lastSeenAt = this.#clock.now();
    this.#trustedUntil = Math.max(this.#trustedUntil, this.lastSeenAt + ms);
  }
}

export interface SilenceWatchOptions {
  readonly clock: Clock;
  /** The server removes a worker that is silent for this time. */
  readonly expiryMs: number;
  readonly sessions: ReadonlyMap<string, WorkerSession>;
  readonly onExpired: (session: WorkerSession) => void;
  /** Called after each check for silent workers. */
  readonly onLooked: () => void;
}

const NEVER = Number.POSITIVE_INFINITY;

/** Notices silent workers, with one timer for the earliest time at which a worker can become silent. */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions;
  #stopTimer: () => void = () => {};
  #dueAt = NEVER;

  constructor(options: SilenceWatchOptions) {
    this.#options = options;
  }

  /** Watches a worker session that has begun or whose claim has ended. */
  watch({ silentAt }: WorkerSession): void {
    const { clock, expiryMs } = this.#options;
    this.#checkBy(Math.min(silentAt, clock.now() + expiryMs / 3));
  }

  stop(): void {
    this.#stopTimer();
    this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  #checkBy(due: number): void {
    if (due >= this.#dueAt) return;
    const { clock } = this.#options;
    this.#stopTimer();
    this.#dueAt = due;
    this.#stopTimer = clock.after(Math.max(0, due - clock.now()), () => this.#check());
  }

  /** Silent workers stop getting work; after a longer silence the server removes them. */
  #check(): void {
    const { clock, expiryMs, sessions, onExpired, onLooked } = this.#options;
    const now = clock.now();
    this.#dueAt = NEVER;
    for (const session of [...sessions.values()]) {
      if (session.silentAt <= now) session.leave();
      if (!session.hasOpenClaim && session.lastSeenAt <= now - expiryMs) onExpired(session);
    }
    onLooked();
    if (sessions.size === 0) return;
    let due = now + expiryMs / 3;
    for (const { silentAt } of sessions.values()) due = Math.min(due, silentAt);
    this.#checkBy(due);
  }
}
