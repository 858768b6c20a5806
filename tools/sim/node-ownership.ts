/** The partitions of a node of a simulated cluster: its `OwnershipNode`, with calls that fail or are late. */
import { OwnershipNode } from "../../src/cluster/ownership/ownership.ts";
import type {
  OwnershipInput,
  OwnershipOutput,
  OwnershipSettings,
} from "../../src/cluster/ownership/ownership-io.ts";
import type { Input } from "../../src/engine/io.ts";
import { handoverOf, type LeaseTable, tableFor } from "../../src/engine/leases/lease-handover.ts";
import type { StoredQuotas } from "../../src/engine/limits/quota-server.ts";
import { quotasFor } from "../../src/engine/limits/stored-quotas.ts";
import type { Vocabulary } from "../../src/kernel/journal/replay.ts";
import type { SeededRandom } from "../../src/std/random.ts";
import type { Membership } from "../../src/store/cluster-store.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import type { Ownership } from "../../src/store/store.ts";
import { Alarm } from "./alarm.ts";
import type { DatabaseLink } from "./database-link.ts";
import type { World } from "./world.ts";

/** A tenth of the real time. */
export const LEASE_MS = 1_000;
const OWNERSHIP: Partial<OwnershipSettings> = {
  renewMs: 300,
  stableMs: 1_000,
  yieldMax: 2,
  orphanMs: 1_500,
  hintGapMs: 10,
};

/** The process of a node, as its parts see it. */
export interface Process {
  readonly name: string;
  readonly world: World;
  readonly random: SeededRandom;
  readonly tables: MemoryTables;
  readonly database: DatabaseLink;
  /** The events that the present process can read. */
  readonly vocabulary: () => Vocabulary;
  /** The machine's clock. */
  readonly clock: () => number;
  /** Runs something after a while, if the process lives until then. */
  readonly later: (ms: number, run: () => void) => void;
  readonly toEngine: (input: Input) => void;
}

interface Listener {
  membership(membership: Membership): void;
  /** Called when partitions were gained or lost. */
  moved(): void;
  left(): void;
}

/** Converts stored quotas to another clock. */
export function shiftHome(home: StoredQuotas, ms: number): StoredQuotas {
  const { unstoredSince } = home;
  return {
    ...home,
    ...(unstoredSince === undefined ? {} : { unstoredSince: unstoredSince + ms }),
    limits: home.limits.map((limit) => ({
      ...limit,
      holders: limit.holders.map((holder) =>
        holder.goneAt === undefined ? holder : { ...holder, goneAt: holder.goneAt + ms },
      ),
    })),
  };
}

interface Yield {
  readonly yield: number;
  /** The partitions that are not released yet. */
  readonly partitions: Set<number>;
  isClean: boolean;
}

export class NodeOwnership {
  readonly #process: Process;
  readonly #listener: Listener;
  #node = new OwnershipNode(OWNERSHIP);
  /** Its session in the database, as of the last renewal that took effect there. */
  session: string | null = null;
  /** The time of the database at which its membership ends unless it is renewed. */
  leaseUntil = 0;
  #sessions = 0;
  readonly #alarm: Alarm;
  /** The yield under way of each partition. */
  readonly #yields = new Map<number, Yield>();
  /** The highest version of events that all nodes can read, as last known here. */
  readByAll = Number.POSITIVE_INFINITY;
  /** Since when it knows a newer node. */
  newerSince = Number.POSITIVE_INFINITY;

  constructor(process: Process, listener: Listener) {
    this.#process = process;
    this.#listener = listener;
    this.#alarm = new Alarm(process.later);
  }

  /** Called when a new process begins. */
  open(): void {
    this.session = null;
    this.#node = new OwnershipNode(OWNERSHIP);
    this.#alarm.clear();
    this.#yields.clear();
    this.readByAll = Number.POSITIVE_INFINITY;
    this.newerSince = Number.POSITIVE_INFINITY;
    this.input({ kind: "tick" });
  }

  /** Called when the process has ended: the answers of its calls are dropped. */
  end(): void {
    this.#node = new OwnershipNode(OWNERSHIP);
    this.#alarm.clear();
  }

  mayAct(): boolean {
    return this.#node.mayAct(this.#process.world.timeline.now);
  }

  get owned(): readonly number[] {
    return this.#node.view().owned.map(({ partition }) => partition);
  }

  input(input: OwnershipInput): void {
    const { timeline } = this.#process.world;
    const node = this.#node;
    if (input.kind === "membership") this.#onMembership(input.membership);
    node.input(input, timeline.now);
    for (;;) {
      const outputs = node.advance(timeline.now);
      if (outputs.length === 0) break;
      for (const output of outputs) if (this.#node === node) this.#perform(output);
    }
    this.#alarm.set({ at: node.nextWakeAt(), now: timeline.now }, () => this.input({ kind: "tick" }));
  }

  #onMembership(membership: Membership): void {
    const { world, vocabulary } = this.#process;
    const { nodes } = membership;
    this.readByAll = Math.min(...nodes.map(({ reads }) => reads));
    const hasNewer = nodes.some(({ reads }) => reads > vocabulary().events);
    this.newerSince = hasNewer ? Math.min(this.newerSince, world.timeline.now) : Number.POSITIVE_INFINITY;
    this.#listener.membership(membership);
  }

