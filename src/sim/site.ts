/** Where the engine runs in a simulated run: one node on its own disk, or several over one database. */
import type { Input } from "../engine/io.ts";
import type { SeededRandom } from "../std/random.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import { partitionOf } from "../store/partition-of.ts";
import { ClusterHost, type Database, type Neighbours } from "./cluster-host.ts";
import type { EngineHost, HostParts } from "./engine-host.ts";
import type { Fault } from "./faults.ts";
import { NodeHost } from "./node-host.ts";
import type { SimWorker } from "./worker/sim-worker.ts";
import type { World } from "./world.ts";

export interface Site {
  readonly hosts: readonly EngineHost[];
  open(): void;
  /** To whoever it concerns. */
  fromWorker(worker: SimWorker, input: Input): void;
  fromClient(input: Extract<Input, { kind: "request" }>): void;
  /** To every node that runs. */
  toAll(input: Input): void;
  /** Everything runs and is reachable from now on. */
  heal(): void;
  /** Something that befalls only nodes of a cluster. */
  trouble(random: SeededRandom, fault: Fault): void;
}

/** One node. */
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

  trouble(): void {}
}

/** Several nodes: messages go to the owner of what they are about, as far as the sender knows it. */
export class ClusterSite implements Site, Neighbours {
  readonly hosts: readonly ClusterHost[];
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #tables: MemoryTables;
  readonly #partitions: number;
  readonly database: Database = { downUntil: 0, slowUntil: 0 };
  /** Until when nothing gets from one node to another. */
  readonly #cuts = new Map<string, number>();

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
      for (const host of this.hosts) host.jump(this.#random.between(0, 4_000) - 2_000);
  }

  open(): void {
    // Some come later.
    const late = this.#world.has("late-nodes") ? [9_000] : [];
    for (const host of this.hosts)
      this.#world.timeline.after(
        this.#random.pick([0, 0, 50, 2_000, ...late]),
        () => host.isUp || host.open(),
      );
  }

  fromWorker(worker: SimWorker, input: Input): void {
    if (worker.local) return this.hosts.find(({ name }) => name === worker.at)?.receive(input);
    switch (input.kind) {
      case "worker-reports": {
        const [first] = input.reports;
        return this.#route(first?.execution ?? "")?.receive(input);
      }
      case "worker-beats": {
        for (const beat of input.beats) this.#route(beat.execution)?.receive({ ...input, beats: [beat] });
        return;
      }
      default:
        this.toAll(input);
    }
  }

  toAll(input: Input): void {
    for (const host of this.hosts) host.receive(input);
  }

  fromClient(input: Extract<Input, { kind: "request" }>): void {
    this.#route(input.execution)?.receive(input);
  }

  heal(): void {
    for (const host of this.hosts) {
      host.heal();
      if (!host.isUp && !host.isRetired) host.open();
    }
    this.#cuts.clear();
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
        return;
      }
      case "slow-database":
        trace.note(timeline.now, `the database is slow for ${ms}`);
        this.database.slowUntil = until;
        return ledger.leases.unsteady(until + 4_000);
      case "database-restarts":
        trace.note(timeline.now, `the database restarts for ${ms}`);
        this.database.downUntil = until;
        return ledger.leases.unsteady(until + 4_000);
      case "leaving-nodes": {
        const staying = this.hosts.filter(({ isRetired }) => !isRetired);
        if (staying.length > 1 && host.isUp && !host.isRetired) host.retire();
        return;
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
    const world = this.#world;
    if (from === to) {
      world.timeline.after(0, () => to.receive(input));
      return;
    }
    if (world.has("lost-messages") && this.#random.chance(0.1)) return;
    if ((this.#cuts.get(`${from.name}${to.name}`) ?? 0) > world.timeline.now) return;
    world.timeline.after(world.delay(), () => to.receive(input));
    if (world.has("repeated-messages") && this.#random.chance(0.1))
      world.timeline.after(this.#random.below(this.#random.pick([20, 3_000])), () => to.receive(input));
  }

  stored(from: ClusterHost, executions: readonly string[]): void {
    for (const execution of executions) {
      const owner = this.ownerOf(partitionOf(execution, this.#partitions));
      if (owner === undefined || owner === from || this.#random.chance(0.3)) continue;
      this.#world.timeline.after(this.#world.delay(), () => owner.receive({ kind: "letters-stored" }));
    }
  }

  /** Where a message about an execution goes: mostly to its owner. */
  #route(execution: string): ClusterHost | undefined {
    if (this.#random.chance(0.1)) return this.#random.pick(this.hosts);
    return this.ownerOf(partitionOf(execution, this.#partitions));
  }
}
