/**
 * Sends the events of attempts to one node: in order, in batches, one request at a time. Events stay in this queue until they
 * are acknowledged. If the node does not own an attempt, its events are taken out for another node.
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
  /** Called when the node has acknowledged or refused these events. Each verdict is about the attempt of its event. */
  readonly onSettled: (settled: readonly { readonly entry: E; readonly verdict: string }[]) => void;
  /** Called if the node refuses the events of this attempt for good. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  /** Called with entries that belong to another node: all queued events of their attempts, in order. */
  readonly onMoved: (entries: readonly E[]) => void;
  readonly onBug: (thrown: unknown) => void;
}

const ENTRIES_MAX = 5_000;
const CHARS_MAX = 1_048_576;
/** A refused event is sent this many times before it is dropped, because a request may be damaged in transit. */
const REFUSALS_MAX = 3;
const GAP: Refused = { kind: "refused", status: 200, code: "gap", message: "an earlier event is missing" };

export class EventQueue<E extends SpooledEvent> {
  readonly #options: EventQueueOptions<E>;
  #queue: E[] = [];
  #isSending = false;
  #isClosed = false;
  #entriesMax = ENTRIES_MAX;
  /** Whether the node accepts tokens inside the events. A node that gives brief answers does. */
  #hasTokensInside = false;
  /** How many times in a row a batch of one event was refused. */
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
      /* @plant events of a failed request dropped */ else this.#options.onMoved(this.#queue.splice(0));
    }
    this.#isSending = false;
  }

  /** Returns the oldest events that fit into one request. */
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
    // No event was settled: earlier events of these attempts are missing, so the node will never accept them.
    else if (settled.length === 0)
      for (const attempt of new Set(again.map((entry) => entry.attempt))) this.#drop(attempt, GAP);
    this.#entriesMax = Math.min(ENTRIES_MAX, this.#entriesMax * 2);
  }

  /** Handles a refused batch: sends smaller batches until the refused event is alone, so that other events still get through. */
  async #refused(batch: readonly E[], why: Refused): Promise<void> {
    // After a deploy, a node of an earlier version may answer at this address, so the older format is used.
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

/** Whether the answer mentions any of the events that were sent. */
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

/** Makes a request body that has each token in the first event of its attempt. A map of tokens by attempt id would be slow to parse. */
function briefBodyOf(batch: readonly SpooledEvent[]): string {
  let last = "";
  const events = batch.map(({ attempt, token, json }) => {
    if (attempt === last) return json;
    last = attempt;
    return `{"token":"${token}",${json.slice(1)}`;
  });
  return `{"tokens":{},"events":[${events.join(",")}]}`;
}