  /** The engine has released a partition. Its leases go to the next owner, unless that one has to search for them. */
  yielded(partition: number, leases: LeaseTable | null): void {
    const one = this.#yields.get(partition);
    if (one === undefined) return;
    const { tables, random, later } = this.#process;
    if (leases === null) one.isClean = false;
    else tables.putDocument("leases", String(partition), JSON.stringify(leases));
    one.partitions.delete(partition);
    if (one.partitions.size > 0) return;
    const kind = one.isClean ? "yielded" : "yield-failed";
    later(random.below(5), () => this.input({ kind, yield: one.yield }));
  }

  #perform(output: OwnershipOutput): void {
    const { name, tables, toEngine } = this.#process;
    const { world } = this.#process;
    const { timeline, trace } = world;
    const session = this.session ?? "";
    switch (output.kind) {
      case "renew": {
        const askedAt = timeline.now;
        return this.#call(() => ({ kind: "membership", membership: this.#renew(), askedAt }));
      }
      case "take":
        return this.#call(() => {
          const owned = tables.take(session, output.partitions, timeline.now);
          world.partitionsTaken(owned);
          const names = owned.map(({ partition, epoch }) => `${partition}.${epoch}`).join(" ");
          trace.note(timeline.now, `${name}takes ${names}`);
          return { kind: "taken", owned };
        });
      case "release":
        return this.#call(() => {
          tables.release(session, output.partitions, { clean: output.clean });
          trace.note(timeline.now, `${name}releases ${output.partitions.join(" ")} ${output.clean}`);
          return { kind: "released" };
        });
      case "leave":
        return this.#call(() => {
          tables.leave(session, { clean: false });
          return { kind: "has-left" };
        });
      case "yield": {
        const one = { yield: output.yield, partitions: new Set(output.partitions), isClean: true };
        for (const partition of output.partitions) this.#yields.set(partition, one);
        return toEngine({ kind: "yield", partitions: output.partitions });
      }
      case "engine-taken":
        toEngine({
          kind: "taken",
          owned: output.owned.map((own) => this.#byOwnClock(own)),
          left: this.#left(output.owned),
        });
        return this.#listener.moved();
      case "engine-lost":
        for (const partition of output.partitions) this.#yields.delete(partition);
        toEngine({ kind: "lost", partitions: output.partitions });
        return this.#listener.moved();
      case "left":
        return this.#listener.left();
      default:
        return;
    }
  }

  /** How far the engine's clock is ahead of the store's. A real engine uses the store's clock. */
  get #aheadMs(): number {
    return this.#process.clock() - this.#process.world.timeline.now;
  }

  #byOwnClock(own: Ownership): Ownership {
    const ends = own.uncleanEnds?.map(({ epoch, at }) => ({ epoch, at: at + this.#aheadMs }));
    return ends === undefined ? own : { ...own, uncleanEnds: ends };
  }

  #call(make: () => OwnershipInput): void {
    const { database, random, later, world } = this.#process;
    // A call of one process is not answered in the next.
    const node = this.#node;
    const answer = (input: OwnershipInput, withinMs: number) =>
      later(random.below(withinMs), () => {
        if (this.#node === node) this.input(input);
      });
    database.call({
      withinMs: 5,
      make,
      answer: (input) => answer(input, 5),
      // A failed call backs off, as in a driver.
      failed: (isMade) => {
        world.count(isMade ? "answer lost after a call" : "call lost before it was made");
        answer({ kind: "call-failed" }, 100);
      },
    });
  }

  #renew(): Membership {
    const { name: url, tables, world, vocabulary } = this.#process;
    const next = `${url}${++this.#sessions}`;
    const { events: reads } = vocabulary();
    const renewal = { url, incarnation: this.session, next, leaseMs: LEASE_MS, reads };
    const membership = tables.renew(renewal, world.timeline.now);
    this.session = membership.incarnation;
    this.leaseUntil = membership.leaseUntil;
    return membership;
  }

  #left(owned: readonly Ownership[]) {
    const { tables } = this.#process;
    const found: { own: Ownership; table: LeaseTable }[] = [];
    for (const own of owned) {
      if (own.epoch === 1 || own.uncleanEpoch === own.epoch - 1) continue;
      const table = tableFor(own, tables.getDocument("leases", String(own.partition)));
      if (table !== null) found.push({ own, table });
    }
    const stored = new Map<number, StoredQuotas>();
    for (const own of owned) {
      const home = quotasFor(own, tables.getDocument("permits", String(own.partition)));
      if (home !== null && own.uncleanEpoch === own.epoch - 1)
        stored.set(own.partition, shiftHome(home, this.#aheadMs));
    }
    return { ...handoverOf(found), stored };
  }
}
