/**
 * Nodes of a cluster over one database in memory, each with its engine, ownership and worker routes at a URL of its
 * own, and remote workers over real HTTP. Time is virtual, and moves while something is waited for.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { ClusterEngine } from "../../src/cluster/cluster-engine.ts";
import { OwnershipDriver } from "../../src/cluster/ownership/ownership-driver.ts";
import { Owners } from "../../src/cluster/peers/owners.ts";
import { PeerClient } from "../../src/cluster/peers/peer-client.ts";
import { PeerKey } from "../../src/cluster/peers/peer-key.ts";
import { isPeerPath, PeerRoutes } from "../../src/cluster/peers/peer-routes.ts";
import { Engine } from "../../src/engine/driver.ts";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { compilePlan } from "../../src/kernel/definition/plan.ts";
import type { ExecutionView } from "../../src/kernel/view.ts";
import { dropBody } from "../../src/server/http/read-body.ts";
import { sendAnswer, sendProblem } from "../../src/server/http/send-answer.ts";
import type { Route } from "../../src/server/route.ts";
import { workerRoutes } from "../../src/server/worker-protocol/worker-routes.ts";
import { WorkerSessions } from "../../src/server/worker-protocol/worker-sessions.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { MemoryClusterStore } from "../../src/store/memory/memory-cluster-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";
import type { HostedWorkflow } from "../../src/worker/handler-code.ts";
import { RemoteWorker, type RemoteWorkerOptions } from "../../src/worker/http/remote-worker.ts";
import { answerRoutes } from "./serve-routes.ts";

const PARTITIONS = 32;
const TURNS_MAX = 100_000;
const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 1_000, suspectMs: 30_000, heartbeatMs: 30_000 };

export class ClusterBench {
  readonly clock = new VirtualClock();
  readonly random = new SeededRandom(11);
  readonly tables = new MemoryTables({ partitions: PARTITIONS, random: this.random });
  readonly nodes: BenchNode[] = [];
  #ids = 0;

  /** So many nodes, each with its share. */
  static async open(count: number): Promise<ClusterBench> {
    const bench = new ClusterBench();
    for (let i = 0; i < count; i++) await bench.join();
    return bench;
  }

  /** One more node, once it has its share. */
  async join(): Promise<BenchNode> {
    const node = await BenchNode.open(this);
    this.nodes.push(node);
    node.start();
    await this.passUntil(() => this.isSettled);
    return node;
  }

  /** Each partition has an owner, and each node that is alive has some. */
  get isSettled(): boolean {
    const alive = this.nodes.filter(({ isDead }) => !isDead);
    const owned = alive.map((node) => node.owned);
    return owned.every((count) => count > 0) && owned.reduce((sum, count) => sum + count, 0) === PARTITIONS;
  }

  /** Starts an execution that is at a node. */
  async startAt(node: BenchNode, { definition }: HostedWorkflow, input: unknown = null): Promise<string> {
    const plan = compilePlan(unwrap(parseDefinition(definition)));
    const {
      hash,
      definition: { name },
    } = plan;
    await node.store.putDefinition(name, hash, JSON.stringify(plan.definition));
    let id = `e${++this.#ids}`;
    while (!node.engine.isOwn(id)) id = `e${++this.#ids}`;
    const message = {
      ...{ kind: "start" as const, execution: id, workflow: name, hash, project: "default" },
      ...{ input: JSON.stringify(input), tags: {} },
    };
    unwrap((await node.engine.send(id, message, { plan, fresh: false })).answer);
    return id;
  }

  /** How an execution is, asked at any node that is alive. */
  async view(id: string): Promise<ExecutionView> {
    const node = this.nodes.find(({ isDead }) => !isDead) as BenchNode;
    return unwrap(await this.passing(node.engine.inspect(id))).view;
  }

  /** Lets time pass until an execution has ended. */
  async ended(id: string): Promise<ExecutionView> {
    for (;;) {
      const view = await this.view(id);
      if (view.finishedAt !== null) return view;
      await this.pass();
    }
  }

  /** A worker in this process. */
  async work(
    workflows: readonly HostedWorkflow[],
    more: Partial<RemoteWorkerOptions> = {},
  ): Promise<RemoteWorker> {
    const worker = new RemoteWorker({
      addresses: this.nodes.slice(0, 1).map(({ url }) => url),
      name: "test",
      capacity: 6,
      workflows,
      spool: null,
      statusPort: null,
      version: "0",
      clock: this.clock,
      random: new SeededRandom("worker"),
      onLog: () => {},
      onTrouble: () => {},
      onRegistered: () => {},
      onDrain: () => {},
      onDropped: (attempt, why) => {
        throw new Error(`${attempt}: ${why.message}`);
      },
      onBug: (thrown) => {
        throw thrown;
      },
      ...more,
    });
    onTestFinished(() => this.passing(worker.stop(0)));
    await worker.start();
    return worker;
  }

  /** A little time, with everything that comes of it. */
  async pass(ms = 250): Promise<void> {
    for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve));
    await this.clock.advance(ms);
  }

  async passUntil(holds: () => boolean): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      if (holds()) return;
      await this.pass();
    }
    throw new Error("it did not come to hold");
  }

  /** The value of a promise while time goes on. */
  async passing<T>(promise: Promise<T>): Promise<T> {
    const state = { isOver: false };
    const end = () => {
      state.isOver = true;
    };
    promise.then(end, end);
    await this.passUntil(() => state.isOver);
    return promise;
  }
}

