/**
 * One registered worker: the link to which the engine grants work, and the open claim.
 * 1. Granted items wait here until a claim takes them; a claim without items waits.
 * 2. All items of one turn go out in one answer. After an answer, the session requests nothing from the engine until the next claim.
 * 3. A second claim supersedes the first, which is answered empty. Items whose answer could not be written are handed back.
 * 4. A claim with the id of an answered claim means that the answer was lost. Its items are handed back before the claim waits.
 * 5. A worker that is silent for too long (presence.ts) leaves, and joins again with its next request.
 * 6. Before the node leaves, items that no worker has received are handed back, so that the next owner need not wait for them.
 */

import type { WorkerLink } from "../../engine/driver-options.ts";
import type { EnginePort } from "../../engine/engine-port.ts";
import { encodeAttempt, signAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, Grant, GrantItem } from "../../protocol/work.ts";
import type { ClaimRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { atMost } from "../../std/within.ts";
import type { Store } from "../../store/store.ts";
import { WorkerInquiry } from "./ask-worker.ts";
import { AttemptRecord, GrantPlace, handedBackReports } from "./attempt-record.ts";
import { readHistory } from "./item-history.ts";
import { Presence } from "./presence.ts";
import type { CheckedRegistration } from "./registration.ts";
import { claimJson, countForAnswer, GrantWriter, type ReadyItem, readyItem } from "./work-json.ts";

/** The parts of the process that sessions use. */
export interface SessionParts {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly leaseMs: number;
  /** How long a worker may be silent, in milliseconds, before it gets no more work. */
  readonly heartbeatMs: number;
  /** All attempts of workers, by id. */
  readonly records: TransientMap<string, AttemptRecord>;
  /** The URLs of the cluster's nodes, which workers get; null for a single server. */
  readonly nodes: () => readonly string[] | null;
  readonly onFault: (fault: unknown) => void;
}

/**
 * A claim of a worker. `id`: chosen by the worker, the same in a repeat of a claim whose answer was lost. `isBrief`: whether the
 * worker reads batches.
 */
export interface IdentifiedClaim extends ClaimRequest {
  readonly id?: string | undefined;
  readonly isBrief?: boolean;
}

/** The answer to a claim. `ended` is called when the answer was written; its argument says whether it was written completely. */
export interface ClaimAnswer {
  readonly text: string;
  ended(isWritten: boolean): void;
}

interface OpenClaim {
  readonly id: string | undefined;
  readonly isBrief: boolean;
  readonly max: number;
  readonly resolve: (answer: ClaimAnswer | null) => void;
  readonly stop: () => void;
}

/** The most lost attempts that are remembered until the worker's next heartbeat. */
const LOST_MAX = 10_000;
/** The last answers with work are remembered, so many. */
const ANSWERS_KEPT = 2;
/** The most answers that are remembered. */
const ANSWERS_MAX = 100;
/** How long an answer may take to be written when the node shuts down. */
const LAST_ANSWERS_MS = 200;

export class WorkerSession implements WorkerLink {
  readonly id: string;
  readonly #parts: SessionParts;
  registration: CheckedRegistration;
  readonly #presence: Presence;
  /** The memory of the worker's process, as last reported; null if it was not reported. */
  memoryBytes: number | null = null;
  isDraining = false;
  #ready: ReadyItem[] = [];
  #claim: OpenClaim | null = null;
  #isWaking = false;
  /** Whether the session has ended. */
  #isOver = false;
  /** Attempts whose history is being read before they are sent. */
  readonly #recalling = new Set<AttemptRecord>();
  /** Answers to claims that are being written. */
  readonly #sending = new TransientMap<number, readonly AttemptRecord[]>();
  /** The number of the last answer; answers with items are in `#sending` by it. */
  #lastSent = 0;
  #onSent: () => void = () => {};
  /**
   * The items of answers, by the id of their claim. A worker may hear late that a claim has failed, and claim more meanwhile. So
   * an answer is remembered while it may be lost: until the worker has sent events about all of its items.
   */
  readonly #answered = new TransientMap<string, readonly AttemptRecord[]>();
  /** Cancelled attempts that no answer to a claim has named yet. */
  #cancelNews = new Set<string>();
  #lostNews = new Set<string>();
  /** Lost attempts, which the answer to the worker's next heartbeat names. */
  readonly #lost = new Set<string>();
  /** The node URLs that the worker got in its last answer. */
  #sentNodes: readonly string[] | null = null;
  #inquiry: { readonly url: string; readonly worker: WorkerInquiry } | null = null;

  constructor(id: string, registration: CheckedRegistration, parts: SessionParts) {
    this.id = id;
    this.registration = registration;
    this.#parts = parts;
    this.#presence = new Presence(parts.clock, parts.heartbeatMs);
  }

  get lastSeenAt(): number {
    return this.#presence.lastSeenAt;
  }

  /** Joins the engine with the handlers that this worker serves. */
  join(): void {
    const { serves, capacity, url, project } = this.registration;
    this.#presence.isJoined = true;
    this.#parts.engine.join(this.id, this, { serves, capacity, local: false, asks: url !== null, project });
    // The engine forgets what a worker has claimed when the worker joins again.
    // @plant open claim forgotten at a registration
    if (this.#claim !== null) this.#request(this.#claim);
  }

  /** When the worker will have been silent for too long; Infinity while a claim waits, or if the worker has left. */
  get silentAt(): number {
    return this.#claim !== null || this.#isOver ? Number.POSITIVE_INFINITY : this.#presence.silentAt;
  }

  /** Called when the worker is silent: it gets no more work, and its attempts end by their own rules. */
  leave(): void {
    this.#presence.isJoined = false;
    this.#parts.engine.leave(this.id);
  }

  /** Asks the engine for the work of an open claim, as far as it is not here already. */
  #request({ max }: OpenClaim): void {
    this.#parts.engine.claim(this.id, Math.max(0, max - this.#ready.length));
  }

  /** Returns the URLs of the cluster's nodes if the worker does not have them yet; null if it has. */
  nodesToSend(): readonly string[] | null {
    this.#sentNodes = this.#parts.nodes();
    return this.#sentNodes;
  }

  /** Answers a waiting claim if the nodes of the cluster have changed. */
  nodesChanged(): void {
    this.#wake();
  }

  /** Called at each request of the worker. */
  seen(): void {
    this.#presence.seen();
    if (!this.#presence.isJoined && !this.#isOver) this.join();
  }

  get hasOpenClaim(): boolean {
    return this.#claim !== null;
  }

  /**
   * Opens a claim. Its answer comes with the first work or notice, after `waitMs`, or when `end` is called; it is null if the
   * client has disconnected.
   */
  claim(
    asked: IdentifiedClaim,
    signal: AbortSignal,
  ): { readonly answer: Promise<ClaimAnswer | null>; readonly end: () => void } {
    this.seen();
    // A request whose worker is gone must not take the work of the claim that repeats it.
    if (signal.aborted) return { answer: Promise.resolve(null), end: () => {} };
    if (asked.id !== undefined) this.#handBackLostAnswer(asked.id);
    if (this.#claim !== null) this.#supersede(this.#claim);
    const max = this.isDraining || this.#isOver ? 0 : asked.max;
    // Items that the worker has no free slot for any more are handed back.
    this.#handBack(this.#ready.splice(max).map(({ record }) => record));
    let resolve: OpenClaim["resolve"] = () => {};
    const answer = new Promise<ClaimAnswer | null>((settle) => {
      resolve = settle;
    });
    const end = () => {
      if (this.#claim === open) this.#answer();
    };
    const gone = () => this.#gone(open);
    const cancelTimer = this.#after(this.isDraining ? 0 : asked.waitMs, end);
    const open: OpenClaim = {
      id: asked.id,
      isBrief: asked.isBrief === true,
      max,
      resolve,
      stop: () => {
        cancelTimer();
        signal.removeEventListener("abort", gone);
      },
    };
    signal.addEventListener("abort", gone);
    this.#claim = open;
    this.#request(open);
    if (this.#hasNews(open)) this.#wake();
    return { answer, end };
  }

  /** Accepts work that the engine grants to this worker. */
  accept(grant: Grant): void {
    const { clock, leaseMs } = this.#parts;
    const shared = new GrantPlace(grant, grant.phases);
    const writer = new GrantWriter(grant, clock.now() + leaseMs);
    const given = grant.items.map((item) => ({ item, record: this.#record(shared, item) }));
    if (this.#isOver) return this.#handBack(given.map(({ record }) => record));
    for (const { item, record } of given) {
      if (item.checkpoints) this.#recall({ grant, item, record, writer });
      else this.#ready.push(readyItem({ grant, item, record, writer }, null));
    }
    this.#wake();
  }

  #record(shared: GrantPlace, { number: task, attempt, claim }: GrantItem): AttemptRecord {
    const { engine, records } = this.#parts;
    const id = shared.idOf(task, attempt, claim);
    const token = signAttempt(engine.info.key, id);
    const record = new AttemptRecord(id, token, { task, attempt, claim, shared, worker: this.id });
    records.set(id, record);
    return record;
  }

  /** Reads the history of earlier attempts before the item is sent. */
  #recall(given: Omit<ReadyItem, "json">): void {
    const { store, clock, onFault, records } = this.#parts;
    const { grant, item, record } = given;
    this.#recalling.add(record);
    readHistory(store, grant.execution, item.checkpoints ?? [], clock.now())
      .then(
        (history) => {
          if (!this.#recalling.has(record) || !records.has(record.id)) return;
          this.#ready.push(readyItem(given, history));
          this.#wake();
        },
        (fault: unknown) => {
          onFault(fault);
          this.#handBack([record]);
        },
      )
      .finally(() => this.#recalling.delete(record));
  }

  /** Keeps attempts that the engine wants to cancel, for the answer to the worker's next claim or heartbeat. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    const { records } = this.#parts;
    for (const beat of beats) {
      for (const { task, attempt, claim } of beat.attempts) {
        const id = encodeAttempt({ ...beat, task, attempt, claim });
        const unsent = this.#ready.findIndex(({ record }) => record.id === id);
        if (unsent >= 0) {
          const [item] = this.#ready.splice(unsent, 1);
          if (why === "cancel") this.#handBack([(item as ReadyItem).record]);
          else records.delete(id);
        } else if (why === "lost") this.#lose(id);
        else {
          const record = records.get(id);
          if (record === undefined || record.hasReceipt) continue;
          record.isCancelled = true;
          this.#cancelNews.add(id);
        }
      }
    }
    this.#wake();
  }

  /** Asks the worker which of these attempts it still has. */
  async ask(beats: readonly Beat[]): Promise<readonly Beat[]> {
    const { url } = this.registration;
    if (url === null) return [];
    if (this.#inquiry?.url !== url) {
      this.#inquiry?.worker.close();
      this.#inquiry = { url, worker: new WorkerInquiry(url) };
    }
    return this.#inquiry.worker.askAll(beats);
  }

  /** The answer to a heartbeat of an attempt: go on, stop, or the lease is lost. */
  answerFor(id: string): "continue" | "cancel" | "lost" {
    if (this.#lost.delete(id)) {
      this.#lostNews.delete(id);
      return "lost";
    }
    return this.#parts.records.get(id)?.isCancelled === true ? "cancel" : "continue";
  }

  /** Asks the worker to leave, in the answer to its next claim. */
  drain(): void {
    this.isDraining = true;
    this.#parts.engine.claim(this.id, 0, "it is draining");
    this.#handBack(this.#ready.splice(0).map(({ record }) => record));
    if (this.#claim !== null) this.#answer();
  }

  /** Sends no more work. Resolves when items that no worker has received are handed back to the engine. */
  async quiesce(): Promise<void> {
    this.#giveUp();
    if (this.#sending.size === 0) return;
    const sent = new Promise<void>((resolve) => {
      this.#onSent = resolve;
    });
    await atMost(this.#parts.clock, LAST_ANSWERS_MS, sent);
    for (const items of this.#sending.values()) this.#handBack(items);
  }

  /** Ends the session: items that were not sent are handed back to the engine, and open claims are answered. */
  end(): void {
    this.#giveUp();
    for (const items of this.#sending.values()) this.#handBack(items);
    if (this.#claim !== null) this.#answer();
    this.#inquiry?.worker.close();
    this.#inquiry = null;
  }

  /** Hands back to the engine all items that were not sent, and all that are granted later. */
  #giveUp(): void {
    this.#isOver = true;
    this.#parts.engine.claim(this.id, 0);
    this.#handBack([...this.#ready.splice(0).map(({ record }) => record), ...this.#recalling]);
    this.#recalling.clear();
  }

  #hasNews({ max }: OpenClaim): boolean {
    return (
      (max > 0 && this.#ready.length > 0) ||
      this.#cancelNews.size > 0 ||
      this.#lostNews.size > 0 ||
      !isSameList(this.#sentNodes, this.#parts.nodes())
    );
  }

  /** Answers the open claim once all items that the engine grants in this turn of the event loop have arrived. */
  #wake(): void {
    if (this.#isWaking || this.#claim === null) return;
    this.#isWaking = true;
    this.#parts.clock.soon(() => {
      this.#isWaking = false;
      if (this.#claim !== null && this.#hasNews(this.#claim)) this.#answer();
    });
  }

  /** Answers the open claim. */
  #answer(): void {
    const open = this.#claim;
    if (open === null) return;
    this.#close(open);
    const items = this.#ready.splice(0, countForAnswer(this.#ready, open.max));
    const text = claimJson({
      items,
      cancel: [...this.#cancelNews],
      lost: [...this.#lostNews],
      drain: this.isDraining,
      nodes: this.nodesToSend(),
      isBrief: open.isBrief,
    });
    this.#cancelNews.clear();
    this.#lostNews.clear();
    const records = items.map(({ record }) => record);
    if (open.id !== undefined && records.length > 0) this.#noteAnswer(open.id, records);
    open.resolve({ text, ended: this.#send(records) });
  }

  #noteAnswer(claim: string, records: readonly AttemptRecord[]): void {
    this.#answered.set(claim, records);
    const { records: known } = this.#parts;
    const mayBeLost = ({ id, hasSpoken }: AttemptRecord): boolean => !hasSpoken && known.has(id);
    let spare = this.#answered.size - ANSWERS_KEPT;
    for (const [other, items] of this.#answered) {
      if (spare-- <= 0) break;
      // @plant lost answer forgotten after others
      if (this.#answered.size <= ANSWERS_MAX && items.some(mayBeLost)) continue;
      this.#answered.delete(other);
    }
  }

  /** Called when a claim arrives again: hands back the items of its lost answer, so that the engine can grant them at once. */
  #handBackLostAnswer(claim: string): void {
    // @plant work of a lost answer kept
    this.#handBack(this.#answered.get(claim) ?? []);
    this.#answered.delete(claim);
  }

  /** Marks these items as being written to the client. */
  #send(items: readonly AttemptRecord[]): ClaimAnswer["ended"] {
    const n = ++this.#lastSent;
    if (items.length > 0) this.#sending.set(n, items);
    return (isWritten) => {
      if (!this.#sending.delete(n)) return;
      if (!isWritten) this.#handBack(items);
      if (this.#sending.size === 0) this.#onSent();
    };
  }

  /** Answers a claim without items, because another claim of the same worker has arrived. The items go to the new claim. */
  #supersede(open: OpenClaim): void {
    this.#close(open);
    const text = claimJson({
      items: [],
      cancel: [],
      lost: [],
      drain: this.isDraining,
      nodes: null,
      isBrief: false,
    });
    open.resolve({ text, ended: () => {} });
  }

  #gone(open: OpenClaim): void {
    if (this.#claim !== open) return;
    this.#close(open);
    open.resolve(null);
  }

  #close(open: OpenClaim): void {
    open.stop();
    this.#claim = null;
    this.#parts.engine.claim(this.id, 0);
    this.#presence.claimEnded();
  }

  /** Hands attempts that no worker has received back to the engine, so that their leases end at once. */
  #handBack(records: readonly AttemptRecord[]): void {
    const { engine, records: known, onFault } = this.#parts;
    const open = records.filter(({ id, hasSpoken }) => !hasSpoken && known.delete(id));
    if (open.length > 0) engine.report(this.id, handedBackReports(open)).catch(onFault);
  }

  #lose(id: string): void {
    this.#parts.records.delete(id);
    this.#cancelNews.delete(id);
    this.#lost.add(id);
    this.#lostNews.add(id);
    for (const oldest of this.#lost) {
      if (this.#lost.size <= LOST_MAX) break;
      this.#lost.delete(oldest);
      this.#lostNews.delete(oldest);
    }
  }

  /** Calls `run` after this time; with 0, after the engine's current turn. */
  #after(ms: number, run: () => void): () => void {
    const { clock } = this.#parts;
    if (ms > 0) return clock.after(ms, run);
    clock.soon(() => clock.soon(run));
    return () => {};
  }
}

function isSameList(one: readonly string[] | null, other: readonly string[] | null): boolean {
  if (one === null || other === null) return one === other;
  return one.length === other.length && one.every((url, i) => url === other[i]);
}
