/**
 * Sends heartbeats to one node, at a third of the shortest heartbeat time-out. If the node of an attempt is not known, its
 * heartbeat goes to every node.
 */
import type { HeartbeatAnswer, HeartbeatRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { Called } from "./server-link.ts";

export interface HeartbeatsOptions {
  readonly clock: Clock;
  readonly held: HeldAttempts;
  readonly node: string;
  readonly post: (body: string) => Promise<Called<HeartbeatAnswer>>;
  readonly onStop: (ids: readonly string[], why: "cancel" | "lost") => void;
  /** Called when the answer shows which node owns an attempt: `isHere` says whether it is this node. */
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

  /** Called when attempts were added, which may have a shorter time-out. Moves the next heartbeat forward if necessary. */
  reschedule(): void {
    const { clock, held } = this.#options;
    if (this.#isStopped || this.#isBeating || held.size === 0) return;
    const at = clock.now() + held.shortestHeartbeatMs() / 3;
    if (at >= this.#dueAt) return;
    this.#stopTimer?.();
    this.#dueAt = at;
    this.#stopTimer = clock.after(at - clock.now(), () => this.beat());
  }

  /** Sends a heartbeat now and schedules the next one. */
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
        else this.reschedule();
      });
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopTimer?.();
  }

  async #send(): Promise<void> {
    const { held, node, post, onStop, onHome } = this.#options;
    const tokens: Record<string, string> = {};
    for (const { id, token } of held.startedAt(node)) tokens[id] = token;
    if (Object.keys(tokens).length === 0) return;
    const beat: HeartbeatRequest = { tokens };
    const called = await post(JSON.stringify(beat));
    // If the whole request was refused, nothing is known about single attempts.
    const answers = called.kind === "answered" ? called.value : {};
    for (const [id, answer] of Object.entries(answers)) {
      const attempt = held.get(id);
      if (attempt !== undefined) onHome(attempt, answer !== "not_owner");
    }
    for (const why of ["cancel", "lost"] as const) {
      const ids = Object.keys(answers).filter(
        (id) => answers[id] === why && held.get(id)?.hasEnded === false,
      );
      if (ids.length > 0) onStop(ids, why);
    }
  }
}
