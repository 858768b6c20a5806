/**
 * The engine of a cluster node. The node that owns an execution answers requests about it; all other reads go to the shared store.
 * 1. Requests for own executions go to this node's engine, without the network.
 * 2. Requests for other executions are posted to their owner. All requests of one turn of the event loop to the same node are one HTTP
 *    request (send-batches.ts). If it fails, the owner is looked up again (ask-owner.ts). A message that arrives twice has no effect: a
 *    start is identified by its execution, a control or a signal by its id.
 * 3. Mail needs no answer: the sender's commit stores it, and the owner gets a notice (mail-poster.ts).
 * 4. Each node has its own workers, with their attempts, and its own memory.
 */
import type { Engine } from "../engine/driver.ts";
import { type Reply, stoppedAnswer } from "../engine/driver-options.ts";
import type { EnginePort, Request, StartOf } from "../engine/engine-port.ts";
import type { Dropped, Inspection } from "../engine/io.ts";
import type { OutboxPort } from "../engine/mailbox/outbox.ts";
import { heldBack } from "../engine/partitions/partition-ownership.ts";
import { versionOfStart } from "../kernel/message.ts";
import type { HttpAnswer, HttpRequest } from "../net/http-connection.ts";
import type { Beat, ReportedAttempt } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { monotonicMs } from "../std/monotonic.ts";
import { type Random, systemRandom } from "../std/random.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { LEASE_MS } from "../store/cluster-store.ts";
import type { StoreInfo } from "../store/store.ts";
import { type AskParts, askOwner, patienceFor } from "./peers/ask-owner.ts";
import { Followers } from "./peers/followers.ts";
import type { Owners } from "./peers/owners.ts";
import type { PeerAnswer, PeerClient } from "./peers/peer-client.ts";
import { PeerFaults } from "./peers/peer-faults.ts";
import { ReportRouter } from "./peers/report-router.ts";
import { SendBatches } from "./peers/send-batches.ts";

export interface ClusterEngineOptions {
  readonly engine: Engine;
  readonly owners: Owners;
  readonly client: PeerClient;
  readonly clock: Clock;
  readonly random?: Random;
  readonly monotonic?: () => number;
  /** The most executions of other nodes that are watched by streams at the same time. */
  readonly streamsMax?: number;
  /** Returns why the store does not renew this node's lease; null if it does. */
  readonly storeFault?: () => Error | null;
  /** The length of a node's lease. */
  readonly leaseMs?: number;
  readonly beforeClose?: () => Promise<void>;
}

export interface PassedRequest<T> {
  readonly here: () => Promise<T | null>;
  readonly request: HttpRequest;
  readonly read: (answer: HttpAnswer) => T;
}

const NUDGE_MS = 2_000;

export class ClusterEngine implements EnginePort {
  readonly #options: ClusterEngineOptions;
  readonly #engine: Engine;
  readonly #owners: Owners;
  readonly #client: PeerClient;
  readonly #sends: SendBatches;
  readonly #ask: AskParts;
  readonly #peerFaults: PeerFaults;
  readonly #followers: Followers;
  readonly #reports: ReportRouter;
  readonly #unlisten: () => void;
  #isClosed = false;
  #hasLeft = false;

  constructor(options: ClusterEngineOptions) {
    const { engine, owners, client, clock, random = systemRandom, monotonic = monotonicMs } = options;
    this.#options = options;
    this.#engine = engine;
    this.#owners = owners;
    this.#client = client;
    this.#sends = new SendBatches(client, clock);
    this.#ask = {
      ...{ owners, clock, random, monotonic },
      patienceMs: patienceFor(options.leaseMs ?? LEASE_MS),
      isOver: () => this.#hasLeft || this.hasStopped,
    };
    this.#peerFaults = new PeerFaults(monotonic);
    const { streamsMax } = options;
    const parts = { ...this.#ask, engine, client };
    this.#followers = new Followers(streamsMax === undefined ? parts : { ...parts, streamsMax });
    this.#reports = new ReportRouter(parts);
    this.#unlisten = owners.onChange(() => client.keep(owners.peers.map(({ url }) => url)));
  }

  get info(): StoreInfo {
    return this.#engine.info;
  }

  get hasStopped(): boolean {
    return this.#isClosed || this.#engine.hasStopped;
  }

  get openLeases(): number {
    return this.#engine.openLeases;
  }

  get residentCount(): number {
    return this.#engine.residentCount;
  }

