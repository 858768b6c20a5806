/**
 * One registered worker: the link that the engine gives work to, and the claim that waits for it.
 *
 * 1. Granted items wait here, ready to be sent, until a claim takes them; a claim that finds none waits.
 * 2. What comes in one turn goes out in one answer. After an answer the engine is asked for nothing, until the next claim.
 * 3. A second claim supersedes the first, which answers empty. Items whose answer could not be written are handed back.
 */
import type { WorkerLink } from "../../engine/driver-options.ts";
import type { EnginePort } from "../../engine/engine-port.ts";
import { encodeAttempt, signAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, Grant } from "../../protocol/work.ts";
import type { ClaimRequest } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Store } from "../../store/store.ts";
import { WorkerInquiry } from "./ask-worker.ts";
import { AttemptRecord, GrantPlace } from "./attempt-record.ts";
import { handedBackReports } from "./hand-back.ts";
import { readHistory } from "./item-history.ts";
import type { CheckedRegistration } from "./registration.ts";
import { ANSWER_CHARS_MAX, claimJson, GrantWriter, type ReadyItem, scriptProgress } from "./work-json.ts";

/** What sessions need of the process. */
export interface SessionParts {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly leaseMs: number;
  /** Every attempt that a worker has, by id. */
  readonly records: Map<string, AttemptRecord>;
  /** The nodes of the cluster that workers are to be told of; null: there is only this server. */
  readonly nodes: () => readonly string[] | null;
  readonly onFault: (fault: unknown) => void;
}

/** The answer to a claim; `handBack` if it could not be written. */
export interface ClaimAnswer {
  readonly text: string;
  handBack(): void;
}

interface OpenClaim {
  readonly max: number;
  readonly resolve: (answer: ClaimAnswer | null) => void;
  readonly stop: () => void;
}

/** Attempts told as lost that are remembered for the next beat. */
const LOST_MAX = 10_000;

export class WorkerSession implements WorkerLink {
  readonly id: string;
  readonly #parts: SessionParts;
  registration: CheckedRegistration;
  lastSeenAt: number;
  /** What its process takes, as it said last; null: it did not say. */
  memoryBytes: number | null = null;
  isDraining = false;
  #ready: ReadyItem[] = [];
  #claim: OpenClaim | null = null;
  #isWaking = false;
  /** Told by the engine and not yet passed on over a claim. */
  #cancelNews = new Set<string>();
  #lostNews = new Set<string>();
  /** Leases that are lost, for the next beat that names them. */
  readonly #lost = new Set<string>();
  /** The nodes that the worker was told of last. */
  #toldNodes: readonly string[] | null = null;
  #inquiry: { readonly url: string; readonly worker: WorkerInquiry } | null = null;

  constructor(id: string, registration: CheckedRegistration, parts: SessionParts) {
    this.id = id;
    this.registration = registration;
    this.#parts = parts;
    this.lastSeenAt = parts.clock.now();
  }

  /** Tells the engine what this worker serves. */
  join(): void {
    const { serves, capacity, url } = this.registration;
    this.#parts.engine.join(this.id, this, { serves, capacity, local: false, asks: url !== null });
  }

  /** The nodes of the cluster, to be told now. */
  tellNodes(): readonly string[] | null {
    this.#toldNodes = this.#parts.nodes();
    return this.#toldNodes;
  }

  /** The cluster may have other nodes now: a claim that waits is answered then. */
  nodesChanged(): void {
    this.#wake();
  }

  /** Something was heard of the worker. */
  seen(): void {
    this.lastSeenAt = this.#parts.clock.now();
  }

  get hasOpenClaim(): boolean {
    return this.#claim !== null;
  }

