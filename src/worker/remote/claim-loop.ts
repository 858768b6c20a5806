/**
 * Claims work for a worker: whenever there is room, one claim is under way, for all the room there is. While there is
 * none, after a moment, a claim for nothing waits to be told what to cancel; it is superseded as soon as there is room.
 * Claims are short, so that one whose answer gets lost delays the worker by less than a heartbeat. The first claim after a
 * registration does not wait at all: its answer shows at once whether claims work.
 */
import type { Claimed, ClaimRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { BackOff } from "./back-off.ts";
import type { Called } from "./server-link.ts";

export interface ClaimLoopOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly post: (body: string, waitMs: number) => Promise<Called<Claimed>>;
  /** Whether the session is registered. */
  readonly isReady: () => boolean;
  /** The silence that the server allows this worker. */
  readonly heartbeatMs: () => number;
  /** How many more attempts can be taken now. */
  readonly room: () => number;
  readonly onClaimed: (claimed: Claimed) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** With no room for so long, a claim waits for cancels. */
const FULL_MS = 250;
/** Claims wait no longer than this: a node that stalls is noticed by its next claim. */
const WAIT_MS = 5_000;
/** An empty answer that comes sooner than this did not wait: something is odd, and the next claim waits instead. */
const SOON_MS = 1_000;

export class ClaimLoop {
  readonly #options: ClaimLoopOptions;
  readonly #backOff: BackOff;
  /** Claims under way; `max` 0 is one that waits for cancels only. */
  readonly #open = new Set<{ readonly max: number }>();
  #isStopped = false;
  /** A claim was answered since the session was registered. */
  #isProven = false;
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

  /** The session is registered anew: claims at once, to see whether that works. */
  restart(): void {
    if (this.#isStopped) return;
    this.#isProven = false;
    this.#claim(this.#options.room(), 0).catch(this.#options.onBug);
  }

  /** The session is over: what claims under way still bring is taken, and none follows. */
  end(): void {
    this.#isStopped = true;
    this.#stopWaiting?.();
  }

  #look(): void {
    if (this.#isStopped || !this.#options.isReady()) return;
    this.#stopWaiting?.();
    this.#stopWaiting = null;
    const room = this.#options.room();
    if ([...this.#open].some(({ max }) => max > 0)) return;
    if (room > 0) this.#claim(room, this.#waitMs()).catch(this.#options.onBug);
    else if (this.#open.size === 0)
      this.#stopWaiting = this.#options.clock.after(FULL_MS, () => {
        this.#stopWaiting = null;
        if (!this.#isStopped && this.#open.size === 0 && this.#options.isReady())
          this.#claim(this.#options.room(), this.#waitMs()).catch(this.#options.onBug);
      });
  }

  /** The first claim after a registration does not wait. A third of a heartbeat at most: an idle worker is heard of in time. */
  #waitMs(): number {
    return this.#isProven ? Math.min(WAIT_MS, Math.floor(this.#options.heartbeatMs() / 3)) : 0;
  }

  async #claim(max: number, waitMs: number): Promise<void> {
    const { clock, post, onClaimed } = this.#options;
    const claim = { max };
    this.#open.add(claim);
    const from = clock.now();
    const asked: ClaimRequest = { max, waitMs };
    const called = await post(JSON.stringify(asked), waitMs);
    this.#open.delete(claim);
    this.#isProven = called.kind === "answered";
    if (called.kind === "answered") {
      onClaimed(called.value);
      const { work, cancel, lost } = called.value;
      const isEmpty = work.length + cancel.length + lost.length === 0;
      if (!isEmpty) this.#backOff.reset();
      else if (max > 0 && clock.now() - from < Math.min(SOON_MS, waitMs / 2)) return this.#again();
    } else return this.#again();
    if (this.#open.size === 0) for (const resolve of this.#onQuiet.splice(0)) resolve();
    this.wake();
  }

  /** Claims again after a while. */
  #again(): void {
    if (this.#open.size === 0) for (const resolve of this.#onQuiet.splice(0)) resolve();
    if (!this.#isStopped) this.#options.clock.after(this.#backOff.next(), () => this.wake());
  }
}
