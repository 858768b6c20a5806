/**
 * The server's side of the worker protocol: who is registered, and what they say about their attempts. Over an engine
 * and its store; knows nothing of HTTP.
 *
 * 1. A session lives while its worker is heard of: by a request, or by a claim that waits.
 * 2. Whatever is said about an attempt carries its token, which fits that attempt only.
 * 3. Events are numbered per attempt. What is new goes to the engine and is acknowledged after the commit; a repeat is
 *    acknowledged, what comes after a gap is not.
 */
import type { Engine } from "../../engine/driver.ts";
import { checkToken, decodeAttempt, isSameToken } from "../../protocol/attempt-id.ts";
import type { Beat } from "../../protocol/work.ts";
import type { ClaimRequest, EventsAnswer, HeartbeatAnswer, Registered } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";
import { AttemptRecord } from "./attempt-record.ts";
import { EventBatch } from "./event-batch.ts";
import { type ReadEvent, readEvent } from "./read-event.ts";
import { checkRegistration } from "./registration.ts";
import { type ClaimAnswer, type SessionParts, WorkerSession } from "./worker-session.ts";

export interface WorkerSessionsOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** What workers are told at registration; the engine's own settings decide. */
  readonly heartbeatMs?: number;
  readonly leaseMs?: number;
  /** Silence after which a worker is forgotten. */
  readonly expiryMs?: number;
  /** A fault of the world behind the back of any request. */
  readonly onFault?: (fault: unknown) => void;
}

/** A worker as lists show it. */
export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly kind: "local" | "remote";
  readonly capacity: number;
  readonly held: number;
  readonly handlers: readonly { readonly use: string; readonly version?: string }[];
  readonly topics: readonly string[];
  readonly version: string | null;
  readonly url: string | null;
  readonly lastSeenAt: number | null;
  readonly draining: boolean;
}

interface NumberedEvent {
  readonly record: AttemptRecord;
  readonly n: number;
  readonly event: ReadEvent;
}

type Fields = Readonly<Record<string, unknown>>;

const EXPIRY_MS = 90_000;
const EVENTS_MAX = 50_000;
const BEATS_MAX = 100_000;

export class WorkerSessions {
  readonly #options: WorkerSessionsOptions;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, WorkerSession>();
  readonly #records = new Map<string, AttemptRecord>();
  #stopSweep: (() => void) | null = null;

  constructor(options: WorkerSessionsOptions) {
    this.#options = options;
    const { engine, store, clock, leaseMs = 30_000, onFault = () => {} } = options;
    this.#parts = { engine, store, clock, leaseMs, records: this.#records, onFault };
  }

  /** The store that results and states are read from. */
  get store(): Store {
    return this.#options.store;
  }

  get engine(): Engine {
    return this.#options.engine;
  }