  get reads(): number {
    // Until the members are known, one of them may be old.
    return Math.min(this.#engine.reads, this.#owners.reads ?? 1);
  }

  get outbox(): OutboxPort {
    return this.#engine.outbox;
  }

  // Calls about workers, their attempts and memory go to this node's own engine.
  readonly epochOf: EnginePort["epochOf"] = (execution) => this.#engine.epochOf(execution);
  readonly usesServed: EnginePort["usesServed"] = () => this.#engine.usesServed();
  readonly holderOf: EnginePort["holderOf"] = (at) => this.#engine.holderOf(at);
  readonly needsSingleCode: EnginePort["needsSingleCode"] = (at) => this.#engine.needsSingleCode(at);
  readonly join: EnginePort["join"] = (worker, link, options) => this.#engine.join(worker, link, options);
  readonly claim: EnginePort["claim"] = (worker, max, why) => this.#engine.claim(worker, max, why);
  readonly sent: EnginePort["sent"] = (worker, beats) => this.#engine.sent(worker, beats);
  readonly isResident: EnginePort["isResident"] = (execution) => this.#engine.isResident(execution);
  readonly isOpen: EnginePort["isOpen"] = (execution) => this.#engine.isOpen(execution);
  readonly release: EnginePort["release"] = (worker, beats) => this.#engine.release(worker, beats);
  readonly leave: EnginePort["leave"] = (worker) => this.#engine.leave(worker);
  readonly bindProjects: EnginePort["bindProjects"] = (projects) => this.#engine.bindProjects(projects);
  readonly pauseQueues: EnginePort["pauseQueues"] = (paused) => this.#engine.pauseQueues(paused);
  readonly overview: EnginePort["overview"] = () => this.#engine.overview();
  readonly takeFigures: EnginePort["takeFigures"] = () => this.#engine.takeFigures();
  readonly openAttempts: EnginePort["openAttempts"] = (options) => this.#engine.openAttempts(options);
  readonly quiesce: EnginePort["quiesce"] = () => this.#engine.quiesce();

  get commitFault(): Error | null {
    return this.#engine.commitFault ?? this.#options.storeFault?.() ?? this.#peerFaults.fault;
  }

  isOwn(execution: string): boolean {
    return this.#owners.isMine(execution);
  }

  /** Sends a message to the owner of an execution. For an execution of this node itself, that costs no more than without a cluster. */
  async send(execution: string, message: Request, start?: StartOf): Promise<Reply> {
    if (this.#isClosed) return { answer: closedAnswer(), existed: false };
    const refused = this.#tooNew(execution, message);
    if (refused !== null) return refused;
    if (!this.#owners.isMine(execution)) return this.#sendOn(execution, message, start);
    const reply = await this.#engine.send(execution, message, start);
    return isElsewhere(reply.answer) ? this.#sendOn(execution, message, start) : ofFresh(reply, start);
  }

  async #sendOn(execution: string, message: Request, start?: StartOf): Promise<Reply> {
    const reply = await askOwner<Reply>(this.#ask, {
      execution,
      here: async () => {
        const given =
          this.#tooNew(execution, message) ?? (await this.#engine.send(execution, message, start));
        return unlessElsewhere(given, given.answer);
      },
      there: async (url, options, isRepeat) => {
        // A node that has just started learns of owners and of older nodes at the same time.
        const refused = this.#tooNew(execution, message);
        if (refused !== null) return { kind: "answered", value: refused };
        const fresh = start?.fresh === true && !isRepeat;
        const sent = await this.#sends.send(url, { execution, message, fresh }, options);
        return this.#peerFaults.recorded(url, sent);
      },
    });
    if (isRejection(reply)) return { answer: reply, existed: false };
    return ofFresh(reply, start);
  }

  /** The reply to a start that some node cannot read; null if all can. An owner of an older version would accept it and then fail. */
  #tooNew(execution: string, message: Request): Reply | null {
    const { reads } = this.#owners;
    if (message.kind !== "start" || reads === null || versionOfStart(message) <= reads) return null;
    return { answer: heldBack(execution), existed: false };
  }

