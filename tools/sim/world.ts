/**
 * One simulated run under one seed: a node over tables that can lose unacknowledged writes, workers and a client over a network
 * that loses, delays and repeats messages, and clocks that jump. It checks invariants at every durable row, every grant and
 * every answer. Then it ends all faults and requires that every execution ends.
 */
import type { Input } from "../../src/engine/io.ts";
import type { HandlerPlan, Plan } from "../../src/kernel/definition/plan.ts";
import type { Event, Recorded } from "../../src/kernel/event.ts";
import { decodeEntry, type Entry } from "../../src/kernel/journal/journal-entry.ts";
import type { Grant, GrantItem } from "../../src/protocol/work.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import type { Commit, Ownership } from "../../src/store/store.ts";
import { Ledger } from "./check/ledger.ts";
import type { Model } from "./check/model.ts";
import type { EngineHost } from "./engine-host.ts";
import type { Fault, Happening } from "./faults.ts";
import { GarbledRows } from "./garbled-rows.ts";
import { SimClient } from "./sim-client.ts";
import { SimulatedWorkers } from "./simulated-workers.ts";
import { type ClientInput, ClusterSite, SingleSite, type Site } from "./site.ts";
import { Timeline } from "./timeline.ts";
import { must, Trace, Violation } from "./trace.ts";
import type { SimWorker } from "./worker/sim-worker.ts";
import type { Behaviour } from "./workload/behaviour.ts";
import { kidPlan, mappedPlan, randomGrammar } from "./workload/grammar.ts";
import { mapsItems, runsChildren } from "./workload/program.ts";

export interface WorldOptions {
  readonly seed: number;
  readonly executions: number;
  /** The number of nodes over one database; 0: one node with its own disk. */
  readonly nodes: number;
  readonly faults: ReadonlySet<Fault>;
  readonly show: ((line: string) => void) | null;
  /** A given workload with given faults, instead of random ones. */
  readonly drill?: Drill;
  /** Whether workflows clean up when they end, and executions are cancelled often. */
  readonly endings?: boolean;
  readonly rates?: boolean;
  /** Signals with starts, instead of random executions. */
  readonly races?: Races;
}

/** Signals with starts that meet the ends of executions (races.ts), or events with triggers (event-races.ts). */
interface Races {
  readonly plan: Plan;
  /** Further workflows that executions may have. */
  readonly others?: readonly Plan[];
  /** Those of them that are stored while the run is under way. */
  readonly later?: readonly Plan[];
  /** How long faults last. */
  readonly lastsMs: number;
  /** Whether an execution that has ended is used again, so that it must not be purged. */
  readonly keeps?: (model: Model, world: World) => boolean;
  /** Whether it sends all signals that its executions wait for. */
  readonly answersWaits?: boolean;
  begin(world: World): void;
  /** Checks the outcome at the end of the run. */
  check(world: World): void;
}

/** Executions of one workflow, while nodes die again and again. */
export interface Drill {
  readonly plan: Plan;
  readonly deathEveryMs: number;
  /** How long a dead node stays away. */
  readonly awayMs: number;
  /** How long nodes keep dying. */
  readonly lastsMs: number;
  /** The projects of its executions. */
  readonly projects: readonly string[];
}

const HEAL_AT_MS = 15_000;
/** How often the agreement of the nodes is checked, and the time after which they must agree. */
const SETTLED_EVERY_MS = 500;
const SETTLED_WITHIN_MS = 120_000;
const GIVE_UP_MS = 900_000;
const STEPS_MAX = 2_000_000;
/** The events after which the first execution may be cancelled. */
const CANCEL_AFTER_MAX = 60;
/** The faults of the nodes of a cluster, and their frequency. */
const TROUBLES: readonly (readonly [Fault, number])[] = [
  ["pauses-and-cuts", 3_000],
  ["one-way-cuts", 3_000],
  ["slow-database", 6_000],
  ["database-restarts", 9_000],
  ["leaving-nodes", 12_000],
  ["splits", 6_000],
  ["older-nodes", 3_000],
];
/** The faults that stay when all others are over. */
const FOR_EVER: readonly Fault[] = ["poison", "local-worker"];

