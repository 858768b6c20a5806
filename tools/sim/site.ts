/** The nodes of a simulated run: one node with its own disk, or several over one database. */
import type { Input } from "../../src/engine/io.ts";
import { hashText, type SeededRandom } from "../../src/std/random.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import { ClusterHost, type Neighbours } from "./cluster-host.ts";
import type { Database } from "./database-link.ts";
import type { EngineHost, HostParts } from "./engine-host.ts";
import type { Fault } from "./faults.ts";
import { NodeHost } from "./node-host.ts";
import type { RingMessage } from "./node-ring.ts";
import type { NodeWorkers } from "./node-workers.ts";
import { must } from "./trace.ts";
import type { SimWorker } from "./worker/sim-worker.ts";
import type { World } from "./world.ts";

/** The longest time between two sightings of the token without faults. */
const TOKEN_SEEN_MS = 3_000;

/** The sender and the receiver of a request. */
export interface AskedNode {
  readonly worker: string;
  readonly url: string;
  readonly random: SeededRandom;
}

/** The inputs that a user sends to a node. */
export type ClientInput = Extract<Input, { kind: "request" | "inspect" }>;

export interface Site {
  readonly hosts: readonly EngineHost[];
  open(): void;
  /** Delivers a worker's message to the node that it concerns. */
  fromWorker(worker: SimWorker, input: Input): void;
  fromClient(input: ClientInput): void;
  /** Delivers an input to every running node. */
  toAll(input: Input): void;
  /** Everything runs and is reachable from now on. */
  heal(): void;
  /** After the end of all faults: the first part that has not come to rest yet; null if all have. */
  unsettled(): string | null;
  /** Whether the network between two nodes is cut. */
  isCut(from: string, to: string): boolean;
  /** The URLs of the nodes of a cluster. */
  readonly urls: readonly string[];
  /**
   * Sends a worker's request to a node of a cluster. `answered` is called if the answer arrives, with null if no process
   * listens.
   */
  askNode<T>(asked: AskedNode, ask: (workers: NodeWorkers) => T, answered: (answer: T | null) => void): void;
  /** Causes a fault that only nodes of a cluster have. */
  trouble(random: SeededRandom, fault: Fault): void;
}

export class SingleSite implements Site {
  readonly #host: NodeHost;

  constructor(parts: HostParts) {
    this.#host = new NodeHost("", parts);
  }

