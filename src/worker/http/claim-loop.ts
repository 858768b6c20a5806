/**
 * Claims work for a worker at one node. While the worker has free slots, one claim for all of them is open. While it is full, a
 * claim for no work waits for cancellations; the next claim for work replaces it.
 * The answer of a claim can get lost, and that must not delay the worker or the work for long. A failed claim is repeated under
 * its id, so that the server gives out the work of a lost answer again. Claims wait only a short time until keep-alive bytes
 * have arrived from the server during one. After that they wait long, and a claim without keep-alive bytes counts as failed.
 * The first claim after a registration does not wait: its answer shows at once whether claims work.
 * After an answer with only a few attempts, fewer than were claimed, the next claim is held back for a moment. If the attempts
 * end in that time, the claim and their events go in one request. After a full answer the next claim is sent at once, because
 * there may be more work.
 */
import type { Claimed, ClaimRequest } from "../../protocol/worker-wire.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { type Random, randomHex } from "../../std/random.ts";
import type { Called, KeepAlive } from "./server-link.ts";

export interface ClaimLoopOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly post: (body: string, claim: ClaimWaits & { readonly claimId: string }) => Promise<Called<Claimed>>;
  readonly isReady: () => boolean;
  /** The longest time for which the server tolerates silence of this worker. */
  readonly heartbeatMs: () => number;
  /** The number of free slots: attempts that the worker can accept now. */
  readonly room: () => number;
  /** Whether the server accepts a claim in the same request as events. */
  readonly canClaimWithEvents: () => boolean;
  /** The failed claims of this worker at the server of this loop. */
  readonly failed: FailedClaimIds;
  readonly onClaimed: (claimed: Claimed) => void;
  readonly onBug: (thrown: unknown) => void;
}

/**
 * The ids of failed claims, which the next claims repeat. They outlive the session in which the claims failed: another session of
 * the worker at the same server repeats them too.
 */
export interface FailedClaimIds {
  add(claimId: string): void;
  /** Removes and returns an id; undefined if there is none. */
  take(): string | undefined;
}

/** A claim that is sent in the same request as events. */
export interface EventsClaim {
  readonly max: number;
  readonly claimId: string;
}

/** How long a claim waits at the server, and how often the server sends keep-alive bytes during the wait. */
export interface ClaimWaits {
  readonly waitMs: number;
  readonly keepAlive?: KeepAlive;
}

/** When the worker has been full for this time, it sends a claim that waits for cancellations only. */
const FULL_MS = 250;
/** How long a claim waits at a server that sends no keep-alive bytes. It is short, so that the next claim notices a stalled node. */
const SHORT_MS = 5_000;
const LONG_MS = 20_000;
const NO_WAIT: ClaimWaits = { waitMs: 0 };
/** If an answer has at most this many attempts, the next claim is held back, to go with their events. */
const FEW = 4;
/** How long the next claim is held back for events. */
const EVENTS_WAIT_MS = 2;
/** If an empty answer arrives sooner than this, the server did not wait. The loop then pauses before the next claim. */
const SOON_MS = 1_000;

export class ClaimLoop {
  readonly #options: ClaimLoopOptions;
  readonly #backOff: BackOff;
  /** The open claims. A claim with `max` 0 waits for cancellations only. */
  readonly #open = new Set<{ readonly max: number }>();
  readonly #idPrefix: string;
  #claims = 0;
  #isStopped = false;
  /** Whether a claim was answered since the session was registered. */
  #isProven = false;
  /** Whether keep-alive bytes arrived during a claim, and no claim has failed since. */
  #isKeptAlive = false;
  #isScheduled = false;
  #stopWaiting: (() => void) | null = null;
  /** Ends the time in which the next claim is held back for events; null if it is not held back. */
  #stopEventsWait: (() => void) | null = null;
  #onQuiet: (() => void)[] = [];

  constructor(options: ClaimLoopOptions) {
    this.#options = options;
    this.#backOff = new BackOff({ random: options.random });
    this.#idPrefix = randomHex(options.random, 2);
  }

