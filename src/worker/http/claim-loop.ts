/**
 * Claims work for a worker: whenever there is room, one claim is under way, for all the room there is. While there is
 * none, after a moment, a claim for nothing waits to be told what to cancel; it is superseded as soon as there is room.
 * A claim whose answer gets lost must not delay the worker for long. So claims are short, until one has shown that signs of life
 * come all the way from the server while it waits. From then on they are long, and one without signs of life has failed.
 * The first claim after a registration does not wait at all: its answer shows at once whether claims work.
 */

import type { Claimed, ClaimRequest } from "../../protocol/worker-wire.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import type { Called, KeepAlive } from "./server-link.ts";

export interface ClaimLoopOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly post: (body: string, waits: ClaimWaits) => Promise<Called<Claimed>>;
  /** Whether the session is registered. */
  readonly isReady: () => boolean;
  /** The silence that the server allows this worker. */
  readonly heartbeatMs: () => number;
  /** How many more attempts can be taken now. */
  readonly room: () => number;
  readonly onClaimed: (claimed: Claimed) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** How long a claim waits, and whether signs of life come meanwhile. */
export interface ClaimWaits {
  readonly waitMs: number;
  readonly keepAlive?: KeepAlive;
}

/** With no room for so long, a claim waits for cancels. */
const FULL_MS = 250;
/** Claims without signs of life wait no longer than this: a node that stalls is noticed by its next claim. */
const SHORT_MS = 5_000;
/** Claims with signs of life. */
const LONG_MS = 20_000;
const NO_WAIT: ClaimWaits = { waitMs: 0 };
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
  /** Signs of life came during a claim, and no claim failed since. */
  #isKeptAlive = false;
  #isScheduled = false;
  #stopWaiting: (() => void) | null = null;
  #onQuiet: (() => void)[] = [];

  constructor(options: ClaimLoopOptions) {
    this.#options = options;
    this.#backOff = new BackOff({ random: options.random });
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
    this.#claim(0, NO_WAIT).catch(this.#options.onBug);
    await quiet;
  }

  /** The session is registered anew: claims at once, to see whether that works. */
  restart(): void {
    if (this.#isStopped) return;
    this.#isProven = false;
    this.#isKeptAlive = false;
    this.#claim(this.#options.room(), NO_WAIT).catch(this.#options.onBug);
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
    if (room > 0) this.#claim(room, this.#waits()).catch(this.#options.onBug);
    else if (this.#open.size === 0)
      this.#stopWaiting = this.#options.clock.after(FULL_MS, () => {
        this.#stopWaiting = null;
        if (!this.#isStopped && this.#open.size === 0 && this.#options.isReady())
          this.#claim(this.#options.room(), this.#waits()).catch(this.#options.onBug);
      });
  }

  /** The first claim after a registration does not wait. Two thirds of a heartbeat at most: an idle worker is heard of in time. */
  #waits(): ClaimWaits {
    if (!this.#isProven) return NO_WAIT;
    const thirdMs = Math.floor(this.#options.heartbeatMs() / 3);
    const shortMs = Math.min(SHORT_MS, thirdMs);
    // More often at first, so that a short claim shows whether they come.
    if (!this.#isKeptAlive)
      return { waitMs: shortMs, keepAlive: { everyMs: Math.ceil(shortMs / 3), isTrusted: false } };
    return { waitMs: Math.min(LONG_MS, 2 * thirdMs), keepAlive: { everyMs: shortMs, isTrusted: true } };
  }

  async #claim(max: number, waits: ClaimWaits): Promise<void> {
    const { clock, post, onClaimed } = this.#options;
    const claim = { max };
    this.#open.add(claim);
    const from = clock.now();
    const { waitMs } = waits;
    const asked: ClaimRequest = { max, waitMs };
    const called = await post(JSON.stringify(asked), waits);
    this.#open.delete(claim);
    this.#isProven = called.kind === "answered";
    this.#isKeptAlive = called.kind === "answered" && (this.#isKeptAlive || called.isKeptAlive === true);
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