  get hosts(): readonly EngineHost[] {
    return [this.#host];
  }

  open(): void {
    this.#host.open();
  }

  fromWorker(_worker: SimWorker, input: Input): void {
    this.#host.deliver(input);
  }

  fromClient(input: Input): void {
    this.#host.deliver(input);
  }

  toAll(input: Input): void {
    this.#host.deliver(input);
  }

  heal(): void {
    if (!this.#host.isUp) this.#host.open();
  }

  readonly urls: readonly string[] = [];

  askNode(): void {}

  trouble(): void {}

  unsettled(): null {
    return null;
  }

  isCut(): boolean {
    return false;
  }
}

/** Several nodes. A message goes to the owner of its execution, as far as the sender knows it. */
export class ClusterSite implements Site, Neighbours {
  checkLimits(): void {
    const under = new Map<string, { open: number; max: number }>();
    for (const host of this.hosts) {
      const { session } = host;
      const isOwn = (execution: string) =>
        this.#tables.ownerOf(partitionOf(execution, this.#partitions)) === session;
      for (const [name, { open, max }] of host.openUnder(isOwn)) {
        const known = under.get(name) ?? { open: 0, max: 0 };
        under.set(name, { open: known.open + open, max: Math.max(known.max, max) });
      }
    }
    for (const [name, { open, max }] of under)
      must(
        open <= max,
        `limit ${name}: ${open} attempts are open at the owners of now, at most ${max} may be`,
      );
  }

  readonly hosts: readonly ClusterHost[];
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #tables: MemoryTables;
  readonly #partitions: number;
  readonly database: Database = { downUntil: 0, slowUntil: 0 };
  /** Until when the network between two nodes is cut. */
  readonly #cuts = new Map<string, number>();
  /** The network is split in two parts; the salt decides which node is in which. */
  #split = { until: 0, salt: 0 };
  /** Whether some nodes have an older version. */
  readonly #isMixed: boolean;
  /** The number of messages between nodes, and the newest that has arrived, by pair. */
  #sent = 0;
  /** Epochs in which a node could not read a row although it knew a newer node, by process and partition. */
  readonly #givenUp = new Map<string, number>();
  readonly #arrived = new Map<string, number>();

  constructor(parts: HostParts, options: { readonly nodes: number; readonly partitions: number }) {
    this.#world = parts.world;
    this.#random = parts.random.child("site");
    this.#tables = parts.tables;
    this.#partitions = options.partitions;
    this.hosts = Array.from({ length: options.nodes }, (_, i) => {
      const name = `n${i} `;
      return new ClusterHost(name, { ...parts, random: parts.random.child(name) }, this);
    });
    if (this.#world.has("skewed-clocks"))
      for (const host of this.hosts) {
        this.#world.count("skewed clock");
        host.jump(this.#random.between(0, 4_000) - 2_000);
      }
    this.#isMixed = this.#world.has("older-nodes") && this.#random.chance(0.3);
    if (this.#isMixed) for (const host of this.hosts) host.isOlder = this.#random.chance(0.6);
  }

  open(): void {
    // Some nodes join later.
    const late = this.#world.has("late-nodes") ? [9_000] : [];
    for (const host of this.hosts) {
      const ms = this.#random.pick([0, 0, 50, 2_000, ...late]);
      if (ms >= 2_000) this.#world.count("node joins late");
      this.#world.timeline.after(ms, () => host.isUp || host.open());
    }
  }

  fromWorker(worker: SimWorker, input: Input): void {
    if (worker.local) return this.hosts.find(({ name }) => name === worker.at)?.receive(input);
    const tell = (to: ClusterHost | undefined, what: Input) => {
      if (to === undefined) return;
      if (this.isCut(worker.id, to.name)) this.#world.count("message cut off");
      else to.receive(what);
    };
    switch (input.kind) {
      case "worker-reports": {
        const [first] = input.reports;
        return tell(this.#route(first?.execution ?? ""), input);
      }
      case "worker-beats": {
        for (const beat of input.beats) tell(this.#route(beat.execution), { ...input, beats: [beat] });
        return;
      }
      default:
        this.toAll(input);
    }
  }

  get urls(): readonly string[] {
    return this.hosts.map(({ name }) => name);
  }

  askNode<T>(
    { worker, url, random }: AskedNode,
    ask: (workers: NodeWorkers) => T,
    answered: (answer: T | null) => void,
  ): void {
    const world = this.#world;
    const host = this.hosts.find(({ name }) => name === url);
    const isLost = () => world.has("lost-messages") && random.chance(0.05);
    const carry = (from: string, to: string, arrive: () => void): void => {
      if (isLost() || this.isCut(from, to)) return world.count("message cut off");
      world.timeline.after(random.below(10), arrive);
    };
    carry(worker, url, () => {
      // No process listens there.
      if (host?.isUp !== true) return carry(url, worker, () => answered(null));
      host.arriveLater(() => {
        const answer = ask(host.workers);
        carry(url, worker, () => answered(answer));
      });
    });
  }

  isCut(from: string, to: string): boolean {
    const { now } = this.#world.timeline;
    const { until, salt } = this.#split;
    const isApart = until > now && hashText(`${salt}${from}`) % 2 !== hashText(`${salt}${to}`) % 2;
    return isApart || (this.#cuts.get(`${from}${to}`) ?? 0) > now;
  }

  toAll(input: Input): void {
    for (const host of this.hosts) host.receive(input);
  }

  fromClient(input: ClientInput): void {
    this.#route(input.execution)?.receive(input);
  }

  heal(): void {
    for (const host of this.hosts) {
      host.heal();
      if (host.isOlder) host.upgrade();
      if (!host.isUp && !host.isRetired) host.open();
    }
    this.#cuts.clear();
    this.#split = { until: 0, salt: 0 };
    this.database.downUntil = 0;
    this.database.slowUntil = 0;
  }

  trouble(random: SeededRandom, fault: Fault): void {
    const host = random.pick(this.hosts);
    const ms = random.pick([200, 800, 1_500, 4_000]);
    const { timeline, trace, ledger } = this.#world;
    const until = timeline.now + ms;
    switch (fault) {
      case "one-way-cuts": {
        const to = random.pick(this.hosts);
        trace.note(timeline.now, `nothing gets from ${host.name}to ${to.name}for ${ms}`);
        this.#cuts.set(`${host.name}${to.name}`, until);
        return this.#world.count("one-way cut");
      }
      case "splits":
        trace.note(timeline.now, `the network is in two parts for ${ms}`);
        this.#split = { until, salt: random.u32() };
        ledger.leases.unsteady(until);
        return this.#world.count("network split");
      case "older-nodes": {
        if (!this.#isMixed || host.isRetired) return;
        if (host.isOlder) return host.upgrade();
        if (random.chance(0.1)) host.downgrade();
        return;
      }
      case "slow-database":
        trace.note(timeline.now, `the database is slow for ${ms}`);
        this.database.slowUntil = until;
        this.#world.count("slow database");
        return ledger.leases.unsteady(until + 4_000);
      case "database-restarts":
        trace.note(timeline.now, `the database restarts for ${ms}`);
        this.database.downUntil = until;
        this.#world.count("database restart");
        return ledger.leases.unsteady(until + 4_000);
      case "leaving-nodes": {
        const staying = this.hosts.filter(({ isRetired }) => !isRetired);
        if (staying.length === 1 || !host.isUp || host.isRetired) return;
        this.#world.count("node leaves for good");
        return host.retire();
      }
      default:
        if (random.chance(0.5)) host.freeze(ms);
        else host.cut(ms);
    }
  }

  ownerOf(partition: number): ClusterHost | undefined {
    const owner = this.#tables.ownerOf(partition);
    return owner === null ? undefined : this.named(owner);
  }

  named(incarnation: string): ClusterHost | undefined {
    return this.hosts.find(({ session }) => session === incarnation);
  }

  send(from: ClusterHost, to: ClusterHost, input: Input): void {
    this.#carry(from, to, () => to.receive(input));
  }

  post(from: ClusterHost, to: string, message: RingMessage, answered: (answer: unknown) => void): void {
    const peer = this.hosts.find(({ name }) => name === to);
    if (peer === undefined) return;
    this.#carry(from, peer, () =>
      peer.arriveLater(() => {
        const answer = peer.ring.receive(from.name, message);
        this.#carry(peer, from, () => from.arriveLater(() => answered(answer)));
      }),
    );
  }

  /** Sends over the network between nodes. */
  #carry(from: ClusterHost, to: ClusterHost, arrive: () => void): void {
    const world = this.#world;
    if (from === to) {
      world.timeline.after(0, arrive);
      return;
    }
    if (world.has("lost-messages") && this.#random.chance(0.1)) return world.count("message lost");
    if (this.isCut(from.name, to.name)) return world.count("message cut off");
    const number = ++this.#sent;
    const pair = `${from.name}${to.name}`;
    world.timeline.after(world.delay(), () => {
      if ((this.#arrived.get(pair) ?? 0) > number) world.count("message overtaken");
      else this.#arrived.set(pair, number);
      arrive();
    });
    if (!world.has("repeated-messages") || !this.#random.chance(0.1)) return;
    world.count("message repeated");
    world.timeline.after(this.#random.below(this.#random.pick([20, 3_000])), arrive);
  }

  unreadable(from: ClusterHost, partition: number): void {
    const { session } = from;
    const epoch = this.#tables.epochOf(partition);
    const key = `${session} ${partition}`;
    const before = this.#givenUp.get(key) ?? epoch;
    // While no node is newer, it may keep the partition.
    const isTakenBack = before < epoch && from.knowsNewer(2_500);
    must(!isTakenBack, `${from.name}takes back partition ${partition}, which it cannot read`);
    if (from.knowsNewer(1_000)) this.#givenUp.set(key, before);
    const isKept = () => from.session === session && this.#tables.epochOf(partition) === epoch;
    this.#world.timeline.after(5_000, () => {
      const isOwner = isKept() && this.#tables.ownerOf(partition) === session;
      must(
        !isOwner || !from.knowsNewer(4_500),
        `${from.name}gives up partition ${partition} to a newer node`,
      );
    });
  }

  stored(from: ClusterHost, executions: readonly string[]): void {
    for (const execution of executions) {
      const owner = this.ownerOf(partitionOf(execution, this.#partitions));
      if (owner === undefined || owner === from || this.#random.chance(0.3)) continue;
      if (this.isCut(from.name, owner.name)) continue;
      this.#world.timeline.after(this.#world.delay(), () => owner.receive({ kind: "mail-stored" }));
    }
  }

  /** Every partition must have a running owner, and the ring must work: all nodes know the same members and see the token. */
  unsettled(): string | null {
    const up = this.hosts.filter(({ isUp }) => isUp);
    for (let partition = 0; partition < this.#partitions; partition++)
      if (this.ownerOf(partition)?.isUp !== true) return `partition ${partition} has no owner`;
    const views = up.map(({ ring }) => ring.view());
    if (new Set(views.map(({ hash }) => hash)).size > 1) return "nodes know different members";
    const isSilent = views.some(({ tokenAgoMs }) => tokenAgoMs > TOKEN_SEEN_MS);
    return isSilent ? "the token does not come round" : this.#world.workers.outOfTouch();
  }

  /** The node that gets a message about an execution: usually its owner. */
  #route(execution: string): ClusterHost | undefined {
    if (this.#random.chance(0.1)) return this.#random.pick(this.hosts);
    return this.ownerOf(partitionOf(execution, this.#partitions));
  }
}