  async inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection> {
    if (this.#isClosed) return closedAnswer();
    const found = await askOwner<{ readonly inspection: Inspection | Rejection }>(this.#ask, {
      execution,
      here: async () => {
        const inspection = await this.#engine.inspect(execution, attempt);
        return unlessElsewhere({ inspection }, inspection);
      },
      there: (url, options) =>
        this.#client.call(
          url,
          "inspect",
          { v: 1, execution, ...(attempt === undefined ? {} : { attempt }) },
          options,
        ),
    });
    return isRejection(found) ? found : found.inspection;
  }

  /**
   * Passes a request on to the node that owns the execution. `here` answers the request if this node has become the owner in the
   * meantime.
   */
  async atOwner<T>(
    execution: string,
    { here, request, read }: PassedRequest<T>,
  ): Promise<{ readonly value: T } | Rejection> {
    return askOwner<{ readonly value: T }>(this.#ask, {
      execution,
      here: async () => {
        const value = await here();
        return value === null ? { kind: "not-owner" } : { kind: "answered", value: { value } };
      },
      there: async (url, options) => {
        const answer = await this.#client.pass(url, request, options);
        return answer.kind === "answered"
          ? { kind: "answered", value: { value: read(answer.value) } }
          : answer;
      },
    });
  }

  /** Lists the dropped duplicate messages of an execution, for display only. Returns an empty list if the owner does not answer. */
  async dropped(execution: string): Promise<readonly Dropped[]> {
    const owner = this.#owners.ownerOf(execution);
    if (owner.kind === "me") return this.#engine.dropped(execution);
    if (owner.kind === "nobody") return [];
    const answer = await this.#client.call<readonly Dropped[]>(owner.url, "dropped", { v: 1, execution });
    return answer.kind === "answered" ? answer.value : [];
  }

  readonly watch: EnginePort["watch"] = (execution, progress) => this.#followers.watch(execution, progress);
  readonly watchLogs: EnginePort["watchLogs"] = (execution, logged) =>
    this.#followers.watchLogs(execution, logged);

  get watches(): { readonly executions: number; readonly streams: number } {
    return this.#followers.counts;
  }

  readonly report: EnginePort["report"] = (worker, reports) => this.#reports.report(worker, reports);

  /** Sends heartbeats to the owners of their executions. A lost heartbeat is not repeated, because the next one follows soon. */
  beat(worker: string, beats: readonly Beat[]): void {
    const own: Beat[] = [];
    const byUrl = new Map<string, Beat[]>();
    for (const beat of beats) {
      const owner = this.#owners.ownerOf(beat.execution);
      if (owner.kind === "me") own.push(beat);
      else if (owner.kind === "peer") byUrl.set(owner.url, [...(byUrl.get(owner.url) ?? []), beat]);
      else this.#owners.refresh();
    }
    if (own.length > 0) this.#engine.beat(worker, own);
    for (const [url, theirs] of byUrl) void this.#nudge(url, "beat", { v: 1, worker, beats: theirs });
  }

  mailStored(): void {
    this.#engine.mailStored();
  }

  /** Purges executions of this node. Other nodes purge their own. */
  purge(ids: readonly string[]): void {
    const own = ids.filter((id) => this.isOwn(id));
    if (own.length > 0) this.#engine.purge(own);
  }

  definitionStored(workflow: string): void {
    this.#engine.definitionStored(workflow);
    for (const { url } of this.#owners.peers) void this.#nudge(url, "definition", { v: 1, workflow });
  }

  /**
   * Called when this node has released all its partitions. It gets no more membership updates, so it asks other nodes for the owners of
   * executions.
   */
  hasLeft(): void {
    this.#hasLeft = true;
  }

  /** Closes this node's engine, and ends its watches of executions at other nodes. */
  async close(): Promise<void> {
    this.#engine.quiesce();
    await this.#options.beforeClose?.();
    await this.#engine.close();
    this.#isClosed = true;
    this.#unlisten();
    this.#followers.close();
    this.#client.close();
  }

  /** Sends a notice to a node. The notice may be lost. */
  async #nudge(url: string, name: string, body: unknown): Promise<void> {
    await this.#client.call(url, name, body, { timeoutMs: NUDGE_MS });
  }
}

function unlessElsewhere<T>(value: T, answer: unknown): PeerAnswer<T> {
  return isElsewhere(answer) ? { kind: "not-owner" } : { kind: "answered", value };
}

function isElsewhere(answer: unknown): boolean {
  return isRejection(answer) && answer.code === "not_owner";
}

/**
 * Handles the reply to a start with a generated id. Only the caller knows the id, so if the execution exists, an earlier try of the same
 * call started it.
 */
function ofFresh(reply: Reply, start: StartOf | undefined): Reply {
  return reply.existed && start?.fresh === true ? { ...reply, existed: false } : reply;
}

function closedAnswer(): Rejection {
  return stoppedAnswer(new Error("the engine is closed"));
}
