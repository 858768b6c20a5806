/**
 * Claims work for a worker: whenever there is room, one claim is under way, for all the room there is. While there is
 * none, after a moment, a claim for nothing waits to be told what to cancel; it is superseded as soon as there is room.
 */
import { type Claimed, type ClaimRequest, WAIT_MS_MAX } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "./back-off.ts";
import type { Called } from "./server-link.ts";

export interface ClaimLoopOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly post: (body: string, options: { timeoutMs: number }) => Promise<Called>;
  /** How many more attempts can be taken now. */
  readonly room: () => number;
  readonly onClaimed: (claimed: Claimed) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** With no room for so long, a claim waits for cancels. */
const FULL_MS = 250;
const ANSWER_MS = 15_000;
/** An empty answer that comes sooner than this did not wait: something is odd, and the next claim waits instead. */
const SOON_MS = 1_000;

export class ClaimLoop {
  readonly #options: ClaimLoopOptions;
  readonly #backOff: BackOff;
  /** Claims under way; `max` 0 is one that waits for cancels only. */
  readonly #open = new Set<{ readonly max: number }>();
  #isStopped = false;
  #isScheduled = false;
  #stopWaiting: (() => void) | null = null;
  #onQuiet: (() => void)[] = [];

  constructor(options: ClaimLoopOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options.random);
  }

  /** There may be room, or none any more: claims accordingly. */
  wake(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    this.#options.clock.soon(() => {
      this.#isScheduled = false;
      this.#look();
    });
  }

  /** Claims no more; resolves when no claim is under way. What those still bring must be given back. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopWaiting?.();
    if (this.#open.size === 0) return;
    const quiet = new Promise<void>((resolve) => this.#onQuiet.push(resolve));
    // A claim for nothing makes the one that waits answer at once.
    this.#claim(0, 0).catch(this.#options.onBug);
    await quiet;
  }

  #look(): void {
    if (this.#isStopped) return;
    this.#stopWaiting?.();
    this.#stopWaiting = null;
    const room = this.#options.room();
    if ([...this.#open].some(({ max }) => max > 0)) return;
    if (room > 0) this.#claim(room, WAIT_MS_MAX).catch(this.#options.onBug);
    else if (this.#open.size === 0)
      this.#stopWaiting = this.#options.clock.after(FULL_MS, () => {
        this.#stopWaiting = null;
        if (!this.#isStopped && this.#open.size === 0)
          this.#claim(this.#options.room(), WAIT_MS_MAX).catch(this.#options.onBug);
      });
  }

  async #claim(max: number, waitMs: number): Promise<void> {
    const { clock, post, onClaimed } = this.#options;
    const claim = { max };
    this.#open.add(claim);
    const from = clock.now();
    const asked: ClaimRequest = { max, waitMs };
    const called = await post(JSON.stringify(asked), { timeoutMs: waitMs + ANSWER_MS });
    this.#open.delete(claim);
    if (called.kind === "refused") throw new Error(`the server refuses a claim: ${called.message}`);
    if (called.kind === "answered") {
      const claimed = called.value as Claimed;
      const isEmpty = claimed.work.length + claimed.cancel.length + claimed.lost.length === 0;
      onClaimed(claimed);
      if (!isEmpty) this.#backOff.reset();
      else if (max > 0 && !this.#isStopped && clock.now() - from < SOON_MS) {
        clock.after(this.#backOff.next(), () => this.wake());
        return;
      }
    }
    if (this.#open.size === 0) for (const resolve of this.#onQuiet.splice(0)) resolve();
    if (called.kind === "answered") this.wake();
  }
}
