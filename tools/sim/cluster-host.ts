/**
 * A node of a simulated cluster: its engine, its ownership and its place in the ring, over a database that other nodes write
 * to. The process freezes for longer than its lease, crashes, leaves gracefully and comes back, perhaps in another version. Its
 * calls take effect at the database, whatever happens to the process.
 */

import { checkPermits } from "../../src/cluster/peers/peer-notices.ts";
import type { Input } from "../../src/engine/io.ts";
import type { Lease } from "../../src/engine/leases/lease.ts";
import { membersOf } from "../../src/engine/limits/quota-exchange.ts";
import { EngineNode } from "../../src/engine/node.ts";
import type { NodeState } from "../../src/engine/node-state.ts";
import { VOCABULARY, type Vocabulary } from "../../src/kernel/journal/replay.ts";
import { FOLD_VERSION } from "../../src/kernel/journal/snapshot.ts";
import { isRejection } from "../../src/std/rejection.ts";
import type { Membership } from "../../src/store/cluster-store.ts";
import type { Commit, CommitVerdict } from "../../src/store/store.ts";
import { lateAdoption } from "./check/limit-invariants.ts";
import { type Database, DatabaseLink } from "./database-link.ts";
import {
  type ClusterOutput,
  type CommitOutput,
  EngineHost,
  type HostParts,
  settingsOf,
} from "./engine-host.ts";
import { LEASE_MS, NodeOwnership, type Process, shiftHome } from "./node-ownership.ts";
import { NodeRing, type RingMessage } from "./node-ring.ts";
import { NodeWorkers } from "./node-workers.ts";
import { showWrite } from "./show-event.ts";
import { must } from "./trace.ts";

/** An old version, which knows only the first events. */
const OLDER: Vocabulary = { events: 1, fold: FOLD_VERSION - 1 };
const SETTINGS = {
  suspectMs: 300,
  heartbeatMs: 3_000,
  takeoverMs: 1_500,
  permitPatienceMs: 200,
  permitReserveMs: 1_000,
};

/** The other nodes of a cluster, as a node uses them. */
export interface Neighbours {
  /** The host of the partition's owner, by the database. */
  ownerOf(partition: number): ClusterHost | undefined;
  named(incarnation: string): ClusterHost | undefined;
  /** Sends a message from one node to another. */
  send(from: ClusterHost, to: ClusterHost, input: Input): void;
  readonly database: Database;
  /** Sends a message of the ring to another node by its name; the answer may get lost. */
  post(from: ClusterHost, to: string, message: RingMessage, answered: (answer: unknown) => void): void;
  /** Called when the node read a row that a newer node wrote. */
  unreadable(from: ClusterHost, partition: number): void;
  /** Checks that no limit has more open attempts at its present owners than it allows. */
  checkLimits(): void;
  /** Called when mailbox messages were stored for these executions. */
  stored(from: ClusterHost, executions: readonly string[]): void;
}

export class ClusterHost extends EngineHost {
  /** Adopted attempts that were checked. */
  readonly #adopted = new WeakSet<Lease>();
  readonly #neighbours: Neighbours;
  readonly #ownership: NodeOwnership;
  readonly ring: NodeRing;
  readonly workers: NodeWorkers;
  #frozenUntil = 0;
  readonly #database: DatabaseLink;
  #commits: CommitOutput[] = [];
  isAway = false;
  /** Whether the node does not come back. */
  isRetired = false;
  /** Whether the node has an older version from its next start on. */
  isOlder = false;
  constructor(name: string, parts: HostParts, neighbours: Neighbours) {
    super(name, parts);
    this.#neighbours = neighbours;
    this.#database = new DatabaseLink(this.world, this.random, neighbours.database);
    const process = this.#process();
    this.workers = new NodeWorkers({ url: name, toEngine: process.toEngine, later: process.later });
    this.ring = new NodeRing(process, {
      carry: (to, message, answered) => neighbours.post(this, to, message, answered),
      readMembers: () => this.#ownership.input({ kind: "hinted" }),
    });
    this.#ownership = new NodeOwnership(process, {
      membership: (membership) => this.#onMembership(membership),
      moved: () => this.ring.input({ kind: "owned", partitions: this.#ownership.owned }),
      left: () => this.#hasLeft(),
    });
  }