export class World {
  readonly timeline = new Timeline();
  readonly trace: Trace;
  readonly behaviour: Behaviour;
  readonly ledger: Ledger;
  readonly client: SimClient;
  readonly workers: SimulatedWorkers;
  readonly garbled: GarbledRows;
  /** The limits of projects. */
  readonly projects: Readonly<Record<string, { readonly concurrency?: number }>>;
  readonly #options: WorldOptions;
  readonly #random: SeededRandom;
  readonly #tables: MemoryTables;
  /** Rows that were deleted when the journal of a gate was compacted. */
  readonly #trimmed = new Map<string, readonly Entry[]>();
  readonly #site: Site;
  readonly #partitions: number;
  readonly #plans = new Map<string, Plan>();
  /** The executions that the client starts. */
  readonly #executions = new Map<string, Plan>();
  #isHealed = false;
  /** When the faults ended, or a process last began after that: a task may have crashed it. */
  #faultAt = 0;
  /** When the agreement of the nodes is checked next. */
  #lookAt = 0;
  /** The epoch of each partition's last owner. */
  readonly #epochs = new Map<number, number>();

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
    this.trace = new Trace(options.show);
    this.#partitions = options.nodes === 0 ? 1 : 4;
    this.#tables = new MemoryTables({ random: this.#random.child("tables"), partitions: this.#partitions });
    this.garbled = new GarbledRows(this.#tables);
    const { seed } = options;
    const fails = this.has("failing-tasks");
    this.behaviour = { seed, healed: false, fails, poison: this.has("poison") };
    const limits = this.#random.child("projects");
    this.projects = limits.chance(0.5) ? { other: { concurrency: limits.between(1, 3) } } : {};
    const { projects, isCluster } = this;
    this.ledger = new Ledger({
      ...{ tables: this.#tables, plans: this.#plans, seed, projects, isCluster },
      ...(this.hasEndings ? { onEvent: (id, seq) => this.#cancelAfter(id, seq) } : {}),
    });
    this.client = new SimClient(this, this.#random.child("client"));
    this.workers = new SimulatedWorkers(this, this.#random.child("staff"), this.#plans);
    const random = this.#random.child("node");
    const parts = { world: this, random, tables: this.#tables, plans: this.#plans };
    this.#site = isCluster
      ? new ClusterSite(parts, { nodes: options.nodes, partitions: this.#partitions })
      : new SingleSite(parts);
  }

  /** The count of each happening. */
  readonly happened = new Map<Happening, number>();

  count(what: Happening): void {
    this.happened.set(what, (this.happened.get(what) ?? 0) + 1);
  }

  get drill(): Drill | undefined {
    return this.#options.drill;
  }

  /** The documents of the store. */
  get documents(): Pick<MemoryTables, "getDocument" | "swapDocument"> {
    return this.#tables;
  }

  get hasEndings(): boolean {
    return this.#options.endings === true;
  }

  get isCluster(): boolean {
    return this.#options.nodes > 0;
  }

  has(fault: Fault): boolean {
    return this.#options.faults.has(fault) && (!this.#isHealed || FOR_EVER.includes(fault));
  }

  /** Runs to the end; throws a `Violation` if an invariant is broken. */
  run(): void {
    this.#populate();
    this.#site.open();
    this.#scheduleFaults();
    let steps = 0;
    const end = this.timeline.now + GIVE_UP_MS;
    const { drill, races } = this.#options;
    this.timeline.after((drill ?? races)?.lastsMs ?? HEAL_AT_MS, () => this.#heal());
    while (!this.#isOver()) {
      if (steps++ >= STEPS_MAX || this.timeline.now >= end) throw new Violation(this.#stuck());
      if (!this.timeline.next()) throw new Violation(this.#stuck());
    }
    this.ledger.checkEnd(this.client.acknowledged);
    races?.check(this);
    this.trace.note(this.timeline.now, `end ${this.ledger.summary()}`);
  }

  /** The clock of the machines. */
  get clock(): number {
    return this.#site.hosts[0]?.clock() ?? 0;
  }

  /** Called when the node's process has started. */
  nodeOpened(host: EngineHost): void {
    this.#faultAt = this.timeline.now;
    this.workers.nodeOpened(host);
    // Parents get user requests before their children begin.
    if (!this.has("controls")) return;
    for (const { id, body } of this.#tables.scanMail({ after: 0, max: 10, partitions: null })) {
      const { kind } = JSON.parse(body) as { kind: string };
      const [parent = ""] = id.split("/");
      if (kind === "start" && this.#random.chance(0.5))
        this.client.control(parent, this.#random.pick(["cancel", "cancel", "pause"] as const));
    }
  }

  /** Sends a worker's message to the node. */
  toNode(worker: SimWorker, input: Input): void {
    if (worker.local) {
      this.timeline.after(0, () => worker.isDead || this.#site.fromWorker(worker, input));
      return;
    }
    if (this.has("lost-messages") && this.#random.chance(0.05)) return this.count("message lost");
    const send = (ms: number) =>
      this.timeline.after(ms, () => worker.isDead || this.#site.fromWorker(worker, input));
    send(this.delay());
    // A repeated message may come much later the second time.
    if (input.kind === "worker-reports" && this.has("repeated-messages") && this.#random.chance(0.1)) {
      this.count("message repeated");
      send(this.#random.below(this.#random.pick([20, 3_000])));
    }
  }

  fromClient(input: ClientInput): void {
    this.timeline.after(this.delay(), () => this.#site.fromClient(input));
  }

  /** Called when partitions of a cluster have a new owner. */
  partitionsTaken(owned: readonly Ownership[]): void {
    this.ledger.sync();
    for (const { partition, epoch, uncleanEpoch } of owned) {
      must(
        epoch > (this.#epochs.get(partition) ?? 0),
        `partition ${partition}: each owner has a higher epoch`,
      );
      this.#epochs.set(partition, epoch);
      const isOf = (execution: string) => partitionOf(execution, this.#partitions) === partition;
      this.ledger.partitionTaken(isOf, uncleanEpoch > 0 && uncleanEpoch === epoch - 1);
    }
  }

  /** Called when a commit was made, except for its writes in the refused partitions. */
  written(content: Commit, refused: readonly number[]): void {
    const isIn = (execution: string) => !refused.includes(partitionOf(execution, this.#partitions));
    const writes = content.writes.filter(({ execution }) => isIn(execution));
    for (const { execution } of content.writes) {
      const partition = partitionOf(execution, this.#partitions);
      if (isIn(execution))
        must(
          content.fence.epochs[partition] === this.#epochs.get(partition),
          `${execution}: only the owner of now writes, not that of epoch ${content.fence.epochs[partition]}`,
        );
      else {
        const rows = this.#tables.readJournal({ execution, from: this.ledger.durableSeq(execution) + 1 });
        must(
          this.ledger.isUnread(execution) || rows.length === 0,
          `${execution}: a refused write changes nothing`,
        );
      }
    }
    this.ledger.written(refused.length === 0 ? content : { fence: content.fence, writes });
  }

  get site(): Site {
    return this.#site;
  }

  /** Called when the worker has been silent for so long that the node is notified. */
  workerGone(worker: string): void {
    this.#site.toAll({ kind: "worker-left", worker });
  }

  mustBeDurable(execution: string, seq: number): void {
    this.ledger.sync();
    const isDurable = this.ledger.durableSeq(execution) >= seq;
    must(isDurable, `${execution}: what is acknowledged (seq ${seq}) is durable`);
  }

  noteRun(grant: Grant, item: GrantItem): void {
    this.trace.note(
      this.timeline.now,
      `run ${grant.do} ${grant.execution}/${grant.phase}/${grant.handler}#${item.number} attempt ${item.attempt}`,
    );
  }

  /** The possible answers of a decision. */
  among({ execution, phase }: Grant): readonly string[] {
    return this.ledger.model(execution)?.plan.byName.get(phase)?.among ?? [];
  }

  handlerPlan({ execution, phase, handler }: Grant): HandlerPlan | undefined {
    const plan = this.ledger.model(execution)?.plan.byName.get(phase);
    return plan?.handlers.find(({ name }) => name === handler);
  }

  /** A generator of random numbers for a part of the run. */
  randomOf(part: string): SeededRandom {
    return this.#random.child(part);
  }

  /** An execution that a signal started must end. */
  begun(execution: string, plan: Plan): void {
    this.#executions.set(execution, plan);
  }

  /** All events of an execution. */
  *eventsOf(execution: string): Generator<Event> {
    for (const { event } of this.recordedOf(execution)) yield event;
  }

  /** All events of an execution, with their times. */
  *recordedOf(execution: string): Generator<Recorded> {
    for (const entry of this.#trimmed.get(execution) ?? []) yield* decodeEntry(entry);
    for (const entry of this.#tables.readJournal({ execution, from: 1 })) yield* decodeEntry(entry);
  }

  /** Deletes rows of a journal that are not needed any more. They are kept here, for the checks at the end. */
  trimJournal(execution: string, before: number): void {
    this.#tables.settle();
    this.ledger.sync();
    const from = this.#tables.readJournal({ execution, from: 1, to: before - 1 });
    const rows = from.filter(({ seq, count }) => seq + count <= before);
    if (rows.length === 0) return;
    this.#trimmed.set(execution, [...(this.#trimmed.get(execution) ?? []), ...rows]);
    this.#tables.trimJournal(execution, before);
    this.trace.note(this.timeline.now, `trim ${execution} before ${before}`);
  }

  /** Reads an event of the journal, as workers read checkpoints; null: it was purged. */
  readEvent(execution: string, seq: number): Event | null {
    for (const entry of this.#tables.readJournal({ execution, from: seq, to: seq }))
      for (const recorded of decodeEntry(entry)) if (recorded.seq === seq) return recorded.event;
    return null;
  }

  /** Called when a task crashed its process: the node's, if it ran there, else the worker's. */
  processDies(worker: SimWorker): void {
    if (worker.local) this.#site.hosts.find(({ name }) => name === worker.at)?.crash();
    else this.workers.replace(worker);
  }

  /** The delay of a message. */
  delay(): number {
    if (!this.#random.chance(0.05) || this.#isHealed) return this.#random.below(10);
    this.count("message delayed");
    return this.#random.below(2_000);
  }

  #populate(): void {
    const random = this.#random.child("grammar");
    const { drill, races } = this.#options;
    const given = (drill ?? races)?.plan;
    const { roots, children, newer } =
      given === undefined
        ? randomGrammar(random, this.#options)
        : { roots: [given, ...(races?.others ?? [])], children: [], newer: null };
    races?.begin(this);
    const { seed } = this.behaviour;
    const kids = [...(runsChildren(seed) ? [kidPlan()] : []), ...(mapsItems(seed) ? [mappedPlan()] : [])];
    for (const plan of given === undefined ? kids : []) {
      this.#plans.set(plan.hash, plan);
      this.#store(plan);
    }
    for (const plan of [...roots, ...children]) this.#plans.set(plan.hash, plan);
    if (newer !== null) this.#plans.set(newer.hash, newer);
    const { later = [] } = races ?? {};
    for (const plan of roots)
      if (later.includes(plan)) this.timeline.after(random.below(8_000), () => this.#store(plan));
      else this.#store(plan);
    for (const plan of children) {
      const isLate = this.has("late-definitions") && random.chance(0.2);
      if (isLate) this.timeline.after(random.below(8_000), () => this.#store(plan));
      else this.#store(plan);
    }
    if (newer !== null) this.timeline.after(8_000 + random.below(5_000), () => this.#store(newer));
    for (let i = 0; i < this.#options.executions; i++) {
      const now = this.timeline.now;
      const times =
        drill !== undefined
          ? {}
          : {
              ...(random.chance(0.1) ? { startAt: now + random.below(3_000) } : {}),
              ...(random.chance(this.hasEndings ? 0.3 : 0.1) ? { deadline: now + random.below(10_000) } : {}),
            };
      const plan = random.pick(roots);
      this.#executions.set(`e${i}`, plan);
      this.timeline.after(random.below(2_000), () => this.client.start(`e${i}`, plan, times));
    }
  }

  #store(plan: Plan): void {
    const { name } = plan.definition;
    this.#tables.putDefinition(name, plan.hash, JSON.stringify(plan.definition));
    this.#site.toAll({ kind: "definition-stored", workflow: name });
  }

  #scheduleFaults(): void {
    const random = this.#random.child("faults");
    const repeat = (fault: Fault, everyMs: number, run: () => void) => {
      if (!this.has(fault)) return;
      const next = () =>
        this.timeline.after(random.below(everyMs * 2), () => {
          if (this.#isHealed) return;
          run();
          next();
        });
      next();
    };
    const host = () => random.pick(this.#site.hosts);
    const { drill } = this.#options;
    if (drill !== undefined) {
      const next = () =>
        this.timeline.after(drill.deathEveryMs, () => {
          if (this.#isHealed) return;
          host().crash();
          next();
        });
      next();
    }
    repeat("crash", 4_000, () => host().crash());
    repeat("clean-restarts", 6_000, () => host().close());
    if (this.isCluster)
      for (const [fault, everyMs] of TROUBLES)
        repeat(fault, everyMs, () => this.#site.trouble(random, fault));
    repeat("dead-workers", 4_000, () => this.workers.killOne());
    repeat("leaving-workers", 6_000, () => this.workers.dismissOne());
    repeat("frozen-workers", 4_000, () => this.workers.freezeOne());
    repeat("clock-jumps", 5_000, () => {
      const skew = host().jump(random.pick([-2_000, 500, 20_000]));
      this.count("clock jump");
      this.trace.note(this.timeline.now, `clock ${skew}`);
      if (this.isCluster) this.ledger.leases.unsteady(this.timeline.now);
    });
    if (this.hasEndings && this.has("controls"))
      repeat("controls", 4_000, () => {
        const execution = random.pick([...this.#executions.keys()]);
        this.client.control(execution, "cancel", random.chance(0.3) ? { force: true } : {});
      });
    repeat("controls", 1_500, () => this.client.act(random.pick([...this.#executions.keys()])));
    repeat("controls", 2_000, () => {
      const children = [...this.ledger.models].filter(({ parent, ended }) => parent !== null && !ended);
      if (children.length > 0) this.client.act(random.pick(children).id);
    });
    repeat("purges", 2_500, () => this.#purgeSome(random));
    this.#retryTasksAgain(this.#random.child("chosen tasks"));
    if (this.hasEndings) this.#forceCancels(this.#random.child("forced cancels"));
    this.garbled.schedule(this, this.#random.child("damage"));
    this.client.tellAgain(this.#random.child("again"));
  }

  /** Over many seeds, the first execution is cancelled after each of its events. */
  #cancelAfter(execution: string, seq: number): void {
    if (execution !== "e0" || seq !== 1 + (this.#options.seed % CANCEL_AFTER_MAX)) return;
    if (this.has("controls")) this.client.control(execution, "cancel");
  }

  /** Now and then, retries chosen tasks. */
  #retryTasksAgain(random: SeededRandom): void {
    if (!this.has("controls") || this.#isHealed) return;
    this.timeline.after(random.below(3_000), () => {
      this.ledger.sync();
      this.client.retryTasks(random.pick([...this.#executions.keys()]), random);
      this.#retryTasksAgain(random);
    });
  }

  /** Now and then, cancels an execution by force whose work drains. */
  #forceCancels(random: SeededRandom): void {
    if (!this.has("controls") || this.#isHealed) return;
    this.timeline.after(random.below(2_000), () => {
      this.ledger.sync();
      const draining = [...this.ledger.models].filter((model) => model.isDraining);
      if (draining.length > 0) this.client.control(random.pick(draining).id, "cancel", { force: true });
      this.#forceCancels(random);
    });
  }

  /** Purges some executions that have ended, even if requests about them may still come. */
  #purgeSome(random: SeededRandom): void {
    this.ledger.sync();
    const ended = new Set(
      this.#tables.listEnded({ finishedBefore: Number.POSITIVE_INFINITY, max: Number.POSITIVE_INFINITY }),
    );
    const { keeps = () => false } = this.#options.races ?? {};
    const ids = [...this.ledger.models]
      .filter((model) => model.isOver && ended.has(model.id) && !keeps(model, this))
      .filter(({ id }) => this.client.mayForget(id) && random.chance(0.5))
      .map(({ id }) => id);
    if (ids.length === 0) return;
    this.#site.toAll({ kind: "purge", ids });
    for (const id of ids) if (random.chance(0.2)) this.client.control(id, "retry");
  }

  /** Ends all faults and releases everything that is held. From now on every execution must end. */
  #heal(): void {
    this.#isHealed = true;
    this.#faultAt = this.timeline.now;
    this.behaviour.healed = true;
    this.trace.note(this.timeline.now, "heal");
    this.garbled.restore();
    this.#site.heal();
    this.workers.heal();
    const nudge = () => {
      this.ledger.sync();
      this.garbled.rereadDamaged(this);
      for (const model of this.ledger.models) {
        // A child that its parent holds or ends is left to its parent.
        if (this.#isHeld(model)) continue;
        if (model.status === "paused") this.client.control(model.id, "resume");
        if (this.#options.races?.answersWaits === true) continue;
        for (const name of model.awaited) this.client.signal(model.id, name);
      }
      this.timeline.after(5_000, nudge);
    };
    nudge();
  }

  #isHeld({ status, pausedBy, parent, cleanup }: Model): boolean {
    const above = parent === null ? undefined : this.ledger.model(parent.execution);
    if (above === undefined || above.ended) return false;
    // A child that cleans up goes on while its parent drains.
    if (cleanup.ending !== null) return status === "paused" && pausedBy.startsWith("parent");
    return above.isDraining || this.#isHeld(above) || (status === "paused" && pausedBy.startsWith("parent"));
  }

  /** Whether everything has ended and no message is on its way. */
  #isOver(): boolean {
    const hasMail = this.#tables.scanMail({ after: 0, max: 1, partitions: null }).length > 0;
    if (!this.#isHealed || hasMail || !this.ledger.allEnded(this.#executions.keys())) return false;
    if (this.client.unsent > 0) return false;
    // An execution that a message has just started may not be read yet.
    this.ledger.sync();
    if (!this.ledger.isRead || !this.ledger.allEnded(this.#executions.keys())) return false;
    // Checked only now and then, because the check takes long.
    if (this.timeline.now < this.#lookAt) return false;
    this.#lookAt = this.timeline.now + SETTLED_EVERY_MS;
    const unsettled = this.#site.unsettled();
    const isLate = this.timeline.now >= this.#faultAt + SETTLED_WITHIN_MS;
    must(unsettled === null || !isLate, `long after the last fault, ${unsettled}`);
    return unsettled === null;
  }

  #why(id: string): string {
    return this.#site.hosts.map((host) => host.why(id)).find((why) => why !== null) ?? "no node knows";
  }

  #stuck(): string {
    const open = [...this.ledger.models].filter(({ isOver }) => !isOver).map(({ id }) => id);
    for (const id of this.#executions.keys()) if (this.ledger.model(id) === undefined) open.push(id);
    const letters = this.#tables
      .scanMail({ after: 0, max: 5, partitions: null })
      .map(({ id, to }) => `${id} to ${to}`);
    return `stuck: ${open.map((id) => `${id} is ${this.ledger.status(id)}: ${this.#why(id)}`).join(", ")}; letters: ${letters.join(", ")}`;
  }
}
