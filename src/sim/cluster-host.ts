/**
 * A node of a simulated cluster: its engine and its ownership over a database that others write to as well. Calls to the
 * database fail before or after they have had their effect; the process freezes for longer than its lease, dies, leaves
 * in good order and comes back. What it asks of the database happens there, whatever becomes of the process.
 */
import { OwnershipNode } from "../cluster/ownership.ts";
import type { OwnershipInput, OwnershipOutput, OwnershipSettings } from "../cluster/ownership-io.ts";
import { type LeaseTable, leftBy, tableFor } from "../engine/hand-over.ts";
import type { Input } from "../engine/io.ts";
import { EngineNode } from "../engine/node.ts";
import { membersOf } from "../engine/permit-homes.ts";
import { FOLD_VERSION } from "../kernel/snapshot.ts";
import { VOCABULARY, type Vocabulary } from "../kernel/vocabulary.ts";
import type { Membership } from "../store/cluster-store.ts";
import type { Commit, CommitVerdict, Ownership } from "../store/store.ts";
import { type Database, DatabaseLink } from "./database-link.ts";
import {
  type ClusterOutput,
  type CommitOutput,
  EngineHost,
  type HostParts,
  SIM_SETTINGS,
} from "./engine-host.ts";
import { showWrite } from "./show-event.ts";
import { must } from "./trace.ts";

/** A version of long ago, which knows the first events only. */
const OLDER: Vocabulary = { events: 1, fold: FOLD_VERSION - 1 };
/** A tenth of what is real. */
const LEASE_MS = 1_000;
const OWNERSHIP: Partial<OwnershipSettings> = {
  renewMs: 300,
  stableMs: 1_000,
  yieldMax: 2,
  orphanMs: 1_500,
  hintGapMs: 10,
};
const SETTINGS = {
  ...SIM_SETTINGS,
  suspectMs: 300,
  heartbeatMs: 3_000,
  takeoverMs: 1_500,
  permitPatienceMs: 200,
  permitReserveMs: 1_000,
};

/** What the nodes of a cluster need of each other. */
export interface Neighbours {
  /** The host of the partition's owner, by the database. */
  ownerOf(partition: number): ClusterHost | undefined;
  named(incarnation: string): ClusterHost | undefined;
  /** A message from one node to another. */
  send(from: ClusterHost, to: ClusterHost, input: Input): void;
  readonly database: Database;
  /** The node met what a newer one wrote. */
  unreadable(from: ClusterHost, partition: number): void;
  /** Letters were stored for these executions. */
  stored(from: ClusterHost, executions: readonly string[]): void;
}

interface Yield {
  readonly yield: number;
  /** Those that have not been let go of yet. */
  readonly partitions: Set<number>;
  isClean: boolean;
}

export class ClusterHost extends EngineHost {
  readonly #neighbours: Neighbours;
  #ownership = new OwnershipNode(OWNERSHIP);
  /** Its name in the database, as of the last renewal that had its effect there. */
  #session: string | null = null;
  #sessions = 0;
  #ownWakeAt = Number.POSITIVE_INFINITY;
  /** The yield that each partition is in. */
  readonly #yields = new Map<number, Yield>();
  #frozenUntil = 0;
  readonly #database: DatabaseLink;
  #commits: CommitOutput[] = [];
  isAway = false;
  /** It does not come back. */
  isRetired = false;
  /** Of an older version: from its next start on. */
  isOlder = false;
  /** The highest version of events that all nodes read, by the last word that the node had. */
  #readByAll = Number.POSITIVE_INFINITY;
  /** Since when it knows of a newer node. */
  #newerSince = Number.POSITIVE_INFINITY;

  constructor(name: string, parts: HostParts, neighbours: Neighbours) {
    super(name, parts);
    this.#neighbours = neighbours;
    this.#database = new DatabaseLink(this.world, this.random, neighbours.database);
  }

  get session(): string | null {
    return this.#session;
  }

