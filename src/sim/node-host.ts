/**
 * The engine node's machine in a simulated run: its process, its clock, its disk. Performs what the node asks for a
 * little later, loses or fails commits, crashes and restarts; a new process knows only what the tables kept.
 */
import { type HandedLease, tableFor } from "../engine/hand-over.ts";
import type { Input, Output } from "../engine/io.ts";
import { EngineNode } from "../engine/node.ts";
import type { Settings } from "../engine/settings.ts";
import type { Plan } from "../kernel/plan.ts";
import type { Report } from "../protocol/work.ts";
import type { SeededRandom } from "../std/random.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import type { StoreInfo } from "../store/store.ts";
import { QUANTUM } from "./check/ledger.ts";
import { type ReadOutput, readFor } from "./node-reads.ts";
import { showWrite } from "./show-event.ts";
import { must, Violation } from "./trace.ts";
import type { World } from "./world.ts";

const SETTINGS: Partial<Settings> = {
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
  timerHorizonMs: 1_000,
  timersMax: 3,
  pageCacheChars: 200,
};

/** Turns of the node after which its limits are looked at. */
const LIMITS_EVERY = 8;

type CommitOutput = Extract<Output, { kind: "commit" }>;

export class NodeHost {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #tables: MemoryTables;
  readonly #plans: ReadonlyMap<string, Plan>;
  #node: EngineNode | null = null;
  #incarnation = 0;
  #isAdvancing = false;
  #nodeNow = 0;
  #wakeAt = Number.POSITIVE_INFINITY;
  #isClosing = false;
  #turns = 0;
  #commits: CommitOutput[] = [];
  /** Reports that came, for when they are judged. */
  readonly #reports = new Map<string, readonly Report[]>();
  /** How far the machine's clock is off, and was before it last jumped. */
  #skew = 0;
  #skewBefore = 0;

  constructor(world: World, random: SeededRandom, tables: MemoryTables, plans: ReadonlyMap<string, Plan>) {
    this.#world = world;
    this.#random = random;
    this.#tables = tables;
    this.#plans = plans;
  }

  get isUp(): boolean {
    return this.#node !== null;
  }