  /** Takes a worker on, or takes it on again; `peer` is the address it asks from, null for a unix socket. */
  register(body: unknown, peer: string | null): Registered | Rejection {
    const registration = checkRegistration(body, peer);
    if (isRejection(registration)) return registration;
    const id = registration.worker ?? this.#newId(registration.name);
    let session = this.#sessions.get(id);
    if (session === undefined) {
      session = new WorkerSession(id, registration, this.#parts);
      this.#sessions.set(id, session);
    }
    session.registration = registration;
    session.isDraining = false;
    session.seen();
    session.join();
    this.#stopSweep ??= this.#sweepLater();
    const { heartbeatMs = 30_000 } = this.#options;
    return { worker: id, heartbeatMs, leaseMs: this.#parts.leaseMs };
  }

  /** Work for a worker, once there is some; null: the client has gone. */
  claim(worker: string, asked: ClaimRequest, signal: AbortSignal): Promise<ClaimAnswer | null> | Rejection {
    return this.#sessions.get(worker)?.claim(asked, signal) ?? unknownWorker(worker);
  }

  /** What a worker says about its attempts; resolves once that is committed. */
  async events(worker: string, body: unknown): Promise<EventsAnswer | Rejection> {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.seen();
    const events = this.#readAll(worker, body);
    return isRejection(events) ? events : this.#take(worker, events);
  }

  /** The same for one attempt, by its token, without numbers: each event is the next one. */
  async say(attempt: AttemptRecord, said: readonly Fields[]): Promise<EventsAnswer | Rejection> {
    const events: NumberedEvent[] = [];
    let n = Math.max(0, attempt.received);
    for (const fields of said) {
      const event = readEvent(fields, this.#options.clock.now());
      if (isRejection(event)) return event;
      events.push({ record: attempt, n: ++n, event });
    }
    this.#sessions.get(attempt.worker)?.seen();
    return this.#take(attempt.worker, events);
  }

  /** Keeps attempts alive; says for each whether to go on. */
  heartbeat(worker: string, tokens: unknown): HeartbeatAnswer | Rejection {
    const session = this.#sessions.get(worker);
    if (session === undefined) return unknownWorker(worker);
    session.seen();
    if (!isObject(tokens)) return invalid("tokens", "must be an object of tokens by attempt");
    const ids = Object.keys(tokens);
    if (ids.length > BEATS_MAX) return invalid("tokens", `must name at most ${BEATS_MAX} attempts`);
    const beats = new Map<string, Beat & { readonly attempts: object[] }>();
    for (const id of ids) {
      const record = this.#recordOf(id, tokens[id], worker);
      if (isRejection(record)) return record;
      if (record.hasReceipt) continue;
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
    return Object.fromEntries(ids.map((id) => [id, session.wordOn(id)]));
  }

  /** The attempt that a token opens: one that holds its lease; for its receipt, any. */
  attempt(
    id: string,
    token: string | null,
    options: { isReceipt?: boolean } = {},
  ): AttemptRecord | Rejection {
    if (token === null) return reject("unauthorised", "the attempt's token is needed as the bearer");
    const known = this.#records.get(id);
    const worker = known?.worker ?? "unknown";
    const found = known === undefined && !options.isReceipt ? null : this.#recordOf(id, token, worker);
    if (found !== null && !isRejection(found)) return found.hasReceipt ? staleAttempt(id) : found;
    if (found !== null || decodeAttempt(id) === null || !checkToken(this.engine.info.key, id, token))
      return reject("forbidden", "this token does not open this attempt");
    return staleAttempt(id);
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
  list(): WorkerView[] {
    return this.engine.overview().workers.map(({ id, local, capacity, held, serves }) => {
      const session = this.#sessions.get(id);
      return {
        id,
        name: session?.registration.name ?? id,
        kind: local ? "local" : "remote",
        capacity,
        held,
        handlers: serves.map(({ use, version }) => (version === undefined ? { use } : { use, version })),
        topics: session?.registration.topics ?? [],
        version: session?.registration.version ?? null,
        url: session?.registration.url ?? null,
        lastSeenAt: session?.lastSeenAt ?? null,
        draining: session?.isDraining ?? false,
      };
    });
  }

  /** Answers every claim that waits; nobody is registered any more. */
  close(): void {
    this.#stopSweep?.();
    this.#stopSweep = null;
    for (const session of this.#sessions.values()) session.end();
    this.#sessions.clear();
    this.#records.clear();
  }

  #newId(name: string): string {
    const { clock, random } = this.#options;
    return `${name}~${newExecutionId(clock.now(), random).slice(3)}`;
  }

  /** Checks tokens and reads events; nothing is taken before all of them can be. */
  #readAll(worker: string, body: unknown): NumberedEvent[] | Rejection {
    if (!isObject(body)) return invalid("body", "must be an object");
    const { tokens, events, ...more } = body;
    const [unknown] = Object.keys(more);
    if (unknown !== undefined)
      return reject("unknown_field", `${unknown.slice(0, 100)}: there is no such field`, { path: unknown });
    if (!isObject(tokens)) return invalid("tokens", "must be an object of tokens by attempt");
    if (!Array.isArray(events) || events.length > EVENTS_MAX)
      return invalid("events", `must be a list of at most ${EVENTS_MAX} events`);
    const now = this.#options.clock.now();
    const opened = new Map<string, AttemptRecord>();
    const read: NumberedEvent[] = [];
    for (let i = 0; i < events.length; i++) {
      const fields: unknown = events[i];
      if (!isObject(fields)) return invalid(`events[${i}]`, "must be an object");
      const { attempt, n } = fields;
      if (typeof attempt !== "string") return invalid(`events[${i}].attempt`, "must be the id of an attempt");
      if (!Number.isSafeInteger(n) || (n as number) < 1)
        return invalid(`events[${i}].n`, "must be a number from 1");
      let record = opened.get(attempt);
      if (record === undefined) {
        const found = this.#recordOf(attempt, tokens[attempt], worker);
        if (isRejection(found)) return found;
        record = found;
        opened.set(attempt, record);
      }
      const event = readEvent(fields, now);
      if (isRejection(event))
        return {
          ...event,
          message: `events[${i}].${event.message}`,
          path: `events[${i}].${event.path ?? ""}`,
        };
      read.push({ record, n: n as number, event });
    }
    return read;
  }

  /** The record of an attempt that its token opens; one that another owner gave out is taken over as it is. */
  #recordOf(id: string, token: unknown, worker: string): AttemptRecord | Rejection {
    const known = this.#records.get(id);
    if (typeof token !== "string") return wrongToken(id);
    if (known !== undefined) return isSameToken(known.token, token) ? known : wrongToken(id);
    const at = decodeAttempt(id);
    if (at === null || !checkToken(this.engine.info.key, id, token)) return wrongToken(id);
    const record = AttemptRecord.adopted(id, token, at, worker);
    this.#records.set(id, record);
    return record;
  }

  async #take(worker: string, events: readonly NumberedEvent[]): Promise<EventsAnswer | Rejection> {
    const batch = new EventBatch();
    const commits = new Set<Promise<Rejection | null>>();
    const named = new Set<AttemptRecord>();
    for (const { record, n, event } of events) {
      named.add(record);
      if (record.received < 0) {
        record.received = n - 1;
        record.stored = n - 1;
      }
      // Of one that is adopted, an old event may have come first; what lies between was stored by its former owner.
      if (n === record.received + 1 || (record.isAdopted && n > record.received)) batch.add(record, n, event);
      else if (n <= record.received && record.committing !== null) commits.add(record.committing);
    }
    if (batch.newest.size > 0) {
      const commit = this.#commit(worker, batch);
      for (const record of batch.newest.keys()) record.committing = commit;
      commits.add(commit);
    }
    for (const failed of await Promise.all(commits)) if (failed !== null) return failed;
    return answerOf(named, batch);
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
      const isOver = record.hasReceipt || ["stale", "late", "gone"].includes(record.verdict ?? "");
      if (isOver && this.#records.get(record.id) === record) this.#records.delete(record.id);
    }
    return null;
  }

  /** Forgets workers that have gone silent. */
  #sweepLater(): () => void {
    const { clock, expiryMs = EXPIRY_MS } = this.#options;
    return clock.after(expiryMs / 3, () => {
      const silentSince = clock.now() - expiryMs;
      for (const session of [...this.#sessions.values()]) {
        if (!session.hasOpenClaim && session.lastSeenAt <= silentSince) this.#end(session);
      }
      this.#stopSweep = this.#sessions.size === 0 ? null : this.#sweepLater();
    });
  }

  #end(session: WorkerSession): void {
    session.end();
    this.engine.leave(session.id);
    this.#sessions.delete(session.id);
    for (const record of [...this.#records.values()])
      if (record.worker === session.id) this.#records.delete(record.id);
  }
}

function answerOf(named: ReadonlySet<AttemptRecord>, batch: EventBatch): EventsAnswer {
  const stored: Record<string, number> = {};
  const verdicts: Record<string, NonNullable<AttemptRecord["verdict"]>> = {};
  for (const record of named) {
    stored[record.id] = Math.max(0, record.stored);
    const isRepeat = record.hasReceipt && !batch.newest.has(record);
    verdicts[record.id] = isRepeat ? "duplicate" : (record.verdict ?? "accepted");
  }
  return { stored, verdicts };
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function unknownWorker(worker: string): Rejection {
  return reject("not_found", `no worker ${worker.slice(0, 100)} is registered here`, {
    hint: "register again, with the same id",
  });
}

function wrongToken(id: string): Rejection {
  return reject("stale_attempt", `no valid token for the attempt ${id.slice(0, 200)}`, {
    path: `tokens.${id.slice(0, 200)}`,
    hint: "send the token that came with the attempt",
  });
}

function staleAttempt(id: string): Rejection {
  return reject("stale_attempt", `the attempt ${id} does not hold its lease any more`, {
    hint: "its receipt can still be sent; nothing else",
  });
}

function invalid(path: string, why: string): Rejection {
  return reject("invalid_input", `${path}: ${why}`, { path });
}