  override open(): void {
    const { projects, trace, timeline } = this.world;
    trace.note(timeline.now, `${this.name}open`);
    this.#session = null;
    this.#ownership = new OwnershipNode(OWNERSHIP);
    this.#ownWakeAt = Number.POSITIVE_INFINITY;
    this.#yields.clear();
    this.#commits = [];
    this.#frozenUntil = 0;
    this.isAway = false;
    this.vocabulary = this.isOlder ? OLDER : VOCABULARY;
    this.#readByAll = Number.POSITIVE_INFINITY;
    this.#newerSince = Number.POSITIVE_INFINITY;
    if (this.isOlder) this.world.count("older node");
    const settings = { ...SETTINGS, projects, vocabulary: this.vocabulary };
    this.begin(new EngineNode(this.tables.info([]), this.clock(), settings));
    this.#own({ kind: "tick" });
  }

  override crash(): void {
    if (this.node === null) return;
    this.world.trace.note(this.world.timeline.now, `${this.name}crash`);
    this.world.count("node crash");
    this.end();
    this.#comeBack();
  }

  override close(): void {
    if (this.node === null) return;
    this.world.trace.note(this.world.timeline.now, `${this.name}leaves`);
    this.#own({ kind: "leave" });
    const { incarnation } = this;
    // What runs in this process may take its time; then it is not waited for.
    this.later(5_000, () => this.incarnation === incarnation && this.crash());
  }

  /** Leaves for good. */
  retire(): void {
    this.isRetired = true;
    this.close();
  }

  /** Comes back as the newest version. */
  upgrade(): void {
    this.world.count("node upgraded");
    this.isOlder = false;
    this.close();
  }

  /** Comes back as an older version. */
  downgrade(): void {
    this.world.count("node downgraded");
    this.isOlder = true;
    this.close();
  }

  /** Whether it has known for so long that a newer node is there. */
  knowsNewer(ms: number): boolean {
    return this.world.timeline.now - this.#newerSince >= ms;
  }