  get session(): string | null {
    return this.#ownership.session;
  }

  override open(): void {
    const { projects, trace, timeline } = this.world;
    trace.note(timeline.now, `${this.name}open`);
    this.#commits = [];
    this.workers.open();
    this.#frozenUntil = 0;
    this.isAway = false;
    this.vocabulary = this.isOlder ? OLDER : VOCABULARY;
    if (this.isOlder) this.world.count("older node");
    const { seed } = this.world.behaviour;
    const settings = { ...settingsOf(seed), ...SETTINGS, projects, vocabulary: this.vocabulary };
    this.begin(new EngineNode(this.tables.info([]), this.clock(), settings));
    this.ring.open();
    this.#ownership.open();
  }

  override crash(): void {
    if (this.node === null) return;
    this.world.trace.note(this.world.timeline.now, `${this.name}crash`);
    this.world.count("node crash");
    this.end();
    this.#ownership.end();
    this.#comeBack();
  }

  override close(): void {
    if (this.node === null) return;
    this.world.trace.note(this.world.timeline.now, `${this.name}leaves`);
    this.ring.input({ kind: "leaving" });
    this.#ownership.input({ kind: "leave" });
    const { incarnation } = this;
    // Attempts in this process may take long; after this time they are not awaited.
    this.later(5_000, () => this.incarnation === incarnation && this.crash());
  }

  /** Leaves for good. */
  retire(): void {
    this.isRetired = true;
    this.close();
  }

  /** Restarts with the newest version. */
  upgrade(): void {
    this.world.count("node upgraded");
    this.isOlder = false;
    this.close();
  }

  /** Restarts with an older version. */
  downgrade(): void {
    this.world.count("node downgraded");
    this.isOlder = true;
    this.close();
  }

  /** Whether the node has known a newer node for this long. */
  knowsNewer(ms: number): boolean {
    return this.world.timeline.now - this.#ownership.newerSince >= ms;
  }

  /** Stops the process for a while, as SIGSTOP does. */
  freeze(ms: number): void {
    this.world.trace.note(this.world.timeline.now, `${this.name}frozen for ${ms}`);
    this.#frozenUntil = this.world.timeline.now + ms;
    if (ms > LEASE_MS) this.world.count("pause beyond the lease");
    this.world.ledger.leases.unsteady(this.#frozenUntil);
  }

  /** Cuts the node off from the database for a while. */
  cut(ms: number): void {
    this.world.trace.note(this.world.timeline.now, `${this.name}cut off for ${ms}`);
    this.#database.cutUntil = this.world.timeline.now + ms;
    this.world.count("connection cut");
    this.world.ledger.leases.unsteady(this.#database.cutUntil);
  }

  /** A frozen process goes on at its own time. Until then it reads nothing, so that it reads everything in order. */
  heal(): void {
    this.#database.cutUntil = 0;
  }

  protected override mayAct(): boolean {
    return this.node?.isOwner !== true || /* @plant token trusted for safety */ this.#ownership.mayAct();
  }

  /** A node that cannot renew its lease must stop by itself, whatever else it receives. */
  protected override grants(): void {
    must(
      this.world.timeline.now < this.#ownership.leaseUntil,
      `${this.name}gives nothing out when its lease is over`,
    );
    this.#neighbours.checkLimits();
  }

  protected override adopts(node: NodeState): void {
    this.#neighbours.checkLimits();
    for (const [lease, execution] of node.unconfirmed) {
      const late = this.#adopted.has(lease) ? null : lateAdoption(node, lease, execution);
      must(late === null, `${this.name}${late}`);
      this.#adopted.add(lease);
    }
  }

  protected override later(ms: number, run: () => void): void {
    this.world.timeline.after(ms, () => this.#thawed(run));
  }

  #thawed(run: () => void): void {
    const frozenMs = this.#frozenUntil - this.world.timeline.now;
    if (frozenMs > 0) this.world.timeline.after(frozenMs, () => this.#thawed(run));
    else run();
  }

  /** Delivers a message. A frozen process reads it later, if it lives that long. */
  receive(input: Input): void {
    const { incarnation } = this;
    this.#thawed(() => this.incarnation === incarnation && this.deliver(input));
  }

  /** The process as its parts see it. */
  #process(): Process {
    return {
      name: this.name,
      world: this.world,
      random: this.random,
      tables: this.tables,
      database: this.#database,
      vocabulary: () => this.vocabulary,
      clock: () => this.clock(),
      later: (ms, run) => {
        const { incarnation } = this;
        this.later(ms, () => {
          if (this.incarnation === incarnation) run();
        });
      },
      // @plant token trusted for safety 2
      toEngine: (input) => this.deliver(input),
    };
  }

  #onMembership(membership: Membership): void {
    // @plant token trusted for safety 3
    this.ring.members(membership);
    this.workers.setNodes(membership.nodes.map(({ url }) => url));
    const members = membersOf(membership);
    const aheadMs = this.clock() - this.world.timeline.now;
    const ended = Object.fromEntries(Object.entries(members.ended).map(([node, at]) => [node, at + aheadMs]));
    this.deliver({ kind: "members", ...members, ended });
    // Mail that other nodes stored without a notice.
    this.deliver({ kind: "mail-stored" });
  }

  #hasLeft(): void {
    this.world.trace.note(this.world.timeline.now, `${this.name}has left`);
    this.world.count("node hands over");
    this.end();
    this.#comeBack();
  }

