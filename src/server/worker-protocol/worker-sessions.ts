/**
 * The server's side of the worker protocol: who is registered, and what they say about their attempts. Over an engine
 * and its store; knows nothing of HTTP.
 *
 * 1. A session lives while its worker is heard of: by a request, or by a claim that waits.
 * 2. Whatever is said about an attempt carries its token, which fits that attempt only.
 * 3. Events are numbered per attempt. What is new goes to the engine and is acknowledged after the commit; a repeat is
 *    acknowledged, what comes after a gap is not.
 * 4. An attempt of an earlier owner is taken over as it is, by whatever is said about it: the engine decides whether it
 *    holds its lease. Of one that another node has, nothing is taken: the worker says it there.
 */

import type { EnginePort } from "../../engine/engine-port.ts";
import type { AttemptHolder, ScriptFacts } from "../../engine/leases/attempt-facts.ts";
import { ATTEMPT_HINT, checkToken, decodeAttempt, isSameToken } from "../../protocol/attempt-id.ts";
import { type Beat, type ReportedAttempt, UNKNOWN_WORKER } from "../../protocol/work.ts";
import type { ClaimRequest, EventsAnswer, HeartbeatAnswer, Registered } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { type Fields, invalid, isObject } from "../../std/decode.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";
import type { Worker } from "../schemas/worker.ts";
import { AttemptRecord, EndedAttempts } from "./attempt-record.ts";
import { answerOf, EventBatch, staleAttempt, unknownWorker, wrongToken } from "./event-batch.ts";
import { SilenceWatch } from "./presence.ts";
import { readEvent } from "./read-event.ts";
import { type AttemptEvent, readEvents } from "./read-events.ts";
import { checkRegistration } from "./registration.ts";
import { type ClaimAnswer, type SessionParts, WorkerSession } from "./worker-session.ts";
import { countWorkers, viewWorker } from "./worker-views.ts";

export interface WorkerSessionsOptions {
  /** Why nobody may use a name as a topic; null: it is not reserved. */
  readonly reserved?: (topic: string) => Rejection | null;
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** What workers are told at registration; for their attempts the engine's own settings decide. */
  readonly heartbeatMs?: number;
  readonly leaseMs?: number;
  /** Silence after which a worker is forgotten. */
  readonly expiryMs?: number;
  /** The URLs of the cluster's nodes that are alive, this one included; left out: there is only this server. */
  readonly nodes?: () => readonly string[];
  /** A fault of the world behind the back of any request. */
  readonly onFault?: (fault: unknown) => void;
}

const EXPIRY_MS = 90_000;
const BEATS_MAX = 100_000;

