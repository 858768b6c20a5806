/**
 * The server's side of the worker protocol: registered workers and their events. It uses an engine and a store, and knows
 * nothing of HTTP.
 * 1. A session lives while its worker sends requests or has a waiting claim.
 * 2. Every event of an attempt carries the attempt's token.
 * 3. Events are numbered per attempt. A new event goes to the engine and is acknowledged after the commit; a repeat is
 *    acknowledged at once; an event after a gap is not.
 * 4. An attempt of an earlier owner is adopted with its first event: the engine decides whether it holds its lease. Events of
 *    an attempt of another node are refused, and the worker sends them there.
 */

import type { EnginePort } from "../../engine/engine-port.ts";
import type { AttemptHolder, ScriptFacts } from "../../engine/leases/attempt-facts.ts";
import { ATTEMPT_HINT, checkToken, decodeAttempt, isSameToken } from "../../protocol/attempt-id.ts";
import { type Beat, BROKER_WORKER, type ReportedAttempt, UNKNOWN_WORKER } from "../../protocol/work.ts";
import {
  type EventsAnswer,
  type HeartbeatAnswer,
  type Registered,
  WAIT_MS_MAX,
} from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { type Fields, invalid, isObject } from "../../std/decode.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { Store } from "../../store/store.ts";
import type { Worker } from "../schemas/worker.ts";
import { AttemptRecord, EndedAttempts } from "./attempt-record.ts";
import { answerOf, EventBatch, staleAttempt, unknownWorker, wrongToken } from "./event-batch.ts";
import { SilenceWatch } from "./presence.ts";
import { readEvent } from "./read-event.ts";
import { type AttemptEvent, readEvents } from "./read-events.ts";
import { checkRegistration } from "./registration.ts";
import {
  type ClaimAnswer,
  type IdentifiedClaim,
  type SessionParts,
  WorkerSession,
} from "./worker-session.ts";
import { countWorkers, viewWorker } from "./worker-views.ts";

export interface WorkerSessionsOptions {
  /** Returns why a name may not be used as a topic; null if it may. */
  readonly reserved?: (topic: string) => Rejection | null;
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /**
   * The heartbeat interval that workers get at registration. The engine's settings decide when an attempt without heartbeats is
   * lost.
   */
  readonly heartbeatMs?: number;
  readonly leaseMs?: number;
  /** The server removes a worker that is silent for this time. */
  readonly expiryMs?: number;
  /** The URLs of the living nodes of the cluster, with this node; missing for a single server. */
  readonly nodes?: () => readonly string[];
  /** Called with faults that happen outside of any request. */
  readonly onFault?: (fault: unknown) => void;
}

const EXPIRY_MS = 90_000;
const BEATS_MAX = 100_000;
/** After this many attempts from the broker, the records of those that have ended are removed. */
const BROKER_RECORDS = 1_000;

export class WorkerSessions {
  readonly engine: EnginePort;
  /** The store from which results and states of scripts are read. */
  readonly store: Store;
  readonly clock: Clock;
  readonly #options: WorkerSessionsOptions;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, WorkerSession>();
  readonly #records = new TransientMap<string, AttemptRecord>();
  readonly #ended = new EndedAttempts();
  readonly #silence: SilenceWatch;
  /** How many attempts from the broker have sent a request to this server. */
  #fromBroker = 0;