  /** Waits for work, or for something to be told; null: the client has gone. */
  claim(asked: ClaimRequest, signal: AbortSignal): Promise<ClaimAnswer | null> {
    this.seen();
    if (this.#claim !== null) this.#supersede(this.#claim);
    if (signal.aborted) return Promise.resolve(null);
    const max = this.isDraining ? 0 : asked.max;
    return new Promise((resolve) => {
      const gone = () => this.#gone(open);
      const cancelTimer = this.#after(this.isDraining ? 0 : asked.waitMs, () => {
        if (this.#claim === open) this.#answer();
      });
      const open: OpenClaim = {
        max,
        resolve,
        stop: () => {
          cancelTimer();
          signal.removeEventListener("abort", gone);
        },
      };
      signal.addEventListener("abort", gone);
      this.#claim = open;
      this.#parts.engine.claim(this.id, Math.max(0, max - this.#ready.length));
      if (this.#hasNews(open)) this.#wake();
    });
  }

  /** Work from the engine. */
  take(grant: Grant): void {
    const { engine, clock, leaseMs, records } = this.#parts;
    const shared = new GrantPlace(grant, grant);
    const writer = new GrantWriter(grant, clock.now() + leaseMs);
    for (const item of grant.items) {
      const id = shared.idOf(item.number, item.attempt, item.claim);
      const token = signAttempt(engine.info.key, id);
      const { number: task, attempt, claim } = item;
      const record = new AttemptRecord(id, token, { task, attempt, claim, shared, worker: this.id });
      records.set(id, record);
      if (!item.checkpoints) {
        Object.assign(record, grant.script === null ? {} : scriptProgress(grant, item, null));
        this.#ready.push({ record, grant, json: writer.write(item, record, null) });
        continue;
      }
      readHistory(this.#parts.store, grant.execution, item.checkpoints, clock.now()).then(
        (history) => {
          if (!records.has(id)) return;
          Object.assign(record, grant.script === null ? {} : scriptProgress(grant, item, history));
          this.#ready.push({ record, grant, json: writer.write(item, record, history) });
          this.#wake();
        },
        (fault: unknown) => {
          this.#parts.onFault(fault);
          this.#handBack([record]);
        },
      );
    }
    this.#wake();
  }

  /** Attempts that the engine wants stopped. */
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

  /** Asks the worker itself which of these it still has. */
  async ask(beats: readonly Beat[]): Promise<readonly Beat[]> {
    const { url } = this.registration;
    if (url === null) return [];
    if (this.#inquiry?.url !== url) {
      this.#inquiry?.worker.close();
      this.#inquiry = { url, worker: new WorkerInquiry(url) };
    }
    const { worker } = this.#inquiry;
    return Promise.all(
      beats.map(async (beat) => {
        const has = await Promise.all(
          beat.attempts.map((attempt) => worker.ask(encodeAttempt({ ...beat, ...attempt }))),
        );
        return { ...beat, attempts: beat.attempts.filter((_, i) => has[i]) };
      }),
    );
  }

  /** What a beat is answered for an attempt. */
  wordOn(id: string): "continue" | "cancel" | "lost" {
    if (this.#lost.delete(id)) {
      this.#lostNews.delete(id);
      return "lost";
    }
    return this.#parts.records.get(id)?.isCancelled === true ? "cancel" : "continue";
  }

  /** Its next claim is told to leave. */
  drain(): void {
    this.isDraining = true;
    this.#parts.engine.claim(this.id, 0);
    this.#handBack(this.#ready.splice(0).map(({ record }) => record));
    if (this.#claim !== null) this.#answer();
  }

  /** The session is over: what was not sent goes back, and nobody waits any more. */
  end(): void {
    this.#handBack(this.#ready.splice(0).map(({ record }) => record));
    if (this.#claim !== null) this.#answer();
    this.#inquiry?.worker.close();
    this.#inquiry = null;
  }

  #hasNews({ max }: OpenClaim): boolean {
    return (
      (max > 0 && this.#ready.length > 0) ||
      this.#cancelNews.size > 0 ||
      this.#lostNews.size > 0 ||
      !isSameList(this.#toldNodes, this.#parts.nodes())
    );
  }

  /** Answers the open claim once everything of this turn has come. */
  #wake(): void {
    if (this.#isWaking || this.#claim === null) return;
    this.#isWaking = true;
    this.#parts.clock.soon(() => {
      this.#isWaking = false;
      if (this.#claim !== null && this.#hasNews(this.#claim)) this.#answer();
    });
  }

  /** Answers the open claim with what there is. */
  #answer(): void {
    const open = this.#claim;
    if (open === null) return;
    this.#close(open);
    const items = this.#takeReady(open.max);
    const text = claimJson({
      items,
      cancel: [...this.#cancelNews],
      lost: [...this.#lostNews],
      drain: this.isDraining,
      nodes: this.tellNodes(),
    });
    this.#cancelNews.clear();
    this.#lostNews.clear();
    open.resolve({ text, handBack: () => this.#handBack(items.map(({ record }) => record)) });
  }

  /** Another claim of the same worker has come: this one answers empty, and what there is goes to that one. */
  #supersede(open: OpenClaim): void {
    this.#close(open);
    const text = claimJson({ items: [], cancel: [], lost: [], drain: this.isDraining, nodes: null });
    open.resolve({ text, handBack: () => {} });
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
    this.seen();
  }

  /** Items for one answer: at most so many, and not too long together. */
  #takeReady(max: number): ReadyItem[] {
    let count = 0;
    let chars = 0;
    let execution = "";
    while (count < this.#ready.length && count < max && chars < ANSWER_CHARS_MAX) {
      const { json, grant } = this.#ready[count++] as ReadyItem;
      chars += json.length;
      if (grant.execution !== execution) chars += grant.input.length;
      execution = grant.execution;
    }
    return count === this.#ready.length ? this.#ready.splice(0) : this.#ready.splice(0, count);
  }

  /** Gives attempts back that no worker got to see, so that nobody waits for their leases. */
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

  /** Without a wait, the engine still gets its turn first. */
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