export class BenchNode {
  readonly url: string;
  readonly store: MemoryClusterStore;
  readonly engine: ClusterEngine;
  readonly owners: Owners;
  readonly sessions: WorkerSessions;
  /** Requests of workers so far, by method and path of the table. */
  readonly counts = new Map<string, number>();
  readonly #routes: readonly Route[];
  readonly #peerRoutes: PeerRoutes;
  readonly #client: PeerClient;
  readonly #driver: OwnershipDriver;
  readonly #server: Server;
  readonly #lost: (partitions: readonly number[]) => void;
  readonly #open = new Set<AbortController>();
  isDead = false;
  /** Something in between that answers instead of the node, or (null) does not. */
  garble: (path: string) => readonly [status: number, body: string] | null = () => null;
  #isFrozen = false;

  private constructor(
    { clock, random }: ClusterBench,
    parts: { url: string; store: MemoryClusterStore; server: Server; own: Engine },
  ) {
    const { url, store, server, own } = parts;
    const monotonic = () => clock.now();
    this.url = url;
    this.store = store;
    this.#server = server;
    this.owners = new Owners({ url, partitions: PARTITIONS, refresh: () => this.#driver.refresh() });
    const key = new PeerKey(null, own.info);
    this.#client = new PeerClient({ url, key });
    this.#peerRoutes = new PeerRoutes({ engine: own, store, owners: this.owners, key, clock });
    const { owners } = this;
    this.engine = new ClusterEngine({
      engine: own,
      store,
      owners,
      client: this.#client,
      clock,
      random,
      monotonic,
    });
    this.#lost = (partitions) => {
      own.cluster.hear({ kind: "lost", partitions });
      owners.lost(partitions);
    };
    const lost = this.#lost;
    this.#driver = new OwnershipDriver({
      ...{ store, clock, random: random.child(url), monotonic },
      onMembership: (membership) => {
        owners.update(membership);
        this.sessions.nodesChanged();
      },
      engine: {
        taken: async (owned) => {
          await own.cluster.taken(owned);
          owners.taken(owned);
        },
        lost,
        async yield(partitions) {
          const isClean = await own.cluster.yield(partitions);
          lost(partitions);
          return isClean;
        },
      },
    });
    const nodes = () => [url, ...owners.peers.map((peer) => peer.url)].toSorted();
    this.sessions = new WorkerSessions({ engine: this.engine, store, clock, random, nodes });
    this.#routes = workerRoutes(this.sessions);
  }

  static async open(bench: ClusterBench): Promise<BenchNode> {
    const { clock, tables, random } = bench;
    let node: BenchNode | null = null;
    const server = createServer((incoming, outgoing) => void node?.serve(incoming, outgoing));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const store = new MemoryClusterStore(tables, { url, clock, random });
    const own = await Engine.open({ store, clock, settings: SETTINGS, onCluster: () => {} });
    const opened = new BenchNode(bench, { url, store, server, own });
    node = opened;
    onTestFinished(() => opened.kill());
    return opened;
  }

  start(): void {
    this.#driver.start();
  }

  /** Hands everything over, as at SIGTERM, and ends. */
  async leave(): Promise<void> {
    this.engine.quiesce();
    await this.sessions.quiesce();
    await this.#driver.leave();
    this.kill();
  }

  /** How many partitions it has. */
  get owned(): number {
    return Array.from({ length: PARTITIONS }, (_, at) => this.owners.ownerAt(at)).filter(
      ({ kind }) => kind === "me",
    ).length;
  }

  /** It is gone, as by `kill -9`. */
  kill(): void {
    this.isDead = true;
    this.#driver.stop();
    this.cut();
    this.#server.close();
    this.#client.close();
  }

  /** It can renew its lease no more, and notices: what it has is others' before long. */
  lapse(): void {
    this.isDead = true;
    this.#driver.stop();
    this.#lost(Array.from({ length: PARTITIONS }, (_, at) => at));
  }

  /** It stands still: whoever asks it something waits. */
  freeze(): void {
    this.isDead = true;
    this.#isFrozen = true;
    this.#driver.stop();
  }

  /** Every connection to it breaks. */
  cut(): void {
    this.#server.closeAllConnections();
  }

  async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (this.#isFrozen) return;
    const garbled = isPeerPath(incoming.url) ? null : this.garble(incoming.url ?? "");
    if (garbled !== null) {
      dropBody(incoming);
      outgoing.writeHead(garbled[0]).end(garbled[1]);
      return;
    }
    if (!isPeerPath(incoming.url))
      return answerRoutes(this.#routes, incoming, outgoing, { counts: this.counts, open: this.#open });
    const answer = await this.#peerRoutes.answer(incoming, outgoing);
    dropBody(incoming);
    if (answer.kind === "json") sendAnswer(outgoing, answer, undefined);
    else if (answer.kind !== "streamed") sendProblem(outgoing, answer);
  }
}
