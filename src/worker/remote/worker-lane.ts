/**
 * One registration of a remote worker: what it serves, how much of it at a time, and the attempts it has.
 *
 * 1. It registers, and claims whenever it has room; never more than `capacity` attempts, claims under way included.
 * 2. What it says is numbered, kept until acknowledged (in a spool too, if it has one), and sent again after a reconnect.
 * 3. It beats while it has attempts, and stops those that the server does not want any more.
 * 4. It stops gracefully: no claim, what has not begun goes back, the rest ends within a grace.
 */
import { type Grant, SCRIPT_USE } from "../../protocol/work.ts";
import type { Claimed, Registration } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { reportPlace } from "../attempt-place.ts";
import type { HostedWorkflow } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import { Worker, type WorkerOptions } from "../worker.ts";
import { ClaimLoop } from "./claim-loop.ts";
import { Heartbeats } from "./heartbeats.ts";
import { beatsOf, HeldAttempts } from "./held-attempts.ts";
import { Outbox } from "./outbox.ts";
import { readWork } from "./read-work.ts";
import { RemoteResults } from "./remote-results.ts";
import { type Refused, ServerLink } from "./server-link.ts";
import { Spool } from "./spool.ts";

export interface WorkerLaneOptions {
  /** Tried in turn: `http(s)://host:port` or `unix:<path>`. */
  readonly addresses: readonly string[];
  readonly token?: string;
  readonly name: string;
  /** An id to register under; by default the server makes one. */
  readonly worker?: string;
  readonly capacity: number;
  readonly workflows: readonly HostedWorkflow[];
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
  /** The server asks it to leave. */
  readonly onDrain: () => void;
  /** The server does not take the events of an attempt. */
  readonly onDropped: (attempt: string, why: Refused) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** How long, after the grace, what was said last may take to be heard. */
const LAST_WORDS_MS = 5_000;
/** With so many characters unacknowledged, nothing new is claimed. */
const UNACKNOWLEDGED_CHARS_MAX = 16 * 1_048_576;

export class WorkerLane {
  readonly #options: WorkerLaneOptions;
  readonly #held = new HeldAttempts();
  readonly #link: ServerLink;
  readonly #outbox: Outbox;
  readonly #claims: ClaimLoop;
  readonly #heartbeats: Heartbeats;
  readonly #results: RemoteResults;
  readonly #worker: Worker;
  #isRegistered = false;

