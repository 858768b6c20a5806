/**
 * Events on their way to the server: numbered per attempt, sent in batches with one request under way while the next
 * gathers, kept until they are acknowledged, and sent again with the same numbers if no answer came. With a spool they
 * are on disk before an attempt counts as ended.
 */
import type { Report } from "../../protocol/work.ts";
import type { EventsAnswer } from "../../protocol/worker-wire.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import { eachEvent, wordsOf } from "./report-events.ts";
import type { Called, Refused } from "./server-link.ts";
import type { Spool, SpooledEvent } from "./spool.ts";

export interface OutboxOptions {
  readonly held: HeldAttempts;
  readonly post: (body: string) => Promise<Called>;
  readonly spool: Spool | null;
  /** An attempt has ended: there is room for another. */
  readonly onEnded: () => void;
  /** The receipt of an attempt is acknowledged. */
  readonly onAcknowledged: (attempt: HeldAttempt) => void;
  /** The server does not take the events of an attempt. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** Who waits for the verdicts of a call of `send`. */
interface Delivery {
  readonly verdicts: string[][];
  open: number;
  readonly resolve: (verdicts: readonly (readonly string[])[]) => void;
}

interface Entry extends SpooledEvent {
  readonly held: HeldAttempt | null;
  readonly delivery: Delivery | null;
  /** Which verdict of the delivery it brings. */
  readonly report: number;
  readonly word: number;
}

const ENTRIES_MAX = 5_000;
const CHARS_MAX = 1_048_576;

export class Outbox {
  readonly #options: OutboxOptions;
  #queue: Entry[] = [];
  #chars = 0;
  #isSending = false;
  #isClosed = false;
  #entriesMax = ENTRIES_MAX;
  #onEmpty: (() => void)[] = [];

  constructor(options: OutboxOptions) {
    this.#options = options;
    if (options.spool !== null) options.spool.unacknowledged = () => this.#queue;
  }

  /** Characters that are not acknowledged yet. */
  get chars(): number {
    return this.#chars;
  }

