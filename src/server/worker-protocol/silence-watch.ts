/** Notices when registered workers fall silent: at the time when that is due, and not by looking at all of them all the time. */
import type { Clock } from "../../std/clock.ts";
import type { WorkerSession } from "./worker-session.ts";

export interface SilenceWatchOptions {
  readonly clock: Clock;
  /** Silence after which a worker is forgotten. */
  readonly expiryMs: number;
  readonly sessions: ReadonlyMap<string, WorkerSession>;
  readonly onExpired: (session: WorkerSession) => void;
  /** Called after each look. */
  readonly onLooked: () => void;
}

const NEVER = Number.POSITIVE_INFINITY;

export class SilenceWatch {
  readonly #options: SilenceWatchOptions;
  #stopTimer: () => void = () => {};
  #dueAt = NEVER;

  constructor(options: SilenceWatchOptions) {
    this.#options = options;
  }

  /** A session has begun, or its claim has ended: from now on its silence counts. */
  watch({ silentAt }: WorkerSession): void {
    const { clock, expiryMs } = this.#options;
    this.#lookBy(Math.min(silentAt, clock.now() + expiryMs / 3));
  }

  stop(): void {
    this.#stopTimer();
    this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  #lookBy(due: number): void {
    if (due >= this.#dueAt) return;
    const { clock } = this.#options;
    this.#stopTimer();
    this.#dueAt = due;
    this.#stopTimer = clock.after(Math.max(0, due - clock.now()), () => this.#look());
  }

  /** Workers that are silent leave; after a longer silence they are forgotten. */
  #look(): void {
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
    this.#lookBy(due);
  }
}