  /** Starts the process. */
  open(): void {
    const info = this.#tables.open();
    this.#world.ledger.opened(info);
    this.#world.ledger.leases.opened({ at: this.#world.timeline.now, machine: this.clock() });
    this.#incarnation++;
    this.#isClosing = false;
    this.#nodeNow = 0;
    this.#commits = [];
    this.#reports.clear();
    const suspectMs = this.#world.staff.hasRemote || this.#incarnation === 1 ? 300 : 0;
    const { projects } = this.#world;
    this.#node = new EngineNode(info, this.clock(), { ...SETTINGS, suspectMs, projects });
    this.#node.takeOver(this.#handedOver(info));
    this.#world.trace.note(
      this.#world.timeline.now,
      `open epoch ${info.owned[0]?.epoch} unclean ${info.owned[0]?.uncleanEpoch}`,
    );
    this.#world.nodeOpened();
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.#scheduleAdvance();
  }

  /** kill -9. */
  crash(): void {
    if (this.#node === null) return;
    this.#world.trace.note(this.#world.timeline.now, "crash");
    this.#node = null;
    this.#incarnation++;
    const unsettled = this.#tables.unsettled;
    if (unsettled > 0 && this.#world.has("lost-commits"))
      this.#tables.lose(this.#random.between(0, unsettled));
    this.#world.ledger.crashed();
    this.#world.staff.nodeEnded();
    this.#world.timeline.after(this.#random.pick([1, 200, 3_000]), () => this.#node === null && this.open());
  }

  /** A graceful end: what is open at workers elsewhere is handed over. Where that cannot be, it is a crash. */
  close(): void {
    if (this.#node === null || this.#isClosing) return;
    this.#isClosing = true;
    this.deliver({ kind: "closing" });
    const incarnation = this.#incarnation;
    this.#world.timeline.after(200, () => {
      const node = this.#node;
      if (this.#incarnation !== incarnation || node === null) return;
      const table = node.leaseTables()?.get(0);
      if (node.isBusy || table === undefined) return this.crash();
      this.#tables.putDocument("leases", "0", JSON.stringify(table));
      // Words may come before the end.
      this.#world.timeline.after(this.#random.below(20), () => {
        if (this.#incarnation !== incarnation) return;
        if (node.isBusy || node.hasSuspects) this.crash();
        else this.#end(table.leases.length);
      });
    });
  }

  #end(leases: number): void {
    this.#world.trace.note(this.#world.timeline.now, `close, ${leases} handed over`);
    this.#tables.settle();
    this.#tables.close(this.#world.ledger.fence(), { clean: true });
    this.#node = null;
    this.#incarnation++;
    this.#world.ledger.closed();
    this.#world.staff.nodeEnded();
    this.#world.timeline.after(50, () => this.#node === null && this.open());
  }

  /** What the last owner left open, if it ended well. */
  #handedOver({ owned: [own] }: StoreInfo): readonly HandedLease[] {
    if (own === undefined) return [];
    if (own.uncleanEpoch === own.epoch - 1) return [];
    return tableFor(own, this.#tables.getDocument("leases", "0"))?.leases ?? [];
  }

  /** The machine's clock jumps; gives how far it is off by then. */
  jump(ms: number): number {
    const { timeline } = this.#world;
    this.#skewBefore = this.#skew;
    this.#skew += ms;
    // What was decided before it jumped has gone out a little later.
    const now = this.#skew;
    timeline.after(100, () => {
      if (this.#skew === now) this.#skewBefore = now;
    });
    return now;
  }

  /** The machine's clock; a node lets it go forward only. */
  clock(): number {
    const now = Math.floor(this.#world.timeline.now + this.#skew);
    this.#nodeNow = Math.max(this.#nodeNow, now);
    return now;
  }

  /** A message reaches the process, if it runs. */
  deliver(input: Input): void {
    if (this.#node === null) return;
    const { ledger, timeline } = this.#world;
    if (input.kind === "worker-reports") {
      ledger.leases.heard(input.worker, input.reports);
      this.#reports.set(`${input.worker}/${input.report}`, input.reports);
    } else if (input.kind === "worker-joined") {
      const { serves, asks = false } = input;
      ledger.roster.joined(input.worker, { serves, asks }, timeline.now);
    } else if (input.kind === "worker-left") {
      ledger.roster.left(input.worker, timeline.now);
      ledger.leases.workerLeft(input.worker);
    }
    this.#node.input(input, this.clock());
    this.#scheduleAdvance();
  }

  #scheduleAdvance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    this.#world.timeline.after(this.#random.below(3), () => {
      this.#isAdvancing = false;
      this.#advance();
    });
  }

  #advance(): void {
    const node = this.#node;
    if (node === null) return;
    for (const output of node.advance(this.clock())) {
      if (this.#node === node) this.#perform(output);
    }
    if (this.#node !== node) return;
    if (++this.#turns % LIMITS_EVERY === 0)
      for (const { name, held, max } of node.overview().limits)
        must(held <= max, `${name}: ${held} permits are held of ${max}`);
    const at = node.nextWakeAt();
    if (at === Number.POSITIVE_INFINITY || at === this.#wakeAt) return;
    this.#wakeAt = at;
    this.#world.timeline.after(Math.max(1, at - this.clock()), () => {
      this.#wakeAt = Number.POSITIVE_INFINITY;
      this.#scheduleAdvance();
    });
  }

  /** Answers a question of the node a little later, unless it has died meanwhile. */
  #answer(make: () => Input, withinMs = 5): void {
    const incarnation = this.#incarnation;
    this.#world.timeline.after(this.#random.below(withinMs), () => {
      if (this.#incarnation === incarnation) this.deliver(make());
    });
  }

  #perform(output: Output): void {
    const { ledger } = this.#world;
    switch (output.kind) {
      case "commit":
        return this.#commit(output);
      case "reply":
        return this.#world.client.replied(output.request, output.answer, output.existed ?? false);
      case "progressed":
        return ledger.progressed(output.execution, output.seq);
      case "fenced":
        throw new Violation(`the only owner was fenced: ${output.why}`);
      case "unreadable":
        throw new Violation(`unreadable: ${output.why}`);
      case "purge":
        return this.#purge(output.ids);
      case "inspected":
      case "logged":
      case "yielded":
      case "ask-permits":
      case "grant-permits":
        return;
      case "grant":
      case "cancel":
      case "verdicts":
      case "ask-worker":
        return this.#toWorker(output);
      default:
        return this.#read(output);
    }
  }

  /** Reads are made a little later; a definition may take its time. */
  #read(output: ReadOutput): void {
    const withinMs = output.kind === "get-definition" ? this.#random.pick([5, 5, 500]) : 5;
    this.#answer(() => {
      const answer = readFor(this.#tables, this.#plans, output);
      if (answer.kind === "loaded")
        for (const { loaded } of answer.loads) if (loaded !== null) this.#world.ledger.checkLoad(loaded);
      return answer;
    }, withinMs);
  }

  #toWorker(output: Extract<Output, { worker: string }>): void {
    const { ledger, timeline, trace, staff } = this.#world;
    const worker = staff.worker(output.worker);
    const isLost = worker?.local === false && this.#world.has("lost-messages") && this.#random.chance(0.05);
    const delay = worker?.local === true ? 0 : this.#world.delay();
    switch (output.kind) {
      case "grant": {
        const { grant } = output;
        const items = grant.items.map((item) => `${item.number}.${item.attempt}.${item.claim}`).join(" ");
        const place = `${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler}`;
        trace.note(timeline.now, `grant ${output.worker} ${grant.do} ${place} ${items}`);
        const machineBefore = timeline.now + this.#skewBefore;
        const now = { at: timeline.now, clock: this.#nodeNow, machine: this.clock(), machineBefore };
        ledger.checkGrant(output.worker, grant, now);
        const since = timeline.now;
        if (!isLost) timeline.after(delay, () => worker?.take(grant, since));
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
        if (!isLost) timeline.after(delay, () => worker?.heard(output.report, output.verdicts));
        return;
      }
      case "ask-worker":
        ledger.leases.asked(output.attempts);
        timeline.after(delay, () => {
          const beats = isLost ? null : (worker?.vouch(output.attempts) ?? null);
          if (beats !== null) this.#answer(() => ({ kind: "worker-vouches", worker: output.worker, beats }));
        });
    }
  }

  /** What is forgotten is durable at once, and so is all that was written before. */
  #purge(ids: readonly string[]): void {
    const incarnation = this.#incarnation;
    this.#world.timeline.after(this.#random.below(50), () => {
      if (this.#incarnation !== incarnation) return;
      this.#tables.settle();
      this.#world.ledger.beforePurge(ids);
      this.#tables.purge(ids);
      this.#world.ledger.purged(ids);
      this.#world.trace.note(this.#world.timeline.now, `purge ${ids.join(" ")}`);
      this.deliver({ kind: "purged", ids });
    });
  }

  /** The disk does one commit after another, in the order they were asked for. */
  #commit(asked: CommitOutput): void {
    this.#commits.push(asked);
    if (this.#commits.length === 1) this.#write(asked);
  }

  #write({ commit, content }: CommitOutput): void {
    const incarnation = this.#incarnation;
    const isOurs = () => this.#incarnation === incarnation;
    const dice = this.#random.u32() / 4294967296;
    const answer = (input: Input) => {
      this.#commits.shift();
      const next = this.#commits[0];
      if (next !== undefined) this.#write(next);
      this.deliver(input);
    };
    this.#world.timeline.after(this.#random.below(8), () => {
      if (!isOurs()) return;
      if (this.#world.has("failed-commits") && dice < 0.03)
        return answer({ kind: "commit-failed", commit, nothingWritten: true });
      if (this.#world.has("crash") && dice > 0.99) return this.crash();
      const verdict = this.#tables.commit(content);
      this.#world.ledger.written(content);
      showWrite(this.#world, `commit ${commit} ${verdict.kind}`, content);
      if (this.#world.has("crash") && dice > 0.97) return this.crash();
      this.#world.timeline.after(this.#random.below(8), () => {
        if (!isOurs()) return;
        this.#tables.settle();
        this.#world.ledger.sync();
        if (this.#world.has("crash") && dice > 0.96) return this.crash();
        if (this.#world.has("lost-replies") && dice < 0.06)
          return answer({ kind: "commit-failed", commit, nothingWritten: false });
        answer({ kind: "committed", commit, verdict });
      });
    });
  }

  /** Why an execution does not go on, at the end of a run that is stuck. */
  why(execution: string): string {
    const node = this.#node;
    node?.input({ kind: "inspect", request: 0, execution }, this.clock());
    for (let i = 0; i < 5; i++) {
      for (const output of node?.advance(this.clock()) ?? []) {
        if (output.kind === "inspected" && "why" in output.inspection) return output.inspection.why;
        if (output.kind === "load") node?.input(readFor(this.#tables, this.#plans, output), this.clock());
      }
    }
    return "nobody knows";
  }
}