  /** SIGSTOP for a while. */
  freeze(ms: number): void {
    this.world.trace.note(this.world.timeline.now, `${this.name}frozen for ${ms}`);
    this.#frozenUntil = this.world.timeline.now + ms;
    if (ms > LEASE_MS) this.world.count("pause beyond the lease");
    this.world.ledger.leases.unsteady(this.#frozenUntil);
  }

  /** The database cannot be reached for a while. */
  cut(ms: number): void {
    this.world.trace.note(this.world.timeline.now, `${this.name}cut off for ${ms}`);
    this.#database.cutUntil = this.world.timeline.now + ms;
    this.world.count("connection cut");
    this.world.ledger.leases.unsteady(this.#database.cutUntil);
  }

  heal(): void {
    this.#frozenUntil = 0;
    this.#database.cutUntil = 0;
  }

  protected override mayAct(): boolean {
    return this.node?.isOwner !== true || this.#ownership.mayAct(this.world.timeline.now);
  }

  protected override later(ms: number, run: () => void): void {
    this.world.timeline.after(ms, () => this.#thawed(run));
  }

  #thawed(run: () => void): void {
    const frozenMs = this.#frozenUntil - this.world.timeline.now;
    if (frozenMs > 0) this.world.timeline.after(frozenMs, () => this.#thawed(run));
    else run();
  }

  /** A message arrives; what is frozen reads it later, if it lives that long. */
  receive(input: Input): void {
    const { incarnation } = this;
    this.#thawed(() => this.incarnation === incarnation && this.deliver(input));
  }

  #comeBack(): void {
    this.isAway = true;
    const { timeline } = this.world;
    if (this.isRetired) return;
    timeline.after(this.random.pick([1, 200, 3_000]), () => this.node === null && this.open());
  }

  #own(input: OwnershipInput): void {
    const { timeline } = this.world;
    if (input.kind === "membership") {
      const members = membersOf(input.membership);
      this.#readByAll = members.reads;
      const hasNewer = input.membership.nodes.some(({ reads }) => reads > this.vocabulary.events);
      this.#newerSince = hasNewer ? Math.min(this.#newerSince, timeline.now) : Number.POSITIVE_INFINITY;
      this.deliver({ kind: "members", ...members });
      // What others stored while nobody told.
      this.deliver({ kind: "letters-stored" });
    }
    this.#ownership.input(input, timeline.now);
    for (;;) {
      const outputs = this.#ownership.advance(timeline.now);
      if (outputs.length === 0) break;
      for (const output of outputs) this.#performOwn(output);
    }
    const at = this.#ownership.nextWakeAt();
    if (this.node === null || at === Number.POSITIVE_INFINITY || at === this.#ownWakeAt) return;
    this.#ownWakeAt = at;
    const { incarnation } = this;
    this.later(Math.max(1, at - timeline.now), () => {
      this.#ownWakeAt = Number.POSITIVE_INFINITY;
      if (this.incarnation === incarnation) this.#own({ kind: "tick" });
    });
  }

  #performOwn(output: OwnershipOutput): void {
    const { timeline, trace } = this.world;
    const session = this.#session ?? "";
    switch (output.kind) {
      case "renew": {
        const askedAt = timeline.now;
        return this.#call(() => ({ kind: "membership", membership: this.#renew(), askedAt }));
      }
      case "take":
        return this.#call(() => {
          const owned = this.tables.take(session, output.partitions, timeline.now);
          this.world.partitionsTaken(owned);
          const names = owned.map(({ partition, epoch }) => `${partition}.${epoch}`).join(" ");
          trace.note(timeline.now, `${this.name}takes ${names}`);
          return { kind: "taken", owned };
        });
      case "release":
        return this.#call(() => {
          this.tables.release(session, output.partitions, { clean: output.clean });
          trace.note(timeline.now, `${this.name}releases ${output.partitions.join(" ")} ${output.clean}`);
          return { kind: "released" };
        });
      case "leave":
        return this.#call(() => {
          this.tables.leave(session, { clean: false });
          return { kind: "has-left" };
        });
      case "yield": {
        const one = { yield: output.yield, partitions: new Set(output.partitions), isClean: true };
        for (const partition of output.partitions) this.#yields.set(partition, one);
        return this.deliver({ kind: "yield", partitions: output.partitions });
      }
      case "engine-taken":
        return this.deliver({ kind: "taken", owned: output.owned, left: this.#left(output.owned) });
      case "engine-lost":
        for (const partition of output.partitions) this.#yields.delete(partition);
        return this.deliver({ kind: "lost", partitions: output.partitions });
      case "left":
        trace.note(timeline.now, `${this.name}has left`);
        this.world.count("node hands over");
        this.end();
        return this.#comeBack();
      default:
        return;
    }
  }

  #call(effect: () => OwnershipInput): void {
    const { incarnation, world } = this;
    const hear = (input: OwnershipInput, withinMs: number) =>
      this.later(this.random.below(withinMs), () => this.incarnation === incarnation && this.#own(input));
    this.#database.call({
      withinMs: 5,
      make: effect,
      answer: (input) => hear(input, 5),
      // Who fails backs off, as a driver does.
      failed: (isMade) => {
        world.count(isMade ? "answer lost after a call" : "call lost before it was made");
        hear({ kind: "call-failed" }, 100);
      },
    });
  }

  /** A read is made again and again until it is answered. */
  protected override unreachableMs(): number {
    return this.#database.unreachableMs + this.#database.wayMs(1);
  }

  #renew(): Membership {
    const { timeline } = this.world;
    const next = `${this.name}${++this.#sessions}`;
    const { events: reads } = this.vocabulary;
    const renewal = { url: this.name, incarnation: this.#session, next, leaseMs: LEASE_MS, reads };
    const membership = this.tables.renew(renewal, timeline.now);
    this.#session = membership.incarnation;
    return membership;
  }

  #left(owned: readonly Ownership[]) {
    const tables: { own: Ownership; table: LeaseTable }[] = [];
    for (const own of owned) {
      if (own.epoch === 1 || own.uncleanEpoch === own.epoch - 1) continue;
      const table = tableFor(own, this.tables.getDocument("leases", String(own.partition)));
      if (table !== null) tables.push({ own, table });
    }
    return leftBy(tables);
  }

  protected override toCluster(output: ClusterOutput): void {
    switch (output.kind) {
      case "unreadable":
        return this.#unreadable(output.partition, output.why);
      case "fenced":
        return this.#own({ kind: "fenced", partitions: output.partitions });
      case "yielded": {
        const one = this.#yields.get(output.partition);
        if (one === undefined) return;
        const { partition, leases } = output;
        if (leases === null) one.isClean = false;
        else this.tables.putDocument("leases", String(partition), JSON.stringify(leases));
        one.partitions.delete(partition);
        if (one.partitions.size > 0) return;
        const kind = one.isClean ? "yielded" : "yield-failed";
        this.later(this.random.below(5), () => this.#own({ kind, yield: one.yield }));
        return;
      }
      case "ask-permits": {
        const home = this.#neighbours.ownerOf(output.partition);
        const { asks, partition } = output;
        const declares = output.declares === true ? [partition] : [];
        const input: Input = { kind: "permits-asked", node: this.#session ?? "", asks, declares };
        if (home !== undefined) this.#neighbours.send(this, home, input);
        return;
      }
      case "call-permits": {
        const { node, partitions } = output;
        const to = this.#neighbours.named(node);
        if (to !== undefined) this.#neighbours.send(this, to, { kind: "permits-called", partitions });
        return;
      }
      case "grant-permits": {
        const node = this.#neighbours.named(output.node);
        if (node !== undefined)
          this.#neighbours.send(this, node, { kind: "permits-granted", grants: output.grants });
      }
    }
  }

  /** Only what a newer node wrote: and then that one is to have it, soon. */
  #unreadable(partition: number, why: string): void {
    const { trace, timeline } = this.world;
    must(this.vocabulary === OLDER, `unreadable: ${why}`);
    this.world.count("unreadable to an older node");
    trace.note(timeline.now, `${this.name}cannot read something in ${partition}`);
    this.#own({ kind: "unreadable", partitions: [partition] });
    this.#neighbours.unreadable(this, partition);
  }

  protected override purge(ids: readonly string[]): void {
    const { ledger, timeline, trace } = this.world;
    const session = this.#session ?? "";
    timeline.after(this.random.below(50), () => {
      ledger.beforePurge(ids);
      this.tables.purge(ids, session);
      ledger.purged(ids);
      trace.note(timeline.now, `${this.name}purge ${ids.join(" ")}`);
      this.answer(() => ({ kind: "purged", ids }));
    });
  }

  /** One connection for commits: one after another, in the order they were asked for. */
  protected override commit(asked: CommitOutput): void {
    for (const { execution, entries } of asked.content.writes)
      for (const { body } of entries)
        must(
          rowVersion(body) <= Math.min(this.#readByAll, this.vocabulary.events),
          `${execution}: nothing is written that a node which is there cannot read`,
        );
    this.#commits.push(asked);
    if (this.#commits.length === 1) this.#write(asked);
  }

  #write({ commit, content }: CommitOutput): void {
    const { incarnation, world } = this;
    const session = this.#session ?? "";
    const dies = world.has("crash") && this.random.chance(0.03);
    const hear = (input: Input) =>
      this.later(this.random.below(8), () => {
        if (this.incarnation !== incarnation) return;
        this.#commits.shift();
        const next = this.#commits[0];
        if (next !== undefined) this.#write(next);
        this.deliver(input);
      });
    this.#database.call({
      withinMs: 8,
      make: () => this.#commitAt(content, session, commit),
      answer: (verdict) => {
        if (dies && this.incarnation === incarnation) this.crash();
        else hear({ kind: "committed", commit, verdict });
      },
      failed: (isMade) => {
        world.count(isMade ? "answer lost after a commit" : "commit lost before it was made");
        hear({ kind: "commit-failed", commit, nothingWritten: !isMade });
      },
    });
  }

  /** What a commit does at the database. */
  #commitAt(content: Commit, session: string, commit: number): CommitVerdict {
    const { world } = this;
    const verdict = this.tables.commit(content, session);
    this.tables.settle();
    const refused = verdict.kind === "fenced" ? verdict.partitions : verdict.fenced;
    if (refused.length > 0) world.count("write refused");
    world.written(content, refused);
    showWrite(world, `${this.name}commit ${commit} ${verdict.kind} ${refused.join(" ")}`, content);
    world.ledger.sync();
    const to = content.writes.flatMap(({ letters = [] }) => letters.map((letter) => letter.to));
    this.#neighbours.stored(this, to);
    return verdict;
  }
}

/** The version that a row says it needs. */
function rowVersion(body: string): number {
  return Number(/^\{"v":(\d+)/.exec(body)?.[1] ?? 0);
}
