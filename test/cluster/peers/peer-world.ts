/**
 * A cluster in one process: nodes over one store in memory, which talk to each other by real HTTP on loopback. Time is
 * virtual; who has which partition is said by the test.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { ClusterEngine } from "../../../src/cluster/cluster-engine.ts";
import { OwnershipDriver } from "../../../src/cluster/ownership/ownership-driver.ts";
import { Owners } from "../../../src/cluster/peers/owners.ts";
import { PeerClient } from "../../../src/cluster/peers/peer-client.ts";
import { PeerKey } from "../../../src/cluster/peers/peer-key.ts";
import { isPeerPath, type PeerHook, PeerRoutes } from "../../../src/cluster/peers/peer-routes.ts";
import { Engine } from "../../../src/engine/driver.ts";
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import { dropBody } from "../../../src/server/http/read-body.ts";
import { sendAnswer, sendProblem } from "../../../src/server/http/send-answer.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import { MemoryClusterStore } from "../../../src/store/memory/memory-cluster-store.ts";
import { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { VirtualClock } from "../../../src/testing/virtual-clock.ts";

/** So many that each of a few nodes has some, whatever their ports are. */
export const PARTITIONS = 64;
const TURNS_MAX = 200_000;

export interface NodeOptions {
  readonly secret?: string;
  readonly streamsMax?: number;
  readonly bodyBytesMax?: number;
  readonly hooks?: Readonly<Record<string, PeerHook>>;
}

export class PeerWorld {
  readonly clock = new VirtualClock();
  readonly random = new SeededRandom(7);
  readonly tables = new MemoryTables({ partitions: PARTITIONS, random: this.random });
  readonly nodes: PeerNode[] = [];
  /** Every request between nodes, as `<path> <status>`, by the name of its receiver. */
  readonly requests: string[] = [];
  readonly faults: Error[] = [];
  #ids = 0;

  /** A node that owns nothing yet. */
  async node(name: string, options: NodeOptions = {}): Promise<PeerNode> {
    const node = await PeerNode.open(this, name, options);
    this.nodes.push(node);
    for (const other of this.nodes) await other.renew();
    return node;
  }

  /** An id that lives in a partition. */
  idIn(partition: number): string {
    for (;;) {
      const id = `e${++this.#ids}`;
      if (partitionOf(id, PARTITIONS) === partition) return id;
    }
  }

  /** Lets everything run, the network included, until something holds; time does not move. */
  async until(holds: () => boolean): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      if (holds()) return;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    throw new Error("it did not come to hold");
  }

  /** Moves time on in small pieces until something holds; the living keep their leases. */
  async passUntil(holds: () => boolean, stepMs = 100): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      if (holds()) return;
      for (let i = 0; i < 20 && !holds(); i++) await new Promise<void>((resolve) => setImmediate(resolve));
      for (const node of this.nodes) await node.keepLease();
      await this.clock.advance(stepMs);
    }
    throw new Error("it did not come to hold");
  }

  /** The value of a promise while time goes on. */
  async passing<T>(promise: Promise<T>): Promise<T> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    promise.then(end, end);
    await this.passUntil(() => isOver);
    return promise;
  }
}

export class PeerNode {
  readonly name: string;
  readonly url: string;
  readonly store: MemoryClusterStore;
  readonly engine: Engine;
  readonly owners: Owners;
  readonly client: PeerClient;
  readonly cluster: ClusterEngine;
  readonly routes: PeerRoutes;
  readonly #world: PeerWorld;
  readonly #server: Server;
  #driver: OwnershipDriver | null = null;
  /** What becomes of requests: answered; taken and never answered; done, but the answer is lost. */
  mood: "answers" | "hangs" | "loses" = "answers";
  hung = 0;
  /** It does not look at the store when it has reason to. */
  isBlind = false;