  constructor(options: WorkerLaneOptions) {
    const { clock, random, capacity, onBug } = options;
    this.#options = options;
    const held = this.#held;
    this.#link = new ServerLink({
      addresses: options.addresses,
      ...(options.token === undefined ? {} : { token: options.token }),
      clock,
      random,
      registration: () => this.#registration(),
      onRegistered: ({ worker }) => this.#registered(worker),
      onTrouble: options.onTrouble,
    });
    const spooled = options.spool === null ? null : Spool.open(options.spool);
    this.#outbox = new Outbox({
      held,
      spool: spooled?.spool ?? null,
      post: (body) => this.#link.post("events", body),
      onEnded: () => this.#claims.wake(),
      onAcknowledged: ({ kept }) => this.#results.release(kept),
      onDropped: options.onDropped,
      onBug,
    });
    this.#claims = new ClaimLoop({
      clock,
      random,
      post: (body, more) => this.#link.post("claim", body, more),
      room: () => (this.#outbox.chars > UNACKNOWLEDGED_CHARS_MAX ? 0 : capacity - held.open),
      onClaimed: (claimed) => this.#claimed(claimed),
      onBug,
    });
    this.#heartbeats = new Heartbeats({
      clock,
      held,
      post: (body) => this.#link.post("heartbeat", body),
      onWord: (ids, why) => this.#worker.cancel(beatsOf(ids), why),
      onBug,
    });
    this.#results = new RemoteResults({
      held,
      get: (path, token) => this.#link.read(path, token),
    });
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
    for (const workflow of options.workflows)
      for (const code of workflow.handlers) this.#worker.host(workflow.name, code);
    if (spooled !== null && spooled.left.length > 0) this.#outbox.replay(spooled.left);
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
    return this.#link.worker;
  }

  get isInTrouble(): boolean {
    return this.#link.isInTrouble;
  }

  /** This side's own address, as the server sees it; null: it is reached by a unix socket. */
  ownAddress(): Promise<string | null> {
    return this.#link.ownAddress();
  }

  /** Begins to claim. */
  start(): void {
    this.#claims.wake();
  }

  /** What there is to say about an attempt; null: it is not here. */
  about(id: string): Readonly<Record<string, unknown>> | null {
    const attempt = this.#held.get(id);
    if (attempt === undefined) return null;
    const { hasEnded, hasStarted, since } = attempt;
    return { attempt: id, status: hasEnded ? "ended" : hasStarted ? "running" : "claimed", since };
  }

  /** Ends gracefully; resolves when everything is said, or when it was given long enough. */
  async stop(graceMs: number): Promise<void> {
    const claims = this.#within(LAST_WORDS_MS, () => this.#claims.stop());
    await this.#within(graceMs + 2 * LAST_WORDS_MS, () => this.#worker.stop(graceMs, LAST_WORDS_MS));
    // What a server that is not there has given out before, nobody can get any more; nor does it hear anything.
    if (!this.#link.isInTrouble) {
      await claims;
      await this.#within(LAST_WORDS_MS, () => this.#outbox.settled());
    }
    this.#heartbeats.stop();
    this.#outbox.close();
    await this.#link.close();
  }

  #registration(): Registration {
    const { name, worker, workflows, capacity, scripts, version } = this.#options;
    const url = this.#options.url();
    const handlers = workflows.flatMap(({ handlers: list }) =>
      list.map(({ use, version: served, enumerate }) => ({
        use,
        ...(served === undefined ? {} : { version: served }),
        enumerates: enumerate !== undefined,
      })),
    );
    return {
      name,
      ...(worker === undefined ? {} : { worker }),
      handlers: scripts === undefined ? handlers : [...handlers, { use: SCRIPT_USE }],
      capacity,
      ...(url === null ? {} : { url }),
      version,
    };
  }

  /** Registered, perhaps with a server that does not know its attempts: those that go on are shown at once. */
  #registered(worker: string): void {
    if (!this.#isRegistered) this.#options.onRegistered(worker);
    this.#isRegistered = true;
    this.#heartbeats.beat();
  }

  #claimed(claimed: Claimed): void {
    if (claimed.cancel.length > 0) this.#worker.cancel(beatsOf(claimed.cancel), "cancel");
    if (claimed.lost.length > 0) this.#worker.cancel(beatsOf(claimed.lost), "lost");
    if (claimed.work.length > 0) this.#take(claimed);
    if (claimed.drain === true) this.#options.onDrain();
  }

  #take(claimed: Claimed): void {
    const { grants, items } = readWork(claimed, (payload) => this.#results.keep(payload));
    const since = this.#options.clock.now();
    for (const { work, at, kept } of items) {
      const { attempt: id, token, heartbeatMs } = work;
      this.#held.add({ id, token, at, heartbeatMs, since, kept, n: 0, hasStarted: false, hasEnded: false });
    }
    for (const grant of grants) {
      if (grant.do === "enumerate") this.#sayStarted(grant);
      this.#worker.take(grant);
    }
    this.#heartbeats.look();
  }

  /** An enumeration is not said to have begun by its pages alone: the first may take long. */
  #sayStarted(grant: Grant): void {
    const attempts = grant.items.map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
    this.#outbox.send([{ kind: "started", ...reportPlace(grant), attempts }]).catch(this.#options.onBug);
  }

  /** Waits for something, but only so long. */
  #within(ms: number, run: () => Promise<void>): Promise<void> {
    return new Promise((resolve, fail) => {
      const cancel = this.#options.clock.after(ms, resolve);
      run().then(resolve, fail).finally(cancel);
    });
  }
}