export class WorkerSessions {
  readonly engine: EnginePort;
  /** The store that results and states are read from. */
  readonly store: Store;
  readonly clock: Clock;
  readonly #options: WorkerSessionsOptions;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, WorkerSession>();
  readonly #records = new Map<string, AttemptRecord>();
  readonly #ended = new EndedAttempts();
  readonly #silence: SilenceWatch;

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
      // Attempts whose partitions are elsewhere by now are forgotten too.
      onLooked: () => {
        for (const { id, term, shared } of [...this.#records.values()])
          if (this.engine.epochOf(shared.place.execution) !== term) this.#records.delete(id);
      },
    });
  }

  /** Registers a worker, or again; `peer`: its address, null for a unix socket; `project`: the only one that it serves. */
  register(body: unknown, peer: string | null, project: string | null = null): Registered | Rejection {
    const registration = checkRegistration(body, peer, project, this.#options.reserved);
    if (isRejection(registration)) return registration;
    const { heartbeatMs, leaseMs } = this.#parts;
    const id = registration.worker ?? this.#newId(registration.name);
    let session = this.#sessions.get(id);
    if (session !== undefined && this.refusalFor(id, project) !== null)
      return reject("forbidden", `worker: ${id} is not of the project "${project}"`, { path: "worker" });
    if (session === undefined) {
      session = new WorkerSession(id, registration, this.#parts);
      this.#sessions.set(id, session);
    }
    session.registration = registration;
    session.isDraining = false;
    session.join();
    session.seen();
    this.#silence.watch(session);
    const nodes = session.tellNodes();
    return { worker: id, heartbeatMs, leaseMs, ...(nodes === null ? {} : { nodes }) };
  }

  /** Why one who is bound to a project may not speak for a worker; null: it may, or there is none to speak for. */
  refusalFor(worker: string, project: string | null): Rejection | null {
    const session = this.#sessions.get(worker);
    const isOthers = session !== undefined && project !== null && session.registration.project !== project;
    return isOthers ? unknownWorker(worker) : null;
  }

  /** The cluster has other nodes than before: whoever waits for work is told at once. */
  nodesChanged(): void {
    for (const session of this.#sessions.values()) session.nodesChanged();
  }

  /** How much memory a worker's process takes, by its own word. */
  noteMemory(worker: string, bytes: number): void {
    const session = this.#sessions.get(worker);
    if (session !== undefined) session.memoryBytes = bytes;
  }

  /** Work for a worker, once there is some; null: the client has gone. */
  claim(worker: string, asked: ClaimRequest, signal: AbortSignal): Promise<ClaimAnswer | null> | Rejection {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    // Once the claim has ended, the worker's silence counts.
    return session.claim(asked, signal).finally(() => this.#silence.watch(session));
  }

  /** What a worker says about its attempts; resolves once that is committed. */
  async events(worker: string, body: unknown): Promise<EventsAnswer | Rejection> {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.seen();
    const read = readEvents(body, this.#options.clock.now(), (id, token) =>
      this.#recordOf(id, token, worker),
    );
    if (isRejection(read)) return read;
    for (const [record, n] of read.acknowledged) record.noteAcknowledged(n);
    const answer = await this.#take(worker, read.events);
    if (isRejection(answer) || read.elsewhere.size === 0) return answer;
    const others = Object.fromEntries(Array.from(read.elsewhere, (id) => [id, "not_owner" as const]));
    return { ...answer, verdicts: { ...answer.verdicts, ...others } };
  }

  /** The same for one attempt, by its token, without numbers. */
  async say(attempt: AttemptRecord, said: readonly Fields[]): Promise<EventsAnswer | Rejection> {
    const events: AttemptEvent[] = [];
    for (const fields of said) {
      const event = readEvent(fields, this.#options.clock.now());
      if (isRejection(event)) return event;
      events.push({ record: attempt, n: null, event });
    }
    this.#sessions.get(attempt.worker)?.seen();
    return this.#take(attempt.worker, events);
  }

  /** Keeps attempts alive; says for each whether to go on. One that its token does not open is none of the worker's. */
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
    // Those whose leases are gone are told to the session meanwhile.
    if (beats.size > 0) this.engine.beat(worker, [...beats.values()]);
    return Object.fromEntries(ids.map((id) => [id, words.get(id) ?? session.wordOn(id)]));
  }

  /** The attempt that a token opens: one that holds its lease; for its receipt, any; to be read, also at another node. */
  async attempt(
    id: string,
    token: string | null,
    options: { isReceipt?: boolean; isRead?: boolean } = {},
  ): Promise<AttemptRecord | Rejection> {
    if (token === null) return reject("unauthorised", "the attempt's token is needed as the bearer");
    const at = decodeAttempt(id);
    if (at === null || !checkToken(this.engine.info.key, id, token))
      return reject("forbidden", "this token does not open this attempt", { hint: ATTEMPT_HINT });
    const epoch = this.engine.epochOf(at.execution);
    if (epoch === null)
      return options.isRead === true ? this.#elsewhere(id, token) : this.#notHere(id, at.execution);
    // What is not known of this owner's own has lost its lease; what another gave out may hold it still.
    const isForeign = this.#known(id, epoch) === undefined && at.epoch < epoch;
    const holder = isForeign ? await this.#beatOne(at, UNKNOWN_WORKER) : null;
    if (isRejection(holder)) return holder;
    const worker = holder?.worker ?? (options.isReceipt === true ? UNKNOWN_WORKER : null);
    const known = this.#known(id, epoch);
    const record = known ?? (worker === null ? null : this.#adopt(id, token, { at, worker, term: epoch }));
    return record === null || record.hasReceipt ? staleAttempt(id) : record;
  }

  /** How far an attempt of a script is, from committed state; null: it is none. */
  async script({ id, shared, task, attempt, claim }: AttemptRecord): Promise<ScriptFacts | null | Rejection> {
    const at = { ...shared.place, task, attempt, claim };
    const found = await this.engine.inspect(at.execution, at);
    if (isRejection(found)) return found;
    return found.attempt ? found.attempt.script : staleAttempt(id);
  }

  /** Keeps one attempt alive, by its token. */
  async beat(record: AttemptRecord): Promise<HeartbeatAnswer[string] | Rejection> {
    this.#sessions.get(record.worker)?.seen();
    const { shared, task, attempt, claim } = record;
    const holder = await this.#beatOne({ ...shared.place, task, attempt, claim }, record.worker);
    if (isRejection(holder)) return holder;
    return holder === null ? "lost" : holder.isCancelled ? "cancel" : "continue";
  }

  /** The newest visit of a phase, for an attempt of which only its token is known. */
  async newestVisit(record: AttemptRecord, phase: string): Promise<number | undefined> {
    const inspection = await this.engine.inspect(record.shared.place.execution);
    if (isRejection(inspection)) return undefined;
    return inspection.view.phases.findLast(({ name }) => name === phase)?.visit;
  }

  /** Its next claim is told to leave. */
  drain(worker: string): Rejection | null {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.drain();
    return null;
  }

  /** A worker says goodbye: what it has ends by its own rules, what it was not sent goes to others. */
  leave(worker: string): Rejection | null {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    this.#end(session);
    return null;
  }

  /** Every worker of this node, those inside the process included. */
  list(): Worker[] {
    const { counted } = countWorkers(this.engine.overview());
    return counted.map((entry) => viewWorker(entry, this.#sessions.get(entry.id)));
  }

  /** Gives out nothing more; resolves when whatever no worker has got is on its way back to the engine. */
  async quiesce(): Promise<void> {
    await Promise.all(Array.from(this.#sessions.values(), (session) => session.quiesce()));
  }

  /** Answers every claim that waits; nobody is registered any more. */
  close(): void {
    this.#silence.stop();
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
    this.#records.clear();
  }

  #newId(name: string): string {
    const { clock, random } = this.#options;
    return `${name}~${newExecutionId(clock.now(), random).slice(3)}`;
  }

  /** The record of an attempt that its token opens; one that another owner gave out is taken over as it is. */
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

  /** What is known of an attempt; not what was known in an earlier term, since others may have heard more of it. */
  #known(id: string, term: number): AttemptRecord | undefined {
    const record = this.#records.get(id);
    return record?.term === term ? record : undefined;
  }

  /** An attempt that another node has, to be read from. Nothing of it is kept here. */
  async #elsewhere(id: string, token: string): Promise<AttemptRecord | Rejection> {
    const at = decodeAttempt(id) as ReportedAttempt;
    const found = await this.engine.inspect(at.execution, at);
    // An earlier version of the owner does not know the question.
    if (isRejection(found)) return found.code === "unknown_field" ? this.#notHere(id, at.execution) : found;
    if (!found.attempt) return staleAttempt(id);
    return AttemptRecord.adopted(id, token, { at, worker: found.attempt.worker, term: -1 });
  }

  #notHere(id: string, execution: string): Rejection {
    this.#records.delete(id);
    return reject("not_owner", `execution ${execution} is at another node`);
  }

  /** A beat of one attempt, and who holds it then; null: nobody does. */
  async #beatOne(at: ReportedAttempt, worker: string): Promise<AttemptHolder | null | Rejection> {
    const { task, attempt, claim, ...place } = at;
    this.engine.beat(worker, [{ ...place, attempts: [{ task, attempt, claim }] }]);
    const holder = this.engine.holderOf(at);
    if (holder !== null) return holder;
    // It may have to be loaded first.
    const inspection = await this.engine.inspect(at.execution);
    if (isRejection(inspection) && inspection.code !== "not_found") return inspection;
    return this.engine.holderOf(at);
  }

  async #take(worker: string, events: readonly AttemptEvent[]): Promise<EventsAnswer | Rejection> {
    const batch = new EventBatch(
      (execution) => this.engine.epochOf(execution) ?? 0,
      ({ shared, task, attempt, claim }) =>
        this.engine.holderOf({ ...shared.place, task, attempt, claim }) !== null,
    );
    const gaps = new Set<AttemptRecord>();
    const commits = new Set<Promise<Rejection | null>>();
    const named = new Map<AttemptRecord, number[]>();
    for (const { record, n, event } of events) {
      const numbers = named.get(record) ?? [];
      named.set(record, numbers);
      if (n !== null) numbers.push(n);
      // Nothing counts as stored before the receipt that came before it.
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
    return answerOf(named, batch, gaps);
  }

  /** Hands a batch to the engine. If that has stopped, nobody knows what became of it: the worker sends it again. */
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
