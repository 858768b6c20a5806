/**
 * What a node has to tell the ring: hints of letters, timers set and ended, members that did not answer. It waits here
 * until the token comes, goes round in one message, and is forgotten when that has come home and everyone it was for has
 * taken it out. Things about the same partition, timer or member merge, so the outbox is bounded; too many timers
 * become a flag to scan.
 */
import type { StoredTimer } from "../../store/store.ts";
import type { RingSettings } from "./settings.ts";
import type { Death, TokenMessage } from "./token.ts";

/** The last word on a timer; `due` is null when it has fired or was cleared. */
interface TimerWord {
  readonly execution: string;
  readonly timer: string;
  readonly due: number | null;
}

export class TokenOutbox {
  readonly #settings: RingSettings;
  readonly #hints = new Map<number, number>();
  readonly #timers = new Map<string, TimerWord>();
  readonly #deaths = new Map<string, Death>();
  /** Timers that watchers were told of: only their end is worth telling. */
  readonly #told = new Set<string>();
  #scan = false;
  #aboard: TokenMessage | null = null;
  #number = 0;
  /** Something here has not been round yet. */
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
    this.#say({ execution, timer, due });
  }

  timerEnded({ execution, timer }: StoredTimer): void {
    const key = `${execution}/${timer}`;
    // What was set and ended between two visits of the token is nobody else's business.
    if (this.#timers.has(key) && !this.#told.has(key)) this.#timers.delete(key);
    else this.#say({ execution, timer, due: null });
  }

  death(death: Death): void {
    this.#deaths.set(death.url, death);
    this.isUrgent = true;
  }

  /** Takes out the hints of partitions that are this node's own by now. */
  takeHints(isOwn: (partition: number) => boolean): number[] {
    const own = [...this.#hints.keys()].filter(isOwn);
    for (const partition of own) this.#hints.delete(partition);
    return own;
  }

  /** The message for the token that is about to leave; null: there is nothing to tell. */
  pack(sender: { from: string; incarnation: string; watchers: readonly string[] }): TokenMessage | null {
    // Nobody watches: whoever comes to do so begins by a scan.
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
      timers: words.flatMap((word) => (word.due === null ? [] : [{ ...word, due: word.due }])),
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
   * The token is here again, with the message or without. What was not taken out of it stays to be told; `watchers` are
   * those of now.
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
    // A death is said once: it is news or nothing.
    if (!back.watchers.some((url) => watchers.includes(url))) return;
    this.#scan ||= back.scan;
    for (const timer of back.timers) this.#sayAgain(timer);
    for (const name of back.ended) this.#sayAgain({ ...name, due: null });
  }

  /** The message never left: everything in it is to be told, with the next one. */
  takeBack(watchers: readonly string[]): void {
    for (const death of this.#aboard?.deaths ?? []) this.#deaths.set(death.url, death);
    this.home(null, watchers);
  }

  #say(word: TimerWord): void {
    this.isUrgent = true;
    // A scan tells everything there is, whatever was to be said.
    if (this.#scan) return;
    this.#timers.set(`${word.execution}/${word.timer}`, word);
    if (this.#timers.size <= this.#settings.messageTimersMax) return;
    this.#timers.clear();
    this.#told.clear();
    this.#scan = true;
  }

  /** What was said before, unless there is newer word. */
  #sayAgain(word: TimerWord): void {
    if (this.#timers.has(`${word.execution}/${word.timer}`)) return;
    const wasUrgent = this.isUrgent;
    this.#say(word);
    this.isUrgent = wasUrgent;
  }

  #forgetTimers(): void {
    this.#timers.clear();
    this.#scan = false;
  }
}
