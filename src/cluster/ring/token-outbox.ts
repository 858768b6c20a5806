/**
 * The entries that a node sends round the ring. They wait for the token and then travel in one message, until all their addressees have
 * taken them. Entries about the same subject are merged; if there are too many timers, a flag asks the other nodes to scan the store
 * instead.
 */
import { type StoredTimer, timerKey } from "../../store/store.ts";
import type { RingSettings } from "./settings.ts";
import type { Death, TokenMessage } from "./token.ts";

/** The last change of a timer; `due` is null if the timer has fired or was cleared. */
interface TimerChange {
  readonly execution: string;
  readonly timer: string;
  readonly due: number | null;
}

export class TokenOutbox {
  readonly #settings: RingSettings;
  readonly #hints = new Map<number, number>();
  readonly #timers = new Map<string, TimerChange>();
  readonly #deaths = new Map<string, Death>();
  /** Timers that were sent to the nodes that watch them. Only for these is it necessary to send their end. */
  readonly #told = new Set<string>();
  #scan = false;
  #aboard: TokenMessage | null = null;
  #number = 0;
  /** Whether some entry has not gone round the ring yet. */
  isUrgent = false;

  constructor(settings: RingSettings) {
    this.#settings = settings;
  }

  get hints(): number {
    return this.#hints.size;
  }

  get timers(): number {
    return this.#timers.size;
  }

  hint(partition: number, count: number): void {
    this.#hints.set(partition, (this.#hints.get(partition) ?? 0) + count);
    this.isUrgent = true;
  }

  timerSet({ execution, timer, due }: StoredTimer): void {
    this.#add({ execution, timer, due });
  }

  timerEnded({ execution, timer }: StoredTimer): void {
    const key = timerKey({ execution, timer });
    // A timer that was both set and ended since the token was last here is not sent.
    if (this.#timers.has(key) && !this.#told.has(key)) this.#timers.delete(key);
    else this.#add({ execution, timer, due: null });
  }

  death(death: Death): void {
    this.#deaths.set(death.url, death);
    this.isUrgent = true;
  }

  /** Removes and returns the hints for partitions that this node owns in the meantime. */
  takeHints(isOwn: (partition: number) => boolean): number[] {
    const own = [...this.#hints.keys()].filter(isOwn);
    for (const partition of own) this.#hints.delete(partition);
    return own;
  }

  /** Returns the message for the token that is about to leave; null if there is nothing to send. */
  pack(sender: { from: string; incarnation: string; watchers: readonly string[] }): TokenMessage | null {
    // If no node watches this node's timers, they need not be sent, because a node that begins to watch scans the store first.
    if (sender.watchers.length === 0) this.#forgetTimers();
    const isEmpty = this.#hints.size + this.#timers.size + this.#deaths.size === 0 && !this.#scan;
    const words = [...this.#timers.values()];
    for (const [key, { due }] of this.#timers) {
      if (due === null) this.#told.delete(key);
      else this.#told.add(key);
    }
    if (this.#told.size > this.#settings.timersMax) {
      this.#told.clear();
      this.#scan = true;
    }
    const message: TokenMessage = {
      ...sender,
      number: ++this.#number,
      urgent: this.isUrgent,
      hops: 0,
      hints: Array.from(this.#hints, ([partition, count]) => ({ partition, count })),
      timers: words.flatMap((change) => (change.due === null ? [] : [{ ...change, due: change.due }])),
      ended: words.flatMap(({ execution, timer, due }) => (due === null ? [{ execution, timer }] : [])),
      scan: this.#scan,
      watchers: words.length > 0 || this.#scan ? sender.watchers : [],
      deaths: [...this.#deaths.values()],
    };
    this.#hints.clear();
    this.#deaths.clear();
    this.#forgetTimers();
    this.isUrgent = false;
    this.#aboard = isEmpty ? null : message;
    return this.#aboard;
  }

  /**
   * Called when the token has returned, with or without this node's message. Entries that no node has taken are kept for the next
   * message.
   */
  home(message: TokenMessage | null, watchers: readonly string[]): void {
    const sent = this.#aboard;
    if (sent === null) return;
    this.#aboard = null;
    const isMine = message?.number === sent.number && message.incarnation === sent.incarnation;
    const back = isMine ? message : sent;
    if (!isMine) this.isUrgent = true;
    for (const { partition, count } of back.hints)
      this.#hints.set(partition, (this.#hints.get(partition) ?? 0) + count);
    // Reports of dead members are not kept, because each is sent only once.
    if (!back.watchers.some((url) => watchers.includes(url))) return;
    this.#scan ||= back.scan;
    for (const timer of back.timers) this.#addAgain(timer);
    for (const name of back.ended) this.#addAgain({ ...name, due: null });
  }

  /** Called when the message was not sent: all its entries go into the next message. */
  takeBack(watchers: readonly string[]): void {
    for (const death of this.#aboard?.deaths ?? []) this.#deaths.set(death.url, death);
    this.home(null, watchers);
  }

  #add(change: TimerChange): void {
    this.isUrgent = true;
    // A scan of the store finds all timers, so their changes need not be sent.
    if (this.#scan) return;
    this.#timers.set(timerKey(change), change);
    if (this.#timers.size <= this.#settings.messageTimersMax) return;
    this.#timers.clear();
    this.#told.clear();
    this.#scan = true;
  }

  /** Keeps the entry of a timer for the next message, unless there is a newer entry. */
  #addAgain(change: TimerChange): void {
    if (this.#timers.has(timerKey(change))) return;
    const wasUrgent = this.isUrgent;
    this.#add(change);
    this.isUrgent = wasUrgent;
  }

  #forgetTimers(): void {
    this.#timers.clear();
    this.#scan = false;
  }
}
