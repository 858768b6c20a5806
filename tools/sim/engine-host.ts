/**
 * The process of an engine node in a simulated run: its clock, its messages, and its requests, which are answered a little
 * later. Subclasses decide how it gets ownership and how it writes (node-host.ts, cluster-host.ts).
 */

import type { Input, Output } from "../../src/engine/io.ts";
import type { EngineNode } from "../../src/engine/node.ts";
import type { NodeState } from "../../src/engine/node-state.ts";
import type { PostOpTask } from "../../src/engine/post-ops/post-ops.ts";
import type { Settings } from "../../src/engine/settings.ts";
import { type ReadOutput, readFor } from "../../src/engine/store-reads.ts";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import { VOCABULARY, type Vocabulary } from "../../src/kernel/journal/replay.ts";
import type { Report } from "../../src/protocol/work.ts";
import type { SeededRandom } from "../../src/std/random.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { DAMAGED, type Head } from "../../src/store/store.ts";
import { Alarm } from "./alarm.ts";
import { QUANTUM } from "./check/ledger.ts";
import { brokenLimit, openUnder } from "./check/limit-invariants.ts";
import { Roster } from "./check/roster.ts";
import { TurnWatch } from "./check/turn-watch.ts";
import { must } from "./trace.ts";
import { postOpOutcome } from "./workload/random-command.ts";
import type { World } from "./world.ts";

/** Small numbers, so that every limit is reached often. */
const SIM_SETTINGS: Partial<Settings> = {
  claimLeaseMs: 500,
  sweepMs: 100,
  askMs: 150,
  windowMax: 4,
  idleMax: 1,
  commitWritesMax: 3,
  commitMessagesMax: 5,
  quantum: QUANTUM,
  openTasksAhead: 3,
  snapshotRows: 3,
  gateEventsMax: 6,
  timerHorizonMs: 1_000,
  timersMax: 3,
  pageCacheChars: 200,
  postOpsMax: 3,
  postOpsEach: 2,
};

/** Settings of a seed: starts are journaled at once, soon, later, or only with other commits. */
export function settingsOf(seed: number): Partial<Settings> {
  return { ...SIM_SETTINGS, startAfterMs: [0, 20, 250, 60_000][seed % 4] as number };
}

/** How soon lists must show an execution as damaged after a node has read the damage. */
const DAMAGED_WITHIN_MS = 1_000;

/** The limits are checked after this many turns of the node. */
const LIMITS_EVERY = 8;

export type CommitOutput = Extract<Output, { kind: "commit" }>;
/** Outputs for the other nodes of a cluster. */
export type ClusterOutput = Extract<
  Output,
  {
    kind:
      | "unreadable"
      | "timers-changed"
      | "mail-sent"
      | "fenced"
      | "yielded"
      | "ask-permits"
      | "grant-permits"
      | "call-permits"
      | "store-quotas";
  }
>;

export interface HostParts {
  readonly world: World;
  readonly random: SeededRandom;
  readonly tables: MemoryTables;
  readonly plans: ReadonlyMap<string, Plan>;
}

export abstract class EngineHost {
  /** The name of the node in the run. */
  readonly name: string;
  protected readonly world: World;
  protected readonly random: SeededRandom;
  protected readonly tables: MemoryTables;
  protected readonly plans: ReadonlyMap<string, Plan>;
  protected node: EngineNode | null = null;
  /** Changes whenever the process begins or ends, so that answers of an earlier process are dropped. */
  protected incarnation = 0;
  /** The workers that the process knows. */
  readonly roster = new Roster();
  protected nodeNow = 0;
  readonly #reports = new Map<string, readonly Report[]>();
  /** Post-operations under way, by id. */
  readonly #postOps = new Map<string, PostOpTask>();
  #isAdvancing = false;
  readonly #alarm = new Alarm((ms, run) => this.later(ms, run));
  #turns = 0;
  #watch = new TurnWatch();
  /** The offset of the machine's clock, now and before its last jump. */
  #skew = 0;
  #skewBefore = 0;