  /** Delivers a message of the ring. */
  arriveLater(arrive: () => void): void {
    const { incarnation } = this;
    this.#thawed(() => {
      if (this.node !== null && this.incarnation === incarnation) arrive();
    });
  }

  #comeBack(): void {
    this.isAway = true;
    const { timeline } = this.world;
    if (this.isRetired) return;
    const awayMs = this.world.drill?.awayMs ?? this.random.pick([1, 200, 3_000]);
    timeline.after(awayMs, () => this.node === null && this.open());
  }

  /** A read is retried until it is answered. */
  protected override unreachableMs(): number {
    return this.#database.unreachableMs + this.#database.wayMs(1);
  }

  protected override toCluster(output: ClusterOutput): void {
    switch (output.kind) {
      case "unreadable":
        return this.#unreadable(output.partition, output.why);
      case "fenced":
        return this.#ownership.input({ kind: "fenced", partitions: output.partitions });
      case "yielded":
        return this.#ownership.yielded(output.partition, output.leases);
      case "timers-changed":
        this.ring.input({ kind: "timers-set", timers: output.set });
        return this.ring.input({ kind: "timers-ended", timers: output.ended });
      case "mail-sent":
        for (const partition of output.partitions) this.ring.input({ kind: "hint", partition, count: 1 });
        return;
      case "ask-permits": {
        const home = this.#neighbours.ownerOf(output.partition);
        const { asks, partition } = output;
        const { session } = this;
        if (session === null) return;
        const declares = output.declares === true ? [partition] : [];
        const input: Input = { kind: "permits-asked", node: session, asks, declares };
        if (home !== undefined) this.#neighbours.send(this, home, overTheWire(input));
        return;
      }
      case "call-permits": {
        const { node, partitions } = output;
        const to = this.#neighbours.named(node);
        if (to !== undefined) this.#neighbours.send(this, to, { kind: "permits-called", partitions });
        return;
      }
      case "store-quotas":
        return this.#storeQuotas(output);
      case "grant-permits": {
        const node = this.#neighbours.named(output.node);
        if (node !== undefined)
          this.#neighbours.send(this, node, overTheWire({ kind: "permits-granted", grants: output.grants }));
      }
    }
  }

  #storeQuotas({ partition, home }: Extract<ClusterOutput, { kind: "store-quotas" }>): void {
    const { incarnation, tables } = this;
    const id = String(partition);
    const was = tables.getDocument("permits", id);
    const body = JSON.stringify(shiftHome(home, this.world.timeline.now - this.clock()));
    const deliverLater = (isStored: boolean) =>
      this.later(this.random.below(5), () => {
        if (this.incarnation !== incarnation) return;
        this.deliver({ kind: "quotas-stored", partition, epoch: home.epoch, isStored });
      });
    const isLater = was !== null && (JSON.parse(was) as { epoch: number }).epoch > home.epoch;
    this.#database.call({
      withinMs: 8,
      make: () => !isLater && tables.swapDocument("permits", id, { was, body }),
      answer: deliverLater,
      failed: () => deliverLater(false),
    });
  }

  /** Only rows of a newer node may be unreadable, and then that node must get the partition soon. */
  #unreadable(partition: number, why: string): void {
    const { trace, timeline } = this.world;
    must(this.vocabulary === OLDER, `unreadable: ${why}`);
    this.world.count("unreadable to an older node");
    trace.note(timeline.now, `${this.name}cannot read something in ${partition}`);
    this.#ownership.input({ kind: "unreadable", partitions: [partition] });
    this.#neighbours.unreadable(this, partition);
  }

  protected override purge(ids: readonly string[]): void {
    const { ledger, timeline, trace } = this.world;
    const session = this.session ?? "";
    timeline.after(this.random.below(50), () => {
      ledger.beforePurge(ids);
      this.tables.purge(ids, session);
      ledger.purged(ids);
      trace.note(timeline.now, `${this.name}purge ${ids.join(" ")}`);
      this.answer(() => ({ kind: "purged", ids }));
    });
  }

  /** Commits use one connection, so they run one after another, in order. */
  protected override commit(asked: CommitOutput): void {
    for (const { execution, entries } of asked.content.writes)
      for (const { body } of entries)
        must(
          rowVersion(body) <= Math.min(this.#ownership.readByAll, this.vocabulary.events),
          `${execution}: nothing is written that a node which is there cannot read`,
        );
    this.#commits.push(asked);
    if (this.#commits.length === 1) this.#write(asked);
  }

  #write({ commit, content }: CommitOutput): void {
    const { incarnation, world } = this;
    const session = this.session ?? "";
    const dies = world.has("crash") && this.random.chance(0.03);
    const deliverLater = (input: Input) =>
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
        else deliverLater({ kind: "committed", commit, verdict });
      },
      failed: (isMade) => {
        world.count(isMade ? "answer lost after a commit" : "commit lost before it was made");
        deliverLater({ kind: "commit-failed", commit, nothingWritten: !isMade });
      },
    });
  }

  /** The effect of a commit at the database. */
  #commitAt(content: Commit, session: string, commit: number): CommitVerdict {
    const { world } = this;
    const verdict = this.tables.commit(content, session);
    this.tables.settle();
    const refused = verdict.kind === "fenced" ? verdict.partitions : verdict.fenced;
    if (refused.length > 0) world.count("write refused");
    world.written(content, refused);
    showWrite(world, `${this.name}commit ${commit} ${verdict.kind} ${refused.join(" ")}`, content);
    world.ledger.sync();
    const to = content.writes.flatMap(({ mail = [] }) => mail.map((message) => message.to));
    this.#neighbours.stored(this, to);
    return verdict;
  }
}

/** A message as it arrives in another process: passed through JSON and the other side's decoder. */
function overTheWire(input: Extract<Input, { kind: "permits-asked" | "permits-granted" }>): Input {
  const kind = input.kind === "permits-asked" ? "asks" : "grants";
  const word = checkPermits(JSON.parse(JSON.stringify({ ...input, kind })));
  must(!isRejection(word), `a message between nodes is refused: ${JSON.stringify(word)}`);
  return { ...word, kind: input.kind } as Input;
}

/** The version that a row requires. */
function rowVersion(body: string): number {
  return Number(/^\{"v":(\d+)/.exec(body)?.[1] ?? 0);
}
