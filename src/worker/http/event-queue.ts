/**
 * Sends the events of attempts to one node: in order, in batches, one request at a time. Events stay in this queue until they
 * are acknowledged; events of attempts that the node does not own are returned for another node.
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
  /** Called when the node has acknowledged or refused these events. Each verdict is that of the event's attempt. */
  readonly onSettled: (settled: readonly { readonly entry: E; readonly verdict: string }[]) => void;
  /** Called if the node refuses the events of this attempt for good. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  /** Called with entries that belong to another node: all queued events of their attempts, in order. */
  readonly onMoved: (entries: readonly E[]) => void;
  readonly onBug: (thrown: unknown) => void;
}

const ENTRIES_MAX = 5_000;
const CHARS_MAX = 1_048_576;
/** A refused event is sent this often before it is dropped, because a request may be damaged on its way. */
const REFUSALS_MAX = 3;
const GAP: Refused = { kind: "refused", status: 200, code: "gap", message: "an earlier event is missing" };

export class EventQueue<E extends SpooledEvent> {
  readonly #options: EventQueueOptions<E>;
  #queue: E[] = [];
  #isSending = false;
  #isClosed = false;
  #entriesMax = ENTRIES_MAX;
  /** Whether the node takes tokens in the events. A node that gives brief answers does. */
  #hasTokensInside = false;
  /** How often in a row a batch of one event was refused. */
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

  close(): void {
    this.#isClosed = true;
  }

  async #pump(): Promise<void> {
    this.#isSending = true;
    while (this.#queue.length > 0 && !this.#isClosed) {
      const batch = this.#nextBatch();
      const called = await this.#options.post(this.#hasTokensInside ? briefBodyOf(batch) : bodyOf(batch));
      if (this.#isClosed) break;
      if (called.kind === "answered" && isAbout(called.value, batch)) this.#answered(batch, called.value);
      else if (called.kind === "answered") await this.#pause();
      else if (called.kind === "refused") await this.#refused(batch, called);
      else this.#options.onMoved(this.#queue.splice(0));
    }
    this.#isSending = false;
  }

  /** The oldest events that fit into one request. */
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

  #answered(batch: readonly E[], { stored, verdicts, rest }: EventsAnswer): void {
    this.#refusals = 0;
    this.#hasTokensInside = rest !== undefined;
    this.#backOff.reset();
    const again: E[] = [];
    const settled: { entry: E; verdict: string }[] = [];
    const elsewhere = new Set<string>();
    for (const entry of batch) {
      const { attempt, n } = entry;
      const isNamed = attempt in stored || attempt in verdicts;
      if (!isNamed && rest !== undefined) settled.push({ entry, verdict: rest });
      else if (verdicts[attempt] === "not_owner") {
        elsewhere.add(attempt);
        again.push(entry);
      } else if ((stored[attempt] ?? 0) < n) again.push(entry);
      else settled.push({ entry, verdict: verdicts[attempt] ?? "accepted" });
    }
    const later = this.#queue.slice(batch.length);
    this.#queue = again.length === 0 ? later : [...again, ...later];
    if (settled.length > 0) this.#options.onSettled(settled);
    if (elsewhere.size > 0) this.#options.onMoved(this.#remove(elsewhere));
    // The node will never accept these events: earlier events of their attempts are missing.
    else if (settled.length === 0)
      for (const attempt of new Set(again.map((entry) => entry.attempt))) this.#drop(attempt, GAP);
    this.#entriesMax = Math.min(ENTRIES_MAX, this.#entriesMax * 2);
  }

  /** Sends smaller batches until the refused event is alone, so that other events still get through. */
  async #refused(batch: readonly E[], why: Refused): Promise<void> {
    // A node of an earlier version may answer at this address now.
    this.#hasTokensInside = false;
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
    const dropped = this.#remove(new Set([attempt]));
    this.#options.onSettled(dropped.map((entry) => ({ entry, verdict: "stale" })));
    this.#options.onDropped(attempt, why);
  }

  /** Removes and returns all queued events of some attempts. */
  #remove(attempts: ReadonlySet<string>): E[] {
    const [taken, left] = [[] as E[], [] as E[]];
    for (const entry of this.#queue) (attempts.has(entry.attempt) ? taken : left).push(entry);
    this.#queue = left;
    return taken;
  }
}

/** Whether an answer settles any of the events that were sent. */
function isAbout({ stored, verdicts, rest }: EventsAnswer, batch: readonly SpooledEvent[]): boolean {
  return rest !== undefined || batch.some(({ attempt }) => attempt in stored || attempt in verdicts);
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

/** The body with each token in the first event of its attempt. A map with the ids as keys is slow to parse. */
function briefBodyOf(batch: readonly SpooledEvent[]): string {
  let last = "";
  const events = batch.map(({ attempt, token, json }) => {
    if (attempt === last) return json;
    last = attempt;
    return `{"token":"${token}",${json.slice(1)}`;
  });
  return `{"tokens":{},"events":[${events.join(",")}]}`;
}