  private constructor(parts: {
    world: PeerWorld;
    name: string;
    url: string;
    server: Server;
    store: MemoryClusterStore;
    engine: Engine;
    options: NodeOptions;
  }) {
    const { world, name, url, server, store, engine, options } = parts;
    const { clock, random, faults } = world;
    this.#world = world;
    this.#server = server;
    this.name = name;
    this.url = url;
    this.store = store;
    this.engine = engine;
    const fault = (thrown: Error): void => void faults.push(thrown);
    const refresh = (): void => {
      if (this.#driver !== null) this.#driver.refresh();
      else if (!this.isBlind) this.renew().catch(fault);
    };
    this.owners = new Owners({ url, partitions: PARTITIONS, refresh });
    const key = new PeerKey(options.secret ?? null, engine.info);
    const onFault = (fault: Error): void => void faults.push(fault);
    this.client = new PeerClient({ url, key, onFault });
    this.routes = new PeerRoutes({
      engine,
      store,
      owners: this.owners,
      key,
      clock,
      hooks: options.hooks ?? {},
      ...(options.bodyBytesMax === undefined ? {} : { bodyBytesMax: options.bodyBytesMax }),
      onFault,
    });
    this.cluster = new ClusterEngine({
      engine,
      store,
      owners: this.owners,
      client: this.client,
      clock,
      random: random.child(name),
      monotonic: () => clock.now(),
      ...(options.streamsMax === undefined ? {} : { streamsMax: options.streamsMax }),
    });
  }

  static async open(world: PeerWorld, name: string, options: NodeOptions): Promise<PeerNode> {
    const { clock, tables, random } = world;
    let node: PeerNode | null = null;
    const server = createServer((incoming, outgoing) => void node?.serve(incoming, outgoing));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const store = new MemoryClusterStore(tables, { url, clock, random });
    const engine = await Engine.open({ store, clock, onCluster: () => {} });
    node = new PeerNode({ world, name, url, server, store, engine, options });
    const opened = node;
    onTestFinished(() => opened.kill());
    return node;
  }

  /** Reads the store, as a renewal does. */
  async renew(): Promise<void> {
    if (this.isDead) return;
    const membership = await this.store.renew();
    if (!this.isDead) this.owners.update(membership);
  }

  /** Renews its lease, and learns nothing by it. */
  async keepLease(): Promise<void> {
    if (!this.isDead && !this.engine.hasStopped && this.#driver === null) await this.store.renew();
  }

  /** From now on it renews its lease, and takes and hands over partitions, by itself. */
  drive(): void {
    const { engine, owners, store } = this;
    const { clock, random } = this.#world;
    const lost = (partitions: readonly number[]): void => {
      engine.cluster.hear({ kind: "lost", partitions });
      owners.lost(partitions);
    };
    this.#driver = new OwnershipDriver({
      store,
      clock,
      random: random.child(`${this.name} ownership`),
      monotonic: () => clock.now(),
      onMembership: (membership) => owners.update(membership),
      engine: {
        taken: (owned) => {
          engine.cluster
            .taken(owned)
            .then(() => owners.taken(owned))
            .catch((thrown: Error) => void this.#world.faults.push(thrown));
        },
        lost,
        async yield(partitions) {
          await engine.cluster.yield(partitions);
          lost(partitions);
        },
      },
    });
    this.#driver.start();
  }

  /** Hands everything over, as at SIGTERM. */
  async leave(): Promise<void> {
    await this.#driver?.leave();
  }

  /** Takes partitions that are free, and begins with them. */
  async take(...partitions: number[]): Promise<void> {
    await this.renew();
    const owned = await this.store.take(partitions);
    await this.engine.cluster.taken(owned);
    this.owners.taken(owned);
  }

  /** Hands partitions over. */
  async release(...partitions: number[]): Promise<void> {
    await this.engine.cluster.yield(partitions);
    this.engine.cluster.hear({ kind: "lost", partitions });
    this.owners.lost(partitions);
    await this.store.release(partitions, { clean: true });
  }

  isDead = false;
  diedAt = Number.POSITIVE_INFINITY;

  /** It is gone, as by `kill -9`. */
  kill(): void {
    this.isDead = true;
    this.diedAt = this.#world.clock.now();
    this.#driver?.stop();
    this.#server.close();
    this.#server.closeAllConnections();
    this.client.close();
  }

  /** Every connection to it breaks. */
  cutOff(): void {
    this.#server.closeAllConnections();
  }

  async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (!isPeerPath(incoming.url)) return void outgoing.writeHead(404).end();
    if (this.mood === "hangs") {
      this.hung++;
      return;
    }
    const answer = await this.routes.answer(incoming, outgoing);
    dropBody(incoming);
    const status =
      answer.kind === "streamed"
        ? 200
        : this.mood === "loses"
          ? -1
          : answer.kind === "json"
            ? sendAnswer(outgoing, answer, undefined)
            : sendProblem(outgoing, answer);
    if (status === -1) outgoing.destroy();
    this.#world.requests.push(`${this.name} ${(incoming.url ?? "").split("/").at(-1)} ${status}`);
  }
}

/** A plan from phases. */
export function planOf(phases: unknown): Plan {
  return compilePlan(unwrap(parseDefinition({ name: "w", phases })));
}

/** An execution that waits for the signal `go`, then ends with it. */
export const WAITING = planOf([{ name: "a", handlers: { wait: { waitFor: "go" } } }]);

/** Starts one at a node. */
export async function start(
  { cluster, store }: PeerNode,
  execution: string,
  { plan = WAITING, fresh = false, input = "null" } = {},
) {
  await store.putDefinition("w", plan.hash, JSON.stringify(plan.definition));
  const { hash } = plan;
  const message = {
    kind: "start",
    execution,
    workflow: "w",
    hash,
    project: "default",
    input,
    tags: {},
  } as const;
  return cluster.send(execution, message, { plan, fresh });
}

/** The signal that it waits for. */
export function go(id: string, data = "1") {
  return { kind: "signal", id, signal: "go", data } as const;
}
