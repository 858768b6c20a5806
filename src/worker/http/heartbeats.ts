/**
 * Keeps attempts alive at one node while a worker has some: a beat every third of the shortest silence that one can
 * bear. An attempt whose node is not known is shown to every node; the one that has it is known by its answer.
 */
import type { HeartbeatAnswer, HeartbeatRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { Called } from "./server-link.ts";

export interface HeartbeatsOptions {
  readonly clock: Clock;
  readonly held: HeldAttempts;
  /** The node's name, by which attempts name their homes. */
  readonly node: string;
  readonly post: (body: string) => Promise<Called<HeartbeatAnswer>>;
  /** Attempts that are to be stopped. */
  readonly onWord: (ids: readonly string[], why: "cancel" | "lost") => void;
  /** This node has an attempt that was looked for, or does not have one that was here. */
  readonly onHome: (attempt: HeldAttempt, isHere: boolean) => void;
  readonly onBug: (thrown: unknown) => void;
}

export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #stopTimer: (() => void) | null = null;
  #dueAt = Number.POSITIVE_INFINITY;
  #isBeating = false;
  #isAgain = false;
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
    this.#isAgain = this.#isBeating;
    if (this.#isBeating || this.#isStopped) return;
    this.#isBeating = true;
    this.#send()
      .catch(this.#options.onBug)
      .finally(() => {
        this.#isBeating = false;
        if (this.#isAgain) this.beat();
        else this.look();
      });
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopTimer?.();
  }

  async #send(): Promise<void> {
    const { held, node, post, onWord, onHome } = this.#options;
    const tokens: Record<string, string> = {};
    for (const { id, token } of held.startedAt(node)) tokens[id] = token;
    if (Object.keys(tokens).length === 0) return;
    const beat: HeartbeatRequest = { tokens };
    const called = await post(JSON.stringify(beat));
    // Whatever is refused as a whole says nothing about any of them.
    const words = called.kind === "answered" ? called.value : {};
    for (const [id, word] of Object.entries(words)) {
      const attempt = held.get(id);
      if (attempt !== undefined) onHome(attempt, word !== "not_owner");
    }
    for (const why of ["cancel", "lost"] as const) {
      const ids = Object.keys(words).filter((id) => words[id] === why && held.get(id)?.hasEnded === false);
      if (ids.length > 0) onWord(ids, why);
    }
  }
}
