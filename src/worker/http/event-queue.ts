/**
 * Events on their way to one node: sent in batches with one request under way while the next gathers, in order, until
 * they are acknowledged. What the node does not have, and everything if it is gone, is given up: it is for another node.
 * While there is something here, a request is under way.
 */

import type { EventsAnswer } from "../../protocol/worker-wire.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { sleep } from "../../std/within.ts";
import type { Called } from "./server-link.ts";
import type { Refused } from "./server-problem.ts";
import type { SpooledEvent } from "./spool.ts";

export interface EventQueueOptions<E extends SpooledEvent> {
  readonly clock: Clock;
  readonly random: Random;
  readonly post: (body: string) => Promise<Called<EventsAnswer>>;
  /** These are dealt with, all together; the verdict of each is the attempt's. */
  readonly onSettled: (settled: readonly { readonly entry: E; readonly verdict: string }[]) => void;
  /** The node does not take the events of an attempt, and never will. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  /** These are for another node: all that was here of their attempts, in order. */
  readonly onMoved: (entries: readonly E[]) => void;
  readonly onBug: (thrown: unknown) => void;
}

const ENTRIES_MAX = 5_000;
const CHARS_MAX = 1_048_576;
/** An event that is refused is sent so often: the request may have been damaged on its way. */
const REFUSALS_MAX = 3;
const GAP: Refused = { kind: "refused", status: 200, code: "gap", message: "an earlier event is missing" };

export class EventQueue<E extends SpooledEvent> {
  readonly #options: EventQueueOptions<E>;
  #queue: E[] = [];
  #isSending = false;
  #isClosed = false;
  #entriesMax = ENTRIES_MAX;
  /** How often in a row one event alone was refused. */
  #refusals = 0;
  readonly #backOff: BackOff;

  constructor(options: EventQueueOptions<E>) {
    this.#options = options;
    this.#backOff = new BackOff({ random: options.random });
  }

  add(entries: readonly E[]): void {
    for (const entry of entries) this.#queue.push(entry);
    if (!this.#isSending) this.#pump().catch(this.#options.onBug);
  }

  /** Nothing more is sent, nor given up. */
  close(): void {
    this.#isClosed = true;
  }

  async #pump(): Promise<void> {
    this.#isSending = true;
    while (this.#queue.length > 0 && !this.#isClosed) {
      const batch = this.#nextBatch();
      const called = await this.#options.post(bodyOf(batch));
      if (this.#isClosed) break;
      if (called.kind === "answered" && isAbout(called.value, batch)) this.#answered(batch, called.value);
      else if (called.kind === "answered") await this.#pause();
      else if (called.kind === "refused") await this.#refused(batch, called);
      else this.#options.onMoved(this.#queue.splice(0));
    }
    this.#isSending = false;
  }

  /** The oldest events that fit one request. */
  #nextBatch(): E[] {
    let chars = 0;
    let count = 0;
    for (const { json } of this.#queue) {
      if (count > 0 && (count >= this.#entriesMax || chars + json.length > CHARS_MAX)) break;
      chars += json.length;
      count++;
    }
    return this.#queue.slice(0, count);
  }

  #answered(batch: readonly E[], { stored, verdicts }: EventsAnswer): void {
    this.#refusals = 0;
    this.#backOff.reset();
    const again: E[] = [];
    const settled: { entry: E; verdict: string }[] = [];
    const elsewhere = new Set<string>();
    for (const entry of batch) {
      const { attempt, n } = entry;
      if (verdicts[attempt] === "not_owner") {
        elsewhere.add(attempt);
        again.push(entry);
      } else if ((stored[attempt] ?? 0) < n) again.push(entry);
      else settled.push({ entry, verdict: verdicts[attempt] ?? "accepted" });
    }
    const rest = this.#queue.slice(batch.length);
    this.#queue = again.length === 0 ? rest : [...again, ...rest];
    if (settled.length > 0) this.#options.onSettled(settled);
    if (elsewhere.size > 0) this.#options.onMoved(this.#take(elsewhere));
    // What it does not take in order it will never take: earlier events of these attempts are gone.
    else if (settled.length === 0)
      for (const attempt of new Set(again.map((entry) => entry.attempt))) this.#drop(attempt, GAP);
    this.#entriesMax = Math.min(ENTRIES_MAX, this.#entriesMax * 2);
  }

  /** Finds the one that is not taken by sending less at a time; the others must not suffer for it. */
  async #refused(batch: readonly E[], why: Refused): Promise<void> {
    if (batch.length > 1) this.#entriesMax = Math.max(1, batch.length >> 1);
    else if (++this.#refusals >= REFUSALS_MAX) {
      this.#refusals = 0;
      return this.#drop((batch[0] as E).attempt, why);
    }
    await this.#pause();
  }

  #pause(): Promise<void> {
    return sleep(this.#options.clock, this.#backOff.next());
  }

  #drop(attempt: string, why: Refused): void {
    const dropped = this.#take(new Set([attempt]));
    this.#options.onSettled(dropped.map((entry) => ({ entry, verdict: "stale" })));
    this.#options.onDropped(attempt, why);
  }

  /** Takes out all that is here of some attempts. */
  #take(attempts: ReadonlySet<string>): E[] {
    const [taken, left] = [[] as E[], [] as E[]];
    for (const entry of this.#queue) (attempts.has(entry.attempt) ? taken : left).push(entry);
    this.#queue = left;
    return taken;
  }
}

/** Whether an answer says something about what was sent. */
function isAbout({ stored, verdicts }: EventsAnswer, batch: readonly SpooledEvent[]): boolean {
  return batch.some(({ attempt }) => attempt in stored || attempt in verdicts);
}

function bodyOf(batch: readonly SpooledEvent[]): string {
  const tokens = new Map<string, string>();
  const events: string[] = [];
  for (const { attempt, token, json } of batch) {
    tokens.set(attempt, token);
    events.push(json);
  }
  const named = Array.from(tokens, ([attempt, token]) => `"${attempt}":"${token}"`);
  return `{"tokens":{${named.join(",")}},"events":[${events.join(",")}]}`;
}