  constructor(options: WorkerSessionsOptions) {
    this.#options = options;
    this.engine = options.engine;
    this.store = options.store;
    this.clock = options.clock;
    const { engine, store, clock, leaseMs = 30_000, heartbeatMs = 30_000, onFault = () => {} } = options;
    const nodes = () => options.nodes?.() ?? null;
    this.#parts = { engine, store, clock, leaseMs, heartbeatMs, records: this.#records, nodes, onFault };
    this.#silence = new SilenceWatch({
      clock,
      expiryMs: options.expiryMs ?? EXPIRY_MS,
      sessions: this.#sessions,
      onExpired: (session) => this.#end(session),
      onLooked: () => this.#forgetEnded(),
    });
  }

  /**
   * Registers a worker. `peer`: the worker's address, null for a unix socket; `project`: the only project that the worker
   * serves.
   */
  register(body: unknown, peer: string | null, project: string | null = null): Registered | Rejection {
    const registration = checkRegistration(body, peer, project, this.#options.reserved);
    if (isRejection(registration)) return registration;
    const { heartbeatMs, leaseMs } = this.#parts;
    const id = registration.worker ?? this.#newId(registration.name);
    let session = this.#sessions.get(id);
    if (session !== undefined && this.refusalFor(id, project) !== null)
      return reject("forbidden", `worker: ${id} is not in the project "${project}"`, { path: "worker" });
    if (session === undefined) {
      session = new WorkerSession(id, registration, this.#parts);
      this.#sessions.set(id, session);
    }
    session.registration = registration;
    session.isDraining = false;
    session.join();
    session.seen();
    this.#silence.watch(session);
    const nodes = session.nodesToSend();
    return { worker: id, heartbeatMs, leaseMs, ...(nodes === null ? {} : { nodes }), logFields: true };
  }

  /** Returns why a caller that is bound to a project may not act for a worker; null if the caller may, or if no such worker exists. */
  refusalFor(worker: string, project: string | null): Rejection | null {
    const session = this.#sessions.get(worker);
    const isOthers = session !== undefined && project !== null && session.registration.project !== project;
    return isOthers ? unknownWorker(worker) : null;
  }

  /** Notifies waiting workers that the nodes of the cluster have changed. */
  nodesChanged(): void {
    for (const session of this.#sessions.values()) session.nodesChanged();
  }

  /** Keeps the memory size that a worker's process reported. */
  noteMemory(worker: string, bytes: number): void {
    const session = this.#sessions.get(worker);
    if (session !== undefined) session.memoryBytes = bytes;
  }

  /** Waits for work for a worker; null if the client has disconnected. */
  claim(
    worker: string,
    asked: IdentifiedClaim,
    signal: AbortSignal,
  ): Promise<ClaimAnswer | null> | Rejection {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    // The worker counts as silent from the end of the claim on.
    return session.claim(asked, signal).answer.finally(() => this.#silence.watch(session));
  }

  /**
   * Applies events of a worker, and claims work in the same request. The claim is open while the events are committed, so that it
   * gets the tasks that follow them; it does not wait for others.
   */
  async eventsWithClaim(
    worker: string,
    body: unknown,
    { asked, signal }: { readonly asked: Omit<IdentifiedClaim, "waitMs">; readonly signal: AbortSignal },
  ): Promise<{ readonly text: string; readonly claimed: ClaimAnswer | null } | Rejection> {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    const claim = session.claim({ ...asked, waitMs: WAIT_MS_MAX }, signal);
    const committed = this.events(worker, body, true);
    const answer = await /* @plant claim with events waits for work */ committed.finally(claim.end);
    const claimed = await claim.answer;
    this.#silence.watch(session);
    if (isRejection(answer)) {
      claimed?.ended(false);
      return answer;
    }
    const text = JSON.stringify(answer);
    return { text: claimed === null ? text : `${text.slice(0, -1)},"claimed":${claimed.text}}`, claimed };
  }

  /** Applies events of a worker. Resolves when they are committed. `isBrief`: whether the worker reads `rest`. */
  async events(worker: string, body: unknown, isBrief = false): Promise<EventsAnswer | Rejection> {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.seen();
    const read = readEvents(body, this.#options.clock.now(), (id, token) =>
      this.#recordOf(id, token, worker),
    );
    if (isRejection(read)) return read;
    for (const [record, n] of read.acknowledged) record.noteAcknowledged(n);
    const answer = await this.#applyEvents(worker, read.events, isBrief);
    if (isRejection(answer) || read.elsewhere.size === 0) return answer;
    const others = Object.fromEntries(Array.from(read.elsewhere, (id) => [id, "not_owner" as const]));
    return { ...answer, verdicts: { ...answer.verdicts, ...others } };
  }

  /** Applies events without numbers of one attempt. The caller has checked the attempt's token. */
  async attemptEvents(attempt: AttemptRecord, said: readonly Fields[]): Promise<EventsAnswer | Rejection> {
    const events: AttemptEvent[] = [];
    for (const fields of said) {
      const event = readEvent(fields, this.#options.clock.now());
      if (isRejection(event)) return event;
      events.push({ record: attempt, n: null, event });
    }
    this.#sessions.get(attempt.worker)?.seen();
    return this.#applyEvents(attempt.worker, events);
  }

  /** Applies heartbeats. Returns for each attempt: continue, cancel or lost. An attempt with a wrong token counts as lost. */
  heartbeat(worker: string, tokens: unknown): HeartbeatAnswer | Rejection {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.seen();
    if (!isObject(tokens)) return invalid("tokens", "must be an object of tokens by attempt");
    const ids = Object.keys(tokens);
    if (ids.length > BEATS_MAX) return invalid("tokens", `must name at most ${BEATS_MAX} attempts`);
    const beats = new Map<string, Beat & { readonly attempts: object[] }>();
    const words = new Map<string, HeartbeatAnswer[string]>();
    for (const id of ids) {
      const record = this.#recordOf(id, tokens[id], worker);
      if (isRejection(record)) words.set(id, record.code === "not_owner" ? "not_owner" : "lost");
      else if (this.#ended.has(id)) words.set(id, "lost");
      if (isRejection(record) || words.has(id) || record.hasReceipt) continue;
      const { shared, task, attempt, claim } = record;
      let beat = beats.get(shared.key);
      if (beat === undefined) {
        beat = { ...shared.place, attempts: [] };
        beats.set(shared.key, beat);
      }
      beat.attempts.push({ task, attempt, claim });
    }
    // If attempts have lost their lease, the engine notifies the session during this call.
    if (beats.size > 0) this.engine.beat(worker, [...beats.values()]);
    return Object.fromEntries(ids.map((id) => [id, words.get(id) ?? session.answerFor(id)]));
  }

  /**
   * Finds the attempt of a token. It must hold its lease, except for a receipt. For a read, the attempt may belong to another
   * node.
   */
  async attempt(
    id: string,
    token: string | null,
    options: { isReceipt?: boolean; isRead?: boolean } = {},
  ): Promise<AttemptRecord | Rejection> {
    if (token === null) return reject("unauthorised", "the attempt's token is needed as the bearer");
    const at = decodeAttempt(id);
    if (at === null || !checkToken(this.engine.info.key, id, token))
      return reject("forbidden", "this token does not belong to this attempt", { hint: ATTEMPT_HINT });
    const epoch = this.engine.epochOf(at.execution);
    if (epoch === null)
      return options.isRead === true ? this.#elsewhere(id, token) : this.#notHere(id, at.execution);
    // If this owner granted the attempt but has no record of it, the attempt is at the broker or has lost its lease. An attempt
    // that another owner granted may still hold its lease.
    const isUnknown = this.#known(id, epoch) === undefined;
    const holder = !isUnknown
      ? null
      : at.epoch < epoch
        ? await this.#beatOne(at, UNKNOWN_WORKER)
        : this.#atBroker(at);
    if (isRejection(holder)) return holder;
    const worker = holder?.worker ?? (options.isReceipt === true ? UNKNOWN_WORKER : null);
    const known = this.#known(id, epoch);
    const record = known ?? (worker === null ? null : this.#adopt(id, token, { at, worker, term: epoch }));
    return record === null || record.hasReceipt ? staleAttempt(id) : record;
  }

  /** The progress of a script's attempt, from committed state; null if the attempt runs no script. */
  async script(
    record: AttemptRecord,
  ): Promise<(ScriptFacts & { readonly project: string }) | null | Rejection> {
    const { id, shared, task, attempt, claim } = record;
    const at = { ...shared.place, task, attempt, claim };
    const found = await this.engine.inspect(at.execution, at);
    if (isRejection(found)) return found;
    if (!found.attempt) return staleAttempt(id);
    const { script } = found.attempt;
    return script === null ? null : { ...script, project: found.view.project };
  }

  /** Applies a heartbeat of one attempt, which its token authenticates. */
  async beat(record: AttemptRecord): Promise<HeartbeatAnswer[string] | Rejection> {
    this.#sessions.get(record.worker)?.seen();
    const { shared, task, attempt, claim } = record;
    const holder = await this.#beatOne({ ...shared.place, task, attempt, claim }, record.worker);
    if (isRejection(holder)) return holder;
    return holder === null ? "lost" : holder.isCancelled ? "cancel" : "continue";
  }

  /** The number of the newest visit of a phase, for an attempt that was granted elsewhere. */
  async newestVisit(record: AttemptRecord, phase: string): Promise<number | undefined> {
    const inspection = await this.engine.inspect(record.shared.place.execution);
    if (isRejection(inspection)) return undefined;
    return inspection.view.phases.findLast(({ name }) => name === phase)?.visit;
  }

  /** Asks a worker to leave, in the answer to its next claim. */
  drain(worker: string): Rejection | null {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.drain();
    return null;
  }

  /** Deregisters a worker: its attempts end by their own rules, and items that it has not received go to other workers. */
  leave(worker: string): Rejection | null {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    this.#end(session);
    return null;
  }

  /** All workers of this node, with the workers inside the process. */
  list(): Worker[] {
    const { counted } = countWorkers(this.engine.overview());
    return counted.map((entry) => viewWorker(entry, this.#sessions.get(entry.id)));
  }

  /** Sends no more work. Resolves when items that no worker has received are handed back to the engine. */
  async quiesce(): Promise<void> {
    await Promise.all(Array.from(this.#sessions.values(), (session) => session.quiesce()));
  }

  /** Answers all waiting claims and ends all sessions. */
  close(): void {
    this.#silence.stop();
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
    this.#records.clear();
  }

  /** The number of attempts of which this server has a record. */
  get recordCount(): number {
    return this.#records.size;
  }

  #newId(name: string): string {
    const { clock, random } = this.#options;
    return `${name}~${newExecutionId(clock.now(), random).slice(3)}`;
  }

  /** Finds the record of an attempt by its token. An attempt that another owner granted is adopted. */
  #recordOf(id: string, token: unknown, worker: string): AttemptRecord | Rejection {
    const last = this.#records.get(id);
    if (typeof token !== "string") return wrongToken(id);
    if (last !== undefined && !isSameToken(last.token, token)) return wrongToken(id);
    const execution = last?.shared.place.execution ?? decodeAttempt(id)?.execution;
    const term = execution === undefined ? null : this.engine.epochOf(execution);
    if (last !== undefined && last.term === term) return last;
    const at = decodeAttempt(id);
    if (at === null || !checkToken(this.engine.info.key, id, token)) return wrongToken(id);
    return term === null ? this.#notHere(id, at.execution) : this.#adopt(id, token, { at, worker, term });
  }

  #adopt(id: string, token: string, taken: Parameters<typeof AttemptRecord.adopted>[2]): AttemptRecord {
    const record = AttemptRecord.adopted(id, token, taken);
    this.#records.set(id, record);
    return record;
  }

  /**
   * The record of an attempt if it was made in this epoch. After an earlier epoch another node may have stored later events.
   */
  #known(id: string, term: number): AttemptRecord | undefined {
    const record = this.#records.get(id);
    return record?.term === term ? record : undefined;
  }

  /** The holder of an attempt that a worker received from the broker; null if the attempt has no lease. */
  #atBroker(at: ReportedAttempt): AttemptHolder | null {
    const holder = this.engine.holderOf(at);
    if (holder?.worker !== BROKER_WORKER) return null;
    if (++this.#fromBroker % BROKER_RECORDS === 0) this.#forgetEnded();
    return holder;
  }

  /**
   * Removes records of attempts that other nodes own or that have no lease. Most records are removed with the attempt's
   * receipt. Some remain: an event that is repeated after the receipt makes a new record, and receipts of attempts from the
   * broker do not come to this server. If another event of a removed attempt arrives, the attempt is adopted again.
   */
  #forgetEnded(): void {
    for (const { id, term, hasReceipt, shared, task, attempt, claim } of [...this.#records.values()]) {
      const isElsewhere = this.engine.epochOf(shared.place.execution) !== term;
      const hasLease = () => this.engine.holderOf({ ...shared.place, task, attempt, claim }) !== null;
      if (isElsewhere || (!hasReceipt && !hasLease())) this.#records.delete(id);
    }
  }

  /** Finds an attempt of another node, for a read. No record of it is kept. */
  async #elsewhere(id: string, token: string): Promise<AttemptRecord | Rejection> {
    const at = decodeAttempt(id) as ReportedAttempt;
    const found = await this.engine.inspect(at.execution, at);
    // A node of an earlier version refuses a question about an attempt; the attempt then counts as one of another node.
    if (isRejection(found)) return found.code === "unknown_field" ? this.#notHere(id, at.execution) : found;
    if (!found.attempt) return staleAttempt(id);
    return AttemptRecord.adopted(id, token, { at, worker: found.attempt.worker, term: -1 });
  }

  #notHere(id: string, execution: string): Rejection {
    this.#records.delete(id);
    return reject("not_owner", `execution ${execution} belongs to another node`);
  }

  /** Sends a heartbeat of one attempt to the engine. Returns the worker that holds the attempt; null if none does. */
  async #beatOne(at: ReportedAttempt, worker: string): Promise<AttemptHolder | null | Rejection> {
    const { task, attempt, claim, ...place } = at;
    this.engine.beat(worker, [{ ...place, attempts: [{ task, attempt, claim }] }]);
    const holder = this.engine.holderOf(at);
    if (holder !== null) return holder;
    // `inspect` loads the execution if it is not in memory. Then the holder is looked up again.
    const inspection = await this.engine.inspect(at.execution);
    if (isRejection(inspection) && inspection.code !== "not_found") return inspection;
    return this.engine.holderOf(at);
  }

  async #applyEvents(
    worker: string,
    events: readonly AttemptEvent[],
    isBrief = false,
  ): Promise<EventsAnswer | Rejection> {
    const batch = new EventBatch(
      (execution) => this.engine.epochOf(execution) ?? 0,
      ({ shared, task, attempt, claim }) =>
        this.engine.holderOf({ ...shared.place, task, attempt, claim }) !== null,
    );
    const gaps = new Set<AttemptRecord>();
    const commits = new Set<Promise<Rejection | null>>();
    for (const { record, n, event } of events) {
      // Events that arrive after an earlier receipt of the attempt do not count as stored.
      const isOver = record.hasReceipt && !batch.newest.has(record);
      const isNew = n === null || n === record.received + 1 || record.isOlder(n);
      if (isNew && !isOver) batch.add(record, n, event);
      else {
        if (n !== null && n > record.received && !isOver) gaps.add(record);
        if (record.committing !== null) commits.add(record.committing);
      }
    }
    if (batch.newest.size > 0) {
      const commit = this.#commit(worker, batch);
      for (const record of batch.newest.keys()) record.committing = commit;
      commits.add(commit);
    }
    for (const failed of await Promise.all(commits)) if (failed !== null) return failed;
    return answerOf(events, { batch, gaps, isBrief });
  }

  /**
   * Sends the reports of a batch to the engine. If the engine has stopped, the outcome is unknown, and the worker repeats the
   * events.
   */
  async #commit(worker: string, batch: EventBatch): Promise<Rejection | null> {
    const { engine } = this.#options;
    const reports = batch.build();
    const verdicts = engine.hasStopped || reports.length === 0 ? [] : await engine.report(worker, reports);
    if (verdicts.length !== reports.length || engine.hasStopped) {
      batch.undo();
      return reject("not_ready", "the engine has stopped", { hint: "try again a little later" });
    }
    batch.settle(verdicts);
    for (const record of batch.newest.keys()) {
      const isElsewhere = batch.elsewhere.has(record);
      const isOver =
        isElsewhere || record.hasReceipt || ["stale", "late", "gone"].includes(record.verdict ?? "");
      if (record.hasReceipt && !isElsewhere) this.#ended.note(record);
      if (isOver && this.#records.get(record.id) === record) this.#records.delete(record.id);
    }
    return null;
  }

  #end(session: WorkerSession): void {
    session.end();
    this.engine.leave(session.id);
    this.#sessions.delete(session.id);
    for (const record of [...this.#records.values()])
      if (record.worker === session.id) this.#records.delete(record.id);
  }
}
