/**
 * One registration of a remote worker: the handlers that it serves, its capacity, and the attempts that it holds.
 * 1. It registers at every node of the cluster under the same id. While it has free slots, it claims at each node an equal share of them,
 *    at least one attempt. Attempts above `capacity` wait here without being started.
 * 2. Its events are numbered, kept until they are acknowledged (in a spool too, if it has one), and sent again after a reconnect. They go
 *    to the node that granted the attempt or that owns it now, so the end of a node does not end an attempt.
 * 3. It sends heartbeats while it has attempts, and stops attempts that their node does not want any more.
 * 4. It stops gracefully: it stops claiming, returns attempts that have not started, and lets the others end within a grace period.
 */
import { topicOf } from "../../kernel/command/topic-rules.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { type Grant, SCRIPT_USE } from "../../protocol/work.ts";
import type { Claimed, Registered, Registration } from "../../protocol/worker-wire.ts";
import { assert } from "../../std/assert.ts";
import { BackOff } from "../../std/back-off.ts";
import { newExecutionId } from "../../std/id.ts";
import { atMost, sleep } from "../../std/within.ts";
import { reportPlace } from "../attempt-place.ts";
import type { HostedPart } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import { type NetworkWorkerOptions, Worker } from "../worker.ts";
import { beatsOf, type HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import { FIRST } from "./membership.ts";
import { NodeSession, type SessionParts } from "./node-session.ts";
import { NodeSessions, type SessionEvents } from "./node-sessions.ts";
import { Outbox } from "./outbox.ts";
import { readWork } from "./read-work.ts";
import { RemoteResults } from "./remote-results.ts";
import type { Connect } from "./server-link.ts";
import type { Refused } from "./server-problem.ts";
import { type DamagedSpool, Spool, type SpooledEvent } from "./spool.ts";

export interface WorkerLaneOptions extends NetworkWorkerOptions {
  /** The configured addresses, `http(s)://host:port` or `unix:<path>`. If there are none, `setNodes` names the nodes. */
  readonly addresses: readonly string[];
  /** The URL of the node of this process. The worker claims nothing there, but its attempts may move there. */
  readonly own?: string;
  readonly token?: string;
  /** Opens the requests to an address; by default they go over HTTP. */
  readonly connect?: Connect;
  /** The id to register under; by default it is made from the name. */
  readonly worker?: string;
  /** The options of scripts. Without them, this worker runs no scripts. */
  readonly scripts?: ScriptOptions;
  /** A directory for unacknowledged events; null if they are kept in memory only. */
  readonly spool: string | null;
  /** The address of the worker's status API; null if it has none. */
  readonly url: () => string | null;
  readonly version: string;
  /** Called when the worker is registered under this id. */
  readonly onRegistered: (worker: string) => void;
  /** Called if every address refuses this worker and it was never registered. Without this callback, the worker keeps trying. */
  readonly onRefused?: (why: Refused) => void;
  /** Called if the server asks the worker to stop. */
  readonly onDrain: () => void;
  /** Called if the server refuses the events of an attempt for good. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  /** Called if a spool file of a former process is damaged; its readable events are sent. */
  readonly onDamagedSpool?: (damaged: DamagedSpool) => void;
}

/**
 * An attempt that ends within this time is not reported as started. Its receipt includes the start, so that one request and one
 * commit are enough.
 */
const STARTS_AFTER_MS = 20;
/** How long the last events may take to be acknowledged after the grace period. */
const LAST_EVENTS_MS = 5_000;
/** Above this number of unacknowledged characters, the worker claims nothing. */
const UNACKNOWLEDGED_CHARS_MAX = 16 * 1_048_576;
/** The heartbeat time-out of attempts that an earlier process left, while their node is searched for. */
const LEFT_HEARTBEAT_MS = 30_000;
/** The heartbeat time-out until a server has set one. */
const HEARTBEAT_MS = 30_000;

export function makeWorkerId({
  name,
  clock,
  random,
}: Pick<WorkerLaneOptions, "name" | "clock" | "random">): string {
  return `${name}~${newExecutionId(clock.now(), random).slice(3)}`;
}

export class WorkerLane {
  readonly #options: WorkerLaneOptions;
  readonly #held = new HeldAttempts();
  readonly #sessions: NodeSessions;
  readonly #outbox: Outbox;
  readonly #results: RemoteResults;
  readonly #worker: Worker;
  readonly #hosted: HostedPart[] = [];
  /** The worker's id, the same at every node. */
  #id: string;
  #heartbeatMs = HEARTBEAT_MS;
  /** Whether every server at which the worker has registered accepts the structured fields of log lines. */
  #takesFields = true;
  #isRegistered = false;
  #isClosed = false;

  constructor(options: WorkerLaneOptions) {
    const { clock, random, capacity, onBug } = options;
    this.#options = options;
    this.#id = options.worker ?? makeWorkerId(options);
    const held = this.#held;
    const spooled = options.spool === null ? null : Spool.open(options.spool);
    for (const damaged of spooled?.damaged ?? []) options.onDamagedSpool?.(damaged);
    this.#outbox = new Outbox({
      held,
      clock,
      spool: spooled?.spool ?? null,
      takesFields: () => this.#takesFields,
      queueOf: (node) => this.#sessions.get(node)?.events ?? null,
      onEnded: () => this.#wake(),
      onAcknowledged: ({ kept }) => {
        this.#results.release(kept);
        this.#sessions.updateOwn();
      },
      onHomeless: () => this.#sessions.search(),
    });
    this.#results = new RemoteResults({ held, get: (path, attempt) => this.#read(path, attempt) });
    this.#worker = new Worker({
      clock,
      results: this.#results,
      send: (reports) => this.#outbox.send(reports),
      log: options.onLog,
      concurrency: capacity,
      startsAfterMs: STARTS_AFTER_MS,
      ...(options.scripts === undefined ? {} : { scripts: options.scripts }),
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
      middleware: options.middleware,
      onBug,
    });
    this.#addCode(options.workflows);
    const parts = this.#parts();
    this.#sessions = new NodeSessions({
      addresses: options.addresses,
      own: options.own ?? null,
      clock,
      random,
      held,
      worker: () => this.worker,
      open: (name, addresses, events) => this.#openSession(name, { addresses, events }, parts),
      onRegistered: (session, registered) => this.#registered(session, registered),
      onGone: (name) => this.#gone(name),
      onTrouble: options.onTrouble,
      onRefused: options.onRefused ?? (() => {}),
      onBug,
    });
    if (spooled !== null && spooled.left.length > 0)
      this.#outbox.replay(spooled.left, (event) => this.#hold(event));
  }

  get held(): number {
    return this.#held.open;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  /** The worker's id, or null until it is registered. */
  get worker(): string | null {
    return this.#isRegistered ? this.#id : null;
  }

  get isInTrouble(): boolean {
    return this.#sessions.isAway;
  }

  /** The address of this machine as the server sees it; null if the server is reached by a unix socket. */
  async ownAddress(): Promise<string | null> {
    return (await this.#sessions.first?.link.ownAddress()) ?? null;
  }

  start(): void {
    this.#sessions.start();
  }

  setNodes(nodes: readonly string[]): void {
    this.#sessions.setNodes(nodes);
  }

  /** Hosts more code, and registers it at every node. */
  host(workflows: readonly HostedPart[]): void {
    this.#addCode(workflows);
    this.#sessions.registerAgain();
  }

  /** The status of an attempt; null if the worker does not have the attempt. */
  about(id: string): Readonly<Record<string, unknown>> | null {
    const attempt = this.#held.get(id);
    if (attempt === undefined || attempt.left > 0) return null;
    const { hasEnded, hasStarted, since } = attempt;
    return { attempt: id, status: hasEnded ? "ended" : hasStarted ? "running" : "claimed", since };
  }

  /** The status of a run of an attempt; null if the worker does not have the attempt, or has not begun the run. */
  aboutRun(id: string, run: string): Readonly<Record<string, unknown>> | null {
    const attempt = this.#held.get(id);
    const found = attempt === undefined || attempt.left > 0 ? undefined : attempt.runs?.get(run);
    return found === undefined ? null : { attempt: id, run, ...found };
  }

  async stop(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    const sessions = this.#sessions.all;
    const claims = sessions.map(({ claims: loop }) => atMost(clock, LAST_EVENTS_MS, loop.stop()));
    await atMost(clock, graceMs + 2 * LAST_EVENTS_MS, this.#worker.stop(graceMs, LAST_EVENTS_MS));
    // A stopping worker does not wait for a node where it is not registered: such a node neither grants attempts nor accepts events.
    await Promise.all(claims.filter((_, i) => sessions[i]?.link.isConnected === true));
    if (this.#sessions.isRegistered) await atMost(clock, LAST_EVENTS_MS, this.#outbox.empty());
    this.#isClosed = true;
    this.#outbox.close();
    for (const { events } of this.#sessions.all) events.close();
    await this.#sessions.close();
  }

  #parts(): SessionParts {
    const { clock, random, onDropped, onBug } = this.#options;
    return {
      clock,
      random,
      held: this.#held,
      outbox: this.#outbox,
      failedClaims: new Map(),
      heartbeatMs: () => this.#heartbeatMs,
      room: () => this.#share(),
      onClaimed: (session, claimed) => this.#claimed(session, claimed),
      onStop: (ids, why) => this.#worker.cancel(beatsOf(ids), why),
      onHome: (session, attempt, isHere) => this.#home(session, attempt, isHere),
      onTaken: () => this.#sessions.resetSearch(),
      onDropped,
      onBug,
    };
  }

  #openSession(
    name: string,
    { addresses, events }: { addresses: readonly string[]; events: SessionEvents },
    parts: SessionParts,
  ): NodeSession {
    const { token, connect, own } = this.#options;
    return new NodeSession(
      {
        name,
        addresses,
        isOneOfMany: name !== FIRST,
        ...(token === undefined ? {} : { token }),
        ...(connect === undefined ? {} : { connect }),
        registration: () => this.#registration(),
        worker: () => this.#id,
        ...events,
      },
      name === own ? { ...parts, room: () => 0 } : parts,
    );
  }

  /** Returns the number of attempts that one session may claim now: an equal share of the free slots, at least one if there are any. */
  #share(): number {
    const { capacity } = this.#options;
    const free = this.#outbox.chars > UNACKNOWLEDGED_CHARS_MAX ? 0 : capacity - this.#held.open;
    return free <= 0 ? 0 : Math.max(1, Math.floor(free / Math.max(1, this.#sessions.sharing)));
  }

  #wake(): void {
    for (const { claims } of this.#sessions.all) claims.wake();
  }

  #addCode(workflows: readonly HostedPart[]): void {
    for (const workflow of workflows) {
      this.#hosted.push(workflow);
      for (const code of workflow.handlers) this.#worker.host(workflow.name, code);
    }
  }

  #registration(): Registration {
    const { name, capacity, scripts, version } = this.#options;
    const url = this.#options.url();
    const codes = this.#hosted.flatMap(({ handlers: list }) => list);
    const topics = codes.flatMap(({ use }) => topicOf(use) ?? []);
    const handlers = codes
      .filter(({ use }) => topicOf(use) === null)
      .map(({ use, version: served, enumerate }) => ({
        use,
        ...(served === undefined ? {} : { version: served }),
        enumerates: enumerate !== undefined,
      }));
    return {
      name,
      worker: this.#id,
      handlers: scripts === undefined ? handlers : [...handlers, { use: SCRIPT_USE }],
      ...(topics.length === 0 ? {} : { topics: [...new Set(topics)] }),
      capacity,
      ...(url === null ? {} : { url }),
      version,
    };
  }

  /** Called when the session is registered. Sends heartbeats at once, because the server may not know the session's attempts. */
  #registered(session: NodeSession, { worker, heartbeatMs, logFields }: Registered): void {
    this.#id = worker;
    if (logFields !== true) this.#takesFields = false;
    this.#heartbeatMs = heartbeatMs;
    const isFirst = !this.#isRegistered;
    this.#isRegistered = true;
    if (isFirst) this.#options.onRegistered(worker);
    session.heartbeats.beat();
  }

  #claimed(session: NodeSession, claimed: Claimed): void {
    if (claimed.cancel.length > 0) this.#worker.cancel(beatsOf(claimed.cancel), "cancel");
    if (claimed.lost.length > 0) this.#worker.cancel(beatsOf(claimed.lost), "lost");
    if (claimed.work.length > 0 || claimed.batches !== undefined) this.#startClaimed(session, claimed);
    if (claimed.drain === true) this.#options.onDrain();
  }

  #startClaimed(session: NodeSession, claimed: Claimed): void {
    const { grants, items } = readWork(claimed, (payload) => this.#results.keep(payload));
    const since = this.#options.clock.now();
    // The session of the node has ended since, so another node owns the attempt.
    const home = this.#sessions.get(session.name) === undefined ? null : session.name;
    for (const { id, token, heartbeatMs, at, kept } of items) {
      const fresh = { queued: 0, left: 0, n: 0, hasStarted: false, hasEnded: false, runs: null };
      this.#held.add({ id, token, at, heartbeatMs, since, kept, home, ...fresh });
    }
    if (home === null) this.#sessions.search();
    for (const grant of grants) {
      if (grant.do === "enumerate") this.#reportStarted(grant);
      this.#worker.accept(grant);
    }
    session.heartbeats.reschedule();
  }

  /**
   * Holds the attempt of an event that an earlier process left in the spool, until the event is acknowledged. The attempt uses no
   * capacity.
   */
  #hold({ attempt: id, token }: SpooledEvent): HeldAttempt {
    const known = this.#held.get(id);
    if (known !== undefined) {
      known.left++;
      return known;
    }
    const at = decodeAttempt(id);
    assert(at !== null, "the id of an attempt in the spool must be decodable");
    const held: HeldAttempt = {
      ...{ id, token, at, heartbeatMs: LEFT_HEARTBEAT_MS, since: this.#options.clock.now(), kept: [] },
      ...{ home: FIRST, queued: 0, left: 1, n: 0, hasStarted: true, hasEnded: true, runs: null },
    };
    this.#held.add(held);
    return held;
  }

  /**
   * Called when a node is unreachable. The worker searches for the nodes that now own the attempts of that node. Events that
   * are being sent to the node come back by themselves.
   */
  #gone(name: string): void {
    for (const attempt of [...this.#held.quietAt(name)]) this.#held.move(attempt, null);
    this.#sessions.search();
    this.#wake();
  }

  #home({ name }: NodeSession, attempt: HeldAttempt, isHere: boolean): void {
    if (this.#sessions.get(name) === undefined) return;
    if (isHere && attempt.home === null) this.#outbox.found(attempt, name);
    // Attempts whose events are being sent to a node are left alone, because the answer to these events tells which node owns them.
    else if (!isHere && attempt.home === name && attempt.queued === 0) {
      this.#held.move(attempt, null);
      this.#sessions.search();
    }
  }

  /** Reads an API path from the node that owns the attempt; if that node does not know the attempt, from the other nodes. */
  async #read(path: string, { home, token }: HeldAttempt): Promise<string> {
    const { clock, random } = this.#options;
    const backOff = new BackOff({ random });
    while (!this.#isClosed) {
      const sessions = [...this.#sessions.all];
      sessions.sort((one, other) => Number(other.name === home) - Number(one.name === home));
      for (const { name, link } of sessions) {
        const text = await link.read(path, token, { isOnce: name !== FIRST });
        if (text !== null) return text;
      }
      await sleep(clock, backOff.next());
    }
    throw new Error("the worker is stopping, and no node has answered");
  }

  /** Reports the start of an enumeration, because its first page may take long. */
  #reportStarted(grant: Grant): void {
    const attempts = grant.items.map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
    this.#outbox.send([{ kind: "started", ...reportPlace(grant), attempts }]).catch(this.#options.onBug);
  }
}
