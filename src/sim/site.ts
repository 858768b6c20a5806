/** Where the engine runs in a simulated run: one node on its own disk, or several over one database. */
import type { Input } from "../engine/io.ts";
import type { SeededRandom } from "../std/random.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import { partitionOf } from "../store/partition-of.ts";
import { ClusterHost, type Neighbours } from "./cluster-host.ts";
import type { EngineHost, HostParts } from "./engine-host.ts";
import { NodeHost } from "./node-host.ts";
import type { SimWorker } from "./worker/sim-worker.ts";
import type { World } from "./world.ts";

export interface Site {
  readonly hosts: readonly EngineHost[];
  open(): void;
  /** To whoever it concerns. */
  fromWorker(worker: SimWorker, input: Input): void;
  fromClient(input: Extract<Input, { kind: "request" }>): void;
  /** Everything runs and is reachable from now on. */
  heal(): void;
  /** Something that befalls only nodes of a cluster. */
  trouble(random: SeededRandom): void;
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

  constructor(parts: HostParts, options: { readonly nodes: number; readonly partitions: number }) {
    this.#world = parts.world;
    this.#random = parts.random.child("site");
    this.#tables = parts.tables;
    this.#partitions = options.partitions;
    this.hosts = Array.from({ length: options.nodes }, (_, i) => {
      const name = `n${i} `;
      return new ClusterHost(name, { ...parts, random: parts.random.child(name) }, this);
    });
  }

  open(): void {
    // Some come later.
    for (const host of this.hosts)
      this.#world.timeline.after(this.#random.pick([0, 0, 50, 2_000]), () => host.isUp || host.open());
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
        for (const host of this.hosts) host.receive(input);
    }
  }

  fromClient(input: Extract<Input, { kind: "request" }>): void {
    this.#route(input.execution)?.receive(input);
  }

  heal(): void {
    for (const host of this.hosts) {
      host.heal();
      if (!host.isUp) host.open();
    }
  }

  trouble(random: SeededRandom): void {
    const host = random.pick(this.hosts);
    const ms = random.pick([200, 800, 1_500, 4_000]);
    if (random.chance(0.5)) host.freeze(ms);
    else host.cut(ms);
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
    if (from !== to && world.has("lost-messages") && this.#random.chance(0.1)) return;
    world.timeline.after(from === to ? 0 : world.delay(), () => to.receive(input));
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
