/**
 * One registration of a remote worker: what it serves, how much of it at a time, and the attempts it has.
 *
 * 1. It registers at every node of the cluster under the same id, and claims at each whenever it has room: a fair share
 *    of it, at least one. What comes above `capacity` waits here without being begun.
 * 2. What it says is numbered, kept until acknowledged (in a spool too, if it has one), and sent again after a reconnect.
 *    It goes to the node that gave the attempt, or that has it by now: no attempt ends because a node does.
 * 3. It beats while it has attempts, and stops those that their node does not want any more.
 * 4. It stops gracefully: no claim, what has not begun goes back, the rest ends within a grace.
 */

import { topicOf } from "../../kernel/command/topic-rules.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { type Grant, SCRIPT_USE } from "../../protocol/work.ts";
import type { Claimed, Registered, Registration } from "../../protocol/worker-wire.ts";
import { assert } from "../../std/assert.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import { atMost, sleep } from "../../std/within.ts";
import { reportPlace } from "../attempt-place.ts";
import type { HostedPart } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import { Worker, type WorkerOptions } from "../worker.ts";
import { beatsOf, type HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import { FIRST } from "./membership.ts";
import { NodeSession, type SessionParts } from "./node-session.ts";
import { NodeSessions, type SessionEvents } from "./node-sessions.ts";
import { Outbox } from "./outbox.ts";
import { readWork } from "./read-work.ts";
import { RemoteResults } from "./remote-results.ts";
import type { Refused } from "./server-problem.ts";
import { type DamagedSpool, Spool, type SpooledEvent } from "./spool.ts";

export interface WorkerLaneOptions {
  /** Where to begin, tried in turn: `http(s)://host:port` or `unix:<path>`. None: `become` says which nodes there are. */
  readonly addresses: readonly string[];
  /** The URL of the node that this process is itself. Nothing is claimed there, but what the worker has may move there. */
  readonly own?: string;
  readonly token?: string;
  readonly name: string;
  /** An id to register under; by default one is made of the name. */
  readonly worker?: string;
  readonly capacity: number;
  readonly workflows: readonly HostedPart[];
  /** Without it, this worker does no scripts. */
  readonly scripts?: ScriptOptions;
  readonly secrets?: readonly string[];
  /** A directory for events that are not acknowledged yet; null: they are kept in memory only. */
  readonly spool: string | null;
  /** The address of the worker's own status API; null: it has none. */
  readonly url: () => string | null;
  readonly version: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly onLog: WorkerOptions["log"];
  /** The server cannot be reached or refuses (null: it is there again). */
  readonly onTrouble: (what: string | null) => void;
  /** It is registered under this id. */
  readonly onRegistered: (worker: string) => void;
  /** Every address refuses this worker, which was never registered: it is configured wrongly. Left out: it is tried again. */
  readonly onRefused?: (why: Refused) => void;
  /** The server asks it to leave. */
  readonly onDrain: () => void;
  /** The server does not take the events of an attempt. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  /** A spool file of a former process is damaged; what can be read of it is sent. */
  readonly onDamagedSpool?: (damaged: DamagedSpool) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** How long, after the grace, what was said last may take to be heard. */
const LAST_WORDS_MS = 5_000;
/** With so many characters unacknowledged, nothing new is claimed. */
const UNACKNOWLEDGED_CHARS_MAX = 16 * 1_048_576;
/** Of attempts that a former process left: only shown while their node is looked for. */
const LEFT_HEARTBEAT_MS = 30_000;
/** Until a server has said which silence it allows. */
const HEARTBEAT_MS = 30_000;

/** An id for a worker, made of its name. */
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
  /** Its id, the same at every node. */
  #id: string;
  #heartbeatMs = HEARTBEAT_MS;
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
      spool: spooled?.spool ?? null,
      queueOf: (node) => this.#sessions.get(node)?.events ?? null,
      onEnded: () => this.#wake(),
      onAcknowledged: ({ kept }) => {
        this.#results.release(kept);
        this.#sessions.lookAtOwn();
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
      ...(options.scripts === undefined ? {} : { scripts: options.scripts }),
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
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

  /** Attempts under way. */
  get held(): number {
    return this.#held.open;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  /** The worker's id, once it is registered. */
  get worker(): string | null {
    return this.#isRegistered ? this.#id : null;
  }

  get isInTrouble(): boolean {
    return this.#sessions.isAway;
  }

  /** This side's own address, as the server sees it; null: it is reached by a unix socket. */
  async ownAddress(): Promise<string | null> {
    return (await this.#sessions.first?.link.ownAddress()) ?? null;
  }

  /** Begins to claim. */
  start(): void {
    this.#sessions.start();
  }

  /** The cluster has these nodes now, for a worker that was given no addresses. */
  become(nodes: readonly string[]): void {
    this.#sessions.become(nodes);
  }

  /** Hosts more code, and says so at every node. */
  host(workflows: readonly HostedPart[]): void {
    this.#addCode(workflows);
    this.#sessions.registerAgain();
  }

  /** What there is to say about an attempt; null: it is not here. */
  about(id: string): Readonly<Record<string, unknown>> | null {
    const attempt = this.#held.get(id);
    if (attempt === undefined || attempt.left > 0) return null;
    const { hasEnded, hasStarted, since } = attempt;
    return { attempt: id, status: hasEnded ? "ended" : hasStarted ? "running" : "claimed", since };
  }

  /** Ends gracefully; resolves when everything is said, or when it was given long enough. */
  async stop(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    const sessions = this.#sessions.all;
    const claims = sessions.map(({ claims: loop }) => atMost(clock, LAST_WORDS_MS, loop.stop()));
    await atMost(clock, graceMs + 2 * LAST_WORDS_MS, this.#worker.stop(graceMs, LAST_WORDS_MS));
    // What a node that is not there has given out before, nobody can get any more; nor does it hear anything.
    await Promise.all(claims.filter((_, i) => sessions[i]?.link.isConnected === true));
    if (this.#sessions.isRegistered) await atMost(clock, LAST_WORDS_MS, this.#outbox.empty());
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
      heartbeatMs: () => this.#heartbeatMs,
      room: () => this.#share(),
      onClaimed: (session, claimed) => this.#claimed(session, claimed),
      onWord: (ids, why) => this.#worker.cancel(beatsOf(ids), why),
      onHome: (session, attempt, isHere) => this.#home(session, attempt, isHere),
      onTaken: () => this.#sessions.ease(),
      onDropped,
      onBug,
    };
  }

  #openSession(
    name: string,
    { addresses, events }: { addresses: readonly string[]; events: SessionEvents },
    parts: SessionParts,
  ): NodeSession {
    const { token, own } = this.#options;
    return new NodeSession(
      {
        name,
        addresses,
        isOneOfMany: name !== FIRST,
        ...(token === undefined ? {} : { token }),
        registration: () => this.#registration(),
        ...events,
      },
      name === own ? { ...parts, room: () => 0 } : parts,
    );
  }

  /** How many attempts one session may take now: as many as all the others, and one if there is room at all. */
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

  /** Registered, perhaps with a server that does not know its attempts: those that go on are shown at once. */
  #registered(session: NodeSession, { worker, heartbeatMs }: Registered): void {
    this.#id = worker;
    this.#heartbeatMs = heartbeatMs;
    const isFirst = !this.#isRegistered;
    this.#isRegistered = true;
    if (isFirst) this.#options.onRegistered(worker);
    session.heartbeats.beat();
  }

  #claimed(session: NodeSession, claimed: Claimed): void {
    if (claimed.cancel.length > 0) this.#worker.cancel(beatsOf(claimed.cancel), "cancel");
    if (claimed.lost.length > 0) this.#worker.cancel(beatsOf(claimed.lost), "lost");
    if (claimed.work.length > 0) this.#take(session, claimed);
    if (claimed.drain === true) this.#options.onDrain();
  }

  #take(session: NodeSession, claimed: Claimed): void {
    const { grants, items } = readWork(claimed, (payload) => this.#results.keep(payload));
    const since = this.#options.clock.now();
    // What a node gave out that is gone by now is at another.
    const home = this.#sessions.get(session.name) === undefined ? null : session.name;
    for (const { work, at, kept } of items) {
      const { attempt: id, token, heartbeatMs } = work;
      const fresh = { queued: 0, left: 0, n: 0, hasStarted: false, hasEnded: false };
      this.#held.add({ id, token, at, heartbeatMs, since, kept, home, ...fresh });
    }
    if (home === null) this.#sessions.search();
    for (const grant of grants) {
      if (grant.do === "enumerate") this.#sayStarted(grant);
      this.#worker.take(grant);
    }
    session.heartbeats.look();
  }

  /** The attempt that an event of a former process is of. It takes up no room, and is only kept until that has arrived. */
  #hold({ attempt: id, token }: SpooledEvent): HeldAttempt {
    const known = this.#held.get(id);
    if (known !== undefined) {
      known.left++;
      return known;
    }
    const at = decodeAttempt(id);
    assert(at !== null, "an attempt in the spool has a readable id");
    const held: HeldAttempt = {
      ...{ id, token, at, heartbeatMs: LEFT_HEARTBEAT_MS, since: this.#options.clock.now(), kept: [] },
      ...{ home: FIRST, queued: 0, left: 1, n: 0, hasStarted: true, hasEnded: true },
    };
    this.#held.add(held);
    return held;
  }

  /** A node is gone, or out of touch: what it had is looked for; what is on its way there comes back by itself. */
  #gone(name: string): void {
    for (const attempt of [...this.#held.quietAt(name)]) this.#held.move(attempt, null);
    this.#sessions.search();
    this.#wake();
  }

  #home({ name }: NodeSession, attempt: HeldAttempt, isHere: boolean): void {
    if (this.#sessions.get(name) === undefined) return;
    if (isHere && attempt.home === null) this.#outbox.found(attempt, name);
    // What is on its way to a node is answered there.
    else if (!isHere && attempt.home === name && attempt.queued === 0) {
      this.#held.move(attempt, null);
      this.#sessions.search();
    }
  }

  /** Reads something of an attempt at the node that has it; asks the others if that does not. */
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
    throw new Error("the worker ends, and no node answers");
  }

  /** An enumeration is not said to have begun by its pages alone: the first may take long. */
  #sayStarted(grant: Grant): void {
    const attempts = grant.items.map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
    this.#outbox.send([{ kind: "started", ...reportPlace(grant), attempts }]).catch(this.#options.onBug);
  }
}