  /** Called when the number of free slots has changed. Sends a claim for that many attempts. */
  wake(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    this.#options.clock.soon(() => {
      this.#isScheduled = false;
      this.#update();
    });
  }

  /** Stops claiming. Resolves when no claim is open. The caller must hand back the work that the last claims bring. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopWaiting?.();
    this.#endEventsWait();
    if (this.#open.size === 0) return;
    const quiet = new Promise<void>((resolve) => this.#onQuiet.push(resolve));
    // A new claim makes the server answer the waiting claim of the same worker at once.
    this.#claim(0, NO_WAIT).catch(this.#options.onBug);
    await quiet;
  }

  /** Called when events are about to be sent. Returns the claim that goes in the same request; null if there is none. */
  claimWithEvents(): EventsClaim | null {
    const max = this.#options.room();
    if (this.#stopEventsWait === null || this.#isStopped || max === 0 || this.#isClaiming) return null;
    this.#endEventsWait();
    const claim = { max, claimId: this.#nextId() };
    this.#open.add(claim);
    return claim;
  }

  /** Called when the request with events was answered, with the answer to its claim; null if the claim was not answered. */
  claimAnswered(claim: EventsClaim, claimed: Claimed | null): void {
    this.#open.delete(claim);
    // @plant lost answer of a claim with events forgotten
    if (claimed === null) this.#options.failed.add(claim.claimId);
    else this.#answered(claimed, claim.max);
    this.#checkQuiet();
    if (this.#stopEventsWait === null) this.wake();
  }

  /** Called when the session was registered again. Sends a claim at once, to see whether claims work. */
  restart(): void {
    if (this.#isStopped) return;
    this.#endEventsWait();
    this.#isProven = false;
    this.#isKeptAlive = false;
    this.#claim(this.#options.room(), NO_WAIT).catch(this.#options.onBug);
  }

  /** Called when the session has ended. No more claims are sent; open claims may still bring work. */
  end(): void {
    this.#isStopped = true;
    this.#stopWaiting?.();
    this.#endEventsWait();
  }

  /** Whether a claim for work is open. */
  get #isClaiming(): boolean {
    for (const { max } of this.#open) if (max > 0) return true;
    return false;
  }

  #update(): void {
    if (this.#isStopped || this.#stopEventsWait !== null || !this.#options.isReady()) return;
    this.#stopWaiting?.();
    this.#stopWaiting = null;
    const room = this.#options.room();
    if (this.#isClaiming) return;
    if (room > 0) this.#claim(room, this.#waits()).catch(this.#options.onBug);
    else if (this.#open.size === 0)
      this.#stopWaiting = this.#options.clock.after(FULL_MS, () => {
        this.#stopWaiting = null;
        if (!this.#isStopped && this.#open.size === 0 && this.#options.isReady())
          this.#claim(this.#options.room(), this.#waits()).catch(this.#options.onBug);
      });
  }

  /**
   * Returns how long the next claim waits at the server. The first claim after a registration does not wait; others wait at
   * most two thirds of a heartbeat time-out.
   */
  #waits(): ClaimWaits {
    if (!this.#isProven) return NO_WAIT;
    const thirdMs = Math.floor(this.#options.heartbeatMs() / 3);
    const shortMs = Math.min(SHORT_MS, thirdMs);
    // Keep-alive bytes are requested more often at first, so that even a short claim shows whether they arrive.
    if (!this.#isKeptAlive)
      return { waitMs: shortMs, keepAlive: { everyMs: Math.ceil(shortMs / 3), isTrusted: false } };
    return { waitMs: Math.min(LONG_MS, 2 * thirdMs), keepAlive: { everyMs: shortMs, isTrusted: true } };
  }

  async #claim(max: number, waits: ClaimWaits): Promise<void> {
    const { clock, post } = this.#options;
    const claim = { max };
    this.#open.add(claim);
    const from = clock.now();
    const { waitMs } = waits;
    const asked: ClaimRequest = { max, waitMs };
    const claimId = this.#nextId();
    const called = await post(JSON.stringify(asked), { ...waits, claimId });
    this.#open.delete(claim);
    // @plant failed claim repeated under another id
    if (called.kind !== "answered") this.#options.failed.add(claimId);
    this.#isProven = called.kind === "answered";
    this.#isKeptAlive = called.kind === "answered" && (this.#isKeptAlive || called.isKeptAlive === true);
    if (called.kind !== "answered") return this.#again();
    const isEmpty = this.#answered(called.value, max);
    if (isEmpty && max > 0 && clock.now() - from < Math.min(SOON_MS, waitMs / 2)) return this.#again();
    this.#checkQuiet();
    if (this.#stopEventsWait === null) this.wake();
  }

  /** Passes on the answer to a claim for `max` attempts. Returns whether the answer was empty. */
  #answered(claimed: Claimed, max: number): boolean {
    const { work, batches = [], cancel, lost } = claimed;
    const count = batches.reduce((sum, { tasks }) => sum + tasks.length, work.length);
    // The next claim is held back before the work begins, because the work may end at once.
    if (count > 0 && count <= FEW && count < max && this.#options.canClaimWithEvents()) this.#waitForEvents();
    this.#options.onClaimed(claimed);
    const isEmpty = count + cancel.length + lost.length === 0;
    if (!isEmpty) this.#backOff.reset();
    return isEmpty;
  }

  #waitForEvents(): void {
    this.#endEventsWait();
    this.#stopEventsWait = this.#options.clock.after(EVENTS_WAIT_MS, () => {
      this.#stopEventsWait = null;
      this.wake();
    });
  }

  #endEventsWait(): void {
    this.#stopEventsWait?.();
    this.#stopEventsWait = null;
  }

  #nextId(): string {
    return this.#options.failed.take() ?? `${this.#idPrefix}-${++this.#claims}`;
  }

  #checkQuiet(): void {
    if (this.#open.size === 0) for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  /** Sends the next claim after a back-off. */
  #again(): void {
    this.#checkQuiet();
    if (!this.#isStopped) this.#options.clock.after(this.#backOff.next(), () => this.wake());
  }
}