  /** Sends reports; resolves with a verdict list per report once all of it is acknowledged. */
  send(reports: readonly Report[]): Promise<readonly (readonly string[])[]> {
    return new Promise((resolve, fail) => {
      const verdicts = reports.map((report) => new Array<string>(wordsOf(report)).fill("stale"));
      const delivery: Delivery = { verdicts, open: 0, resolve };
      const entries: Entry[] = [];
      reports.forEach((report, i) => this.#read(report, i, delivery, entries));
      delivery.open = entries.length;
      if (entries.length === 0 || this.#isClosed) return resolve(verdicts);
      const { spool } = this.#options;
      if (spool === null) this.#add(entries);
      else spool.append(entries, () => this.#add(entries), fail);
    });
  }

  /** Sends what a former process left in its spool. */
  replay(events: readonly SpooledEvent[]): void {
    this.#add(events.map((event) => ({ ...event, held: null, delivery: null, report: 0, word: 0 })));
  }

  /** Resolves when everything is acknowledged, or the outbox is closed. */
  settled(): Promise<void> {
    if (this.#queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onEmpty.push(resolve));
  }

  /** What is not acknowledged by now will not be: it is in the spool, or its leases run out. */
  close(): void {
    this.#isClosed = true;
    this.#options.spool?.close();
    const left = this.#queue;
    this.#queue = [];
    for (const entry of left) this.#deliver(entry, "stale");
    this.#emptied();
  }

  #read(report: Report, index: number, delivery: Delivery, entries: Entry[]): void {
    let word = 0;
    eachEvent(report, (attempt, rest, isReceipt) => {
      const at = report.kind === "receipts" ? word++ : 0;
      const held = this.#options.held.get(attempt);
      if (held === undefined || held.hasEnded) return;
      const n = ++held.n;
      held.hasStarted = true;
      const json = `{"attempt":"${attempt}","n":${n},${rest}`;
      const { token } = held;
      entries.push({ attempt, token, n, json, isReceipt, held, delivery, report: index, word: at });
    });
  }

  #add(entries: readonly Entry[]): void {
    const { held } = this.#options;
    let hasEnded = false;
    for (const entry of entries) {
      this.#chars += entry.json.length;
      this.#queue.push(entry);
      if (!entry.isReceipt || entry.held === null) continue;
      held.end(entry.held);
      hasEnded = true;
    }
    if (hasEnded) this.#options.onEnded();
    if (!this.#isSending) this.#pump().catch(this.#options.onBug);
  }

  async #pump(): Promise<void> {
    this.#isSending = true;
    while (this.#queue.length > 0 && !this.#isClosed) {
      const batch = this.#nextBatch();
      const called = await this.#options.post(bodyOf(batch));
      if (this.#isClosed || called.kind === "unsent") break;
      if (called.kind === "answered") this.#acknowledge(batch, called.value as EventsAnswer);
      else this.#refused(batch, called);
    }
    this.#isSending = false;
    if (this.#queue.length === 0) this.#emptied();
  }

  /** The oldest events that fit one request. */
  #nextBatch(): Entry[] {
    let chars = 0;
    let count = 0;
    for (const { json } of this.#queue) {
      if (count > 0 && (count >= this.#entriesMax || chars + json.length > CHARS_MAX)) break;
      chars += json.length;
      count++;
    }
    return this.#queue.slice(0, count);
  }

  #acknowledge(batch: readonly Entry[], { stored, verdicts }: EventsAnswer): void {
    const again: Entry[] = [];
    for (const entry of batch) {
      const { attempt, n } = entry;
      if ((stored[attempt] ?? 0) < n) again.push(entry);
      else this.#settle(entry, verdicts[attempt] ?? "accepted");
    }
    const rest = this.#queue.slice(batch.length);
    this.#queue = again.length === 0 ? rest : [...again, ...rest];
    this.#options.spool?.acknowledged();
    // What it does not take in order it will never take: earlier events of these attempts are gone.
    if (again.length === batch.length) {
      const why = {
        kind: "refused",
        status: 200,
        code: "gap",
        message: "an earlier event is missing",
      } as const;
      for (const attempt of new Set(again.map((entry) => entry.attempt))) this.#drop(attempt, why);
    }
    this.#entriesMax = Math.min(ENTRIES_MAX, this.#entriesMax * 2);
  }

  /** Finds the one that is not taken by sending less at a time; the others must not suffer for it. */
  #refused(batch: readonly Entry[], why: Refused): void {
    if (batch.length === 1) this.#drop((batch[0] as Entry).attempt, why);
    else this.#entriesMax = Math.max(1, batch.length >> 1);
  }

  #drop(attempt: string, why: Refused): void {
    const [dropped, left] = [[] as Entry[], [] as Entry[]];
    for (const entry of this.#queue) (entry.attempt === attempt ? dropped : left).push(entry);
    this.#queue = left;
    for (const entry of dropped) this.#settle(entry, "stale");
    this.#options.spool?.acknowledged();
    this.#options.onDropped(attempt, why);
  }

  #settle(entry: Entry, verdict: string): void {
    this.#chars -= entry.json.length;
    if (entry.isReceipt && entry.held !== null) {
      this.#options.held.forget(entry.held);
      this.#options.onAcknowledged(entry.held);
    }
    this.#deliver(entry, verdict);
  }

  #deliver({ delivery, report, word }: Entry, verdict: string): void {
    if (delivery === null) return;
    (delivery.verdicts[report] as string[])[word] = verdict;
    if (--delivery.open === 0) delivery.resolve(delivery.verdicts);
  }

  #emptied(): void {
    for (const resolve of this.#onEmpty.splice(0)) resolve();
  }
}

function bodyOf(batch: readonly Entry[]): string {
  const tokens = new Map<string, string>();
  const events: string[] = [];
  for (const { attempt, token, json } of batch) {
    tokens.set(attempt, token);
    events.push(json);
  }
  const named = Array.from(tokens, ([attempt, token]) => `"${attempt}":"${token}"`);
  return `{"tokens":{${named.join(",")}},"events":[${events.join(",")}]}`;
}
