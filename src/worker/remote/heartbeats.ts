/** Keeps attempts alive while a worker has some: a beat every third of the shortest silence that one can bear. */
import type { HeartbeatAnswer, HeartbeatRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { HeldAttempts } from "./held-attempts.ts";
import type { Called } from "./server-link.ts";

export interface HeartbeatsOptions {
  readonly clock: Clock;
  readonly held: HeldAttempts;
  readonly post: (body: string) => Promise<Called>;
  /** Attempts that are to be stopped. */
  readonly onWord: (ids: readonly string[], why: "cancel" | "lost") => void;
  readonly onBug: (thrown: unknown) => void;
}

export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #stopTimer: (() => void) | null = null;
  #dueAt = Number.POSITIVE_INFINITY;
  #isBeating = false;
  #isStopped = false;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  /** There are attempts, perhaps with shorter silences than before. */
  look(): void {
    const { clock, held } = this.#options;
    if (this.#isStopped || this.#isBeating || held.size === 0) return;
    const at = clock.now() + held.shortestHeartbeatMs() / 3;
    if (at >= this.#dueAt) return;
    this.#stopTimer?.();
    this.#dueAt = at;
    this.#stopTimer = clock.after(at - clock.now(), () => this.beat());
  }

  /** Beats now, and again in time. */
  beat(): void {
    this.#stopTimer?.();
    this.#stopTimer = null;
    this.#dueAt = Number.POSITIVE_INFINITY;
    if (this.#isBeating || this.#isStopped) return;
    this.#isBeating = true;
    this.#send()
      .catch(this.#options.onBug)
      .finally(() => {
        this.#isBeating = false;
        this.look();
      });
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopTimer?.();
  }

  async #send(): Promise<void> {
    const { held, post, onWord } = this.#options;
    const tokens: Record<string, string> = {};
    for (const { id, token } of held.started()) tokens[id] = token;
    if (Object.keys(tokens).length === 0) return;
    const beat: HeartbeatRequest = { tokens };
    const called = await post(JSON.stringify(beat));
    // Whatever is refused as a whole says nothing about any of them.
    const words = called.kind === "answered" ? (called.value as HeartbeatAnswer) : {};
    for (const why of ["cancel", "lost"] as const) {
      const ids = Object.keys(words).filter((id) => words[id] === why && held.get(id)?.hasEnded === false);
      if (ids.length > 0) onWord(ids, why);
    }
  }
}