  constructor(name: string, { world, random, tables, plans }: HostParts) {
    this.name = name;
    this.world = world;
    this.random = random;
    this.tables = tables;
    this.plans = plans;
  }

  protected abstract commit(output: CommitOutput): void;
  protected abstract purge(ids: readonly string[]): void;
  protected abstract toCluster(output: ClusterOutput): void;
  /** Whether the process may act now. If not, it goes on later by itself. */
  protected abstract mayAct(): boolean;

  /** Called when work is granted. */
  protected grants(): void {}

  /** Called after turns while attempts are adopted. */
  protected adopts(_node: NodeState): void {}

  abstract open(): void;
  /** Ends the process like kill -9. */
  abstract crash(): void;
  /** Ends the process gracefully. */
  abstract close(): void;

  openUnder(isOf: (execution: string) => boolean): Map<string, { open: number; max: number }> {
    return this.node === null ? new Map() : openUnder(this.node.state, isOf);
  }

  get isUp(): boolean {
    return this.node !== null;
  }

  /** The events that this version of the process can read. */
  protected vocabulary: Vocabulary = VOCABULARY;

  /** The answer to a read, from the present tables, which answer synchronously. */
  #answerOf(output: ReadOutput): Input {
    return readFor(this.tables, output, {
      foldVersion: this.vocabulary.fold,
      planOf: (found, hash) => ({ plan: found === null ? null : (this.plans.get(hash) ?? null) }),
    }) as Input;
  }

  /** Called when a new process begins. */
  protected begin(node: EngineNode): void {
    this.incarnation++;
    this.nodeNow = 0;
    this.#watch = new TurnWatch();
    this.#reports.clear();
    this.#postOps.clear();
    this.node = node;
    this.#alarm.clear();
    this.world.nodeOpened(this);
    this.#scheduleAdvance();
  }

  /** Called when the process has ended. */
  protected end(): void {
    this.node = null;
    this.incarnation++;
    this.roster.clear();
    this.world.workers.nodeEnded(this);
  }

  /** Moves the machine's clock; returns its offset. */
  jump(ms: number): number {
    this.#skewBefore = this.#skew;
    this.#skew += ms;
    // Grants that were decided before the jump are sent a little later.
    const now = this.#skew;
    this.world.timeline.after(100, () => {
      if (this.#skew === now) this.#skewBefore = now;
    });
    return now;
  }

  /** The machine's clock, which never goes back for a node. */
  clock(): number {
    const now = Math.floor(this.world.timeline.now + this.#skew);
    this.nodeNow = Math.max(this.nodeNow, now);
    return now;
  }

  /** Delivers a message to the process, if it runs. */
  deliver(input: Input): void {
    if (this.node === null) return;
    const { ledger, timeline } = this.world;
    if (input.kind === "worker-reports") {
      ledger.leases.reported(input.worker, input.reports);
      this.#reports.set(`${input.worker}/${input.report}`, input.reports);
    } else if (input.kind === "worker-joined") {
      const { serves, asks = false } = input;
      this.roster.joined(input.worker, { serves, asks }, timeline.now);
    } else if (input.kind === "worker-left") {
      this.roster.left(input.worker, timeline.now);
      ledger.leases.workerLeft(input.worker);
    }
    this.node.input(input, this.clock());
    this.#scheduleAdvance();
  }

  #scheduleAdvance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    this.later(this.random.below(3), () => {
      this.#isAdvancing = false;
      this.#advance();
    });
  }

  /** Runs something in the process after a while. */
  protected later(ms: number, run: () => void): void {
    this.world.timeline.after(ms, run);
  }

  #advance(): void {
    const { node } = this;
    if (node === null || !this.mayAct()) return;
    const outputs = node.advance(this.clock());
    const unfair = this.#watch.broken(node.state, outputs);
    must(unfair === null, `${this.name}${unfair}`);
    for (const output of outputs) {
      if (this.node === node) this.#perform(output);
    }
    if (this.node !== node) return;
    if (node.state.unconfirmed.size > 0) this.adopts(node.state);
    const broken = this.#turns % LIMITS_EVERY === 0 ? brokenLimit(node.state) : null;
    must(broken === null, `${this.name}${broken}`);
    // Handed-over attempts count at two nodes for a while, and twice at a node that gets them back.
    if (!this.world.isCluster && ++this.#turns % LIMITS_EVERY === 0)
      // Rates have their own check: after a limit is lowered, earlier starts still count.
      for (const { name, held, max, perMs } of node.overview().limits)
        must(perMs !== undefined || held <= max, `${name}: ${held} permits are held of ${max}`);
    this.#alarm.set({ at: node.nextWakeAt(), now: this.clock() }, () => this.#scheduleAdvance());
  }

  /** Answers a request of the node a little later, unless it has died. */
  protected answer(make: () => Input, withinMs = 5): void {
    const { incarnation } = this;
    this.later(this.random.below(withinMs), () => {
      if (this.incarnation === incarnation) this.deliver(make());
    });
  }

  #perform(output: Output): void {
    const { ledger, client } = this.world;
    switch (output.kind) {
      case "commit":
        return this.commit(output);
      case "reply":
        return client.replied(output.request, output.answer, output.existed ?? false);
      case "progressed":
        return ledger.progressed(output.execution, output.seq);
      case "undelivered":
        return;
      case "damaged":
        return this.#damaged(output.head);
      case "unreadable":
      case "timers-changed":
      case "mail-sent":
      case "fenced":
      case "yielded":
      case "ask-permits":
      case "grant-permits":
      case "call-permits":
      case "store-quotas":
        return this.toCluster(output);
      case "purge":
        return this.purge(output.ids);
      case "trim":
        return this.#trim(output.execution, output.before);
      case "inspected":
        return client.inspected(output.request, output.inspection);
      case "logged":
      case "withdraw":
      case "publish":
      case "check-sent":
      case "took-over":
      case "queue-closed":
      case "phase-ended":
        return;
      case "perform":
        return this.#performPostOp(output.task);
      case "grant":
      case "cancel":
      case "verdicts":
      case "ask-worker":
        return this.#toWorker(output);
      default:
        return this.#read(output);
    }
  }

  /** Deletes rows of a journal a little later, unless the process has died by then. */
  #trim(execution: string, before: number): void {
    const { incarnation, world } = this;
    world.timeline.after(this.random.below(50), () => {
      if (this.incarnation === incarnation) world.trimJournal(execution, before);
    });
  }

  /** Performs a post-operation. It may have an effect although it fails, and its end may get lost. */
  #performPostOp(task: PostOpTask): void {
    const { ledger, trace, timeline, behaviour } = this.world;
    const { id, execution, attempt } = task;
    const { postOpsMax = 1, postOpsEach = 1 } = SIM_SETTINGS;
    ledger.sync();
    ledger.postOps.begun(ledger.model(execution), task, this.nodeNow);
    must(!this.#postOps.has(id), `${id}: is under way at this node already`);
    this.#postOps.set(id, task);
    // Each kind has its own limit: broadcasts that hang must not delay persistence.
    const beside = [...this.#postOps.values()].filter(({ op }) => op === task.op);
    const own = beside.filter((other) => other.execution === execution).length;
    must(beside.length <= postOpsMax && own <= postOpsEach, `${id}: too many are under way`);
    trace.note(timeline.now, `${this.name}perform ${id} try ${attempt}`);
    const outcome = postOpOutcome(behaviour, id, attempt);
    const { incarnation } = this;
    const ms = this.random.pick([1, 20, 300]);
    timeline.after(this.random.below(ms), () => {
      // The request was sent, whatever happens to the process.
      if (outcome.kind === "done" || this.random.chance(0.3)) ledger.postOps.seen(id);
      if (this.incarnation !== incarnation) return;
      this.#postOps.delete(id);
      this.deliver({ kind: "performed", execution, op: id, attempt, outcome });
    });
  }

  /** How long reads are retried until they are answered. */
  protected unreachableMs(): number {
    return 0;
  }

  /** Reads are answered a little later; a definition may take longer. */
  #read(output: ReadOutput): void {
    const withinMs = output.kind === "get-definition" ? this.random.pick([5, 5, 500]) : 5;
    this.answer(() => {
      const answer = this.#answerOf(output);
      if (answer.kind === "loaded")
        for (const { loaded } of answer.loads) if (loaded !== null) this.world.ledger.checkLoad(loaded);
      const read = this.world.garbled.read(answer);
      for (const id of read.damaged) this.#mustBeDamaged(id);
      return read.answer;
    }, withinMs + this.unreachableMs());
  }

  /** Called when the single node has read a damaged row. If the row is still damaged after a while, lists must show it. */
  #mustBeDamaged(id: string): void {
    const { incarnation, world } = this;
    if (world.isCluster) return;
    world.timeline.after(DAMAGED_WITHIN_MS, () => {
      if (this.incarnation !== incarnation || !world.garbled.has(id)) return;
      const [loaded] = this.tables.load([id]);
      // With a snapshot after the row, an execution goes on as far as it does not need the row.
      must(
        !loaded || loaded.head.status === DAMAGED || !world.garbled.isIn(loaded),
        `${id}: is damaged, and lists say ${loaded?.head.status}`,
      );
    });
  }

  /** Lists show the execution as damaged from now on. */
  #damaged(head: Head): void {
    const { garbled, trace, timeline } = this.world;
    garbled.checkDamaged(head);
    this.world.count("execution damaged");
    trace.note(timeline.now, `${this.name}damaged ${head.id}: ${head.error}`);
    this.tables.putDerived({ head, timers: null, opened: null, end: null });
  }

  #toWorker(output: Extract<Output, { kind: "grant" | "cancel" | "verdicts" | "ask-worker" }>): void {
    const { ledger, timeline, trace, workers } = this.world;
    const worker = workers.worker(output.worker);
    const isLost =
      worker?.local === false &&
      ((this.world.has("lost-messages") && this.random.chance(0.05)) ||
        this.world.site.isCut(this.name, output.worker));
    if (isLost) this.world.count("message lost");
    const delay = worker?.local === true ? 0 : this.world.delay();
    switch (output.kind) {
      case "grant": {
        const { grant } = output;
        this.grants();
        if (!this.world.isCluster) this.world.garbled.checkGrant(grant.execution);
        const items = grant.items.map((item) => `${item.number}.${item.attempt}.${item.claim}`).join(" ");
        const place = `${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler}`;
        trace.note(timeline.now, `${this.name}grant ${output.worker} ${grant.do} ${place} ${items}`);
        const machineBefore = timeline.now + this.#skewBefore;
        const now = { at: timeline.now, clock: this.nodeNow, machine: this.clock(), machineBefore };
        ledger.checkGrant(output.worker, grant, { ...now, roster: this.roster });
        const since = timeline.now;
        if (!isLost) timeline.after(delay, () => worker?.startGrant(grant, since));
        return;
      }
      case "cancel":
        if (output.why === "lost") ledger.leases.released(output.attempts);
        timeline.after(delay, () => worker?.cancel(output.attempts, output.why));
        return;
      case "verdicts": {
        const reports = this.#reports.get(`${output.worker}/${output.report}`) ?? [];
        this.#reports.delete(`${output.worker}/${output.report}`);
        ledger.judged(reports, output.verdicts);
        if (!isLost) timeline.after(delay, () => worker?.onVerdicts(output.report, output.verdicts));
        return;
      }
      case "ask-worker":
        ledger.leases.asked(output.attempts);
        timeline.after(delay, () => {
          const beats = isLost ? null : (worker?.vouch(output.attempts) ?? null);
          if (beats !== null) this.answer(() => ({ kind: "worker-vouches", worker: output.worker, beats }));
        });
    }
  }

  /** Why an execution does not go on, at the end of a stuck run; null: it is not here. */
  why(execution: string): string | null {
    const { node } = this;
    node?.input({ kind: "inspect", request: 0, execution }, this.clock());
    for (let i = 0; i < 5; i++) {
      for (const output of node?.advance(this.clock()) ?? []) {
        if (output.kind === "inspected") return "why" in output.inspection ? output.inspection.why : null;
        if (output.kind === "load") node?.input(this.#answerOf(output), this.clock());
      }
    }
    return null;
  }
}
