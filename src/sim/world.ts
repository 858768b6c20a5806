/**
 * One simulated run: a node over tables that can lose what was not acknowledged, workers and a client over a network
 * that loses, delays and repeats, and clocks that jump; all under one seed. Checks invariants at every durable row,
 * every grant and every answer; then heals and demands that everything ends.
 */

import type { Input, Output } from "../engine/io.ts";
import { EngineNode } from "../engine/node.ts";
import type { Settings } from "../engine/settings.ts";
import type { Event } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal-entry.ts";
import type { Outcome } from "../kernel/message.ts";
import type { Plan } from "../kernel/plan.ts";
import { FOLD_VERSION } from "../kernel/snapshot.ts";
import type { Grant, GrantItem } from "../protocol/work.ts";
import { SeededRandom } from "../std/random.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import type { Behaviour } from "./behaviour.ts";
import type { Fault } from "./faults.ts";
import { randomPlan } from "./grammar.ts";
import { Ledger } from "./ledger.ts";
import { SimClient } from "./sim-client.ts";
import { SimWorker } from "./sim-worker.ts";
import { Timeline } from "./timeline.ts";
import { must, Trace, Violation } from "./trace.ts";

export interface WorldOptions {
  readonly seed: number;
  readonly executions: number;
  readonly faults: ReadonlySet<Fault>;
  readonly show: ((line: string) => void) | null;
}

const SETTINGS: Partial<Settings> = {
  claimLeaseMs: 500,
  sweepMs: 100,
  windowMax: 4,
  idleMax: 1,
  commitWritesMax: 3,
  commitMessagesMax: 5,
  quantum: 2,
  openTasksAhead: 3,
  snapshotRows: 3,
  timerHorizonMs: 1_000,
  timersMax: 3,
  pageCacheChars: 200,
};
const HEAL_AT_MS = 15_000;
const GIVE_UP_MS = 3_600_000;
const STEPS_MAX = 300_000;

export class World {
  readonly timeline = new Timeline();
  readonly trace: Trace;
  readonly behaviour: Behaviour;
  readonly ledger: Ledger;
  readonly #options: WorldOptions;
  readonly #random: SeededRandom;
  readonly #tables: MemoryTables;
  readonly #client: SimClient;
  readonly #plans = new Map<string, Plan>();
  readonly #executions = new Map<string, Plan>();
  #workers: SimWorker[] = [];
  #node: EngineNode | null = null;
  #incarnation = 0;
  #isAdvancing = false;
  #skew = 0;
  #workerCount = 0;
  #nodeNow = 0;
  #wakeAt = Number.POSITIVE_INFINITY;
  #healed = false;
  #isClosing = false;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
    this.trace = new Trace(options.show);
    this.#tables = new MemoryTables({ random: this.#random.child("tables") });
    this.behaviour = {
      seed: options.seed,
      healed: false,
      fails: this.has("failing-tasks"),
      poison: this.has("poison"),
    };
    this.ledger = new Ledger(this.#tables, this.behaviour);
    this.#client = new SimClient(this, this.#random.child("client"));
  }

  has(fault: Fault): boolean {
    return (
      this.#options.faults.has(fault) && (!this.#healed || fault === "poison" || fault === "local-worker")
    );
  }

  /** Runs to the end; throws a `Violation` if an invariant breaks. */
  run(): void {
    this.#populate();
    this.#open();
    this.#scheduleFaults();
    let steps = 0;
    const end = this.timeline.now + GIVE_UP_MS;
    this.timeline.after(HEAL_AT_MS, () => this.#heal());
    while (!(this.#healed && this.ledger.allEnded(this.#executions.keys()))) {
      if (steps++ >= STEPS_MAX || this.timeline.now >= end) throw new Violation(this.#stuck());
      if (!this.timeline.next()) throw new Violation(this.#stuck());
    }
    this.ledger.checkEnd(this.#client.acknowledged);
    this.trace.note(this.timeline.now, `end ${this.ledger.summary()}`);
  }

  /** A message of a worker on its way to the node. */
  toNode(worker: SimWorker, input: Input): void {
    if (worker.local) {
      const { isDead } = worker;
      if (!isDead) this.timeline.after(0, () => worker.isDead || this.#deliver(input));
      return;
    }
    if (this.has("lost-messages") && this.#random.chance(0.05)) return;
    const send = () => this.timeline.after(this.#delay(), () => worker.isDead || this.#deliver(input));
    send();
    if (input.kind === "worker-reports" && this.has("repeated-messages") && this.#random.chance(0.1)) send();
  }

  fromClient(input: Input): void {
    this.timeline.after(this.#delay(), () => this.#deliver(input));
  }

  mustBeDurable(execution: string, seq: number): void {
    this.ledger.sync();
    must(
      this.ledger.durableSeq(execution) >= seq,
      `${execution}: what is acknowledged (seq ${seq}) is durable`,
    );
  }

  noteRun(grant: Grant, item: GrantItem): void {
    this.trace.note(
      this.timeline.now,
      `run ${grant.do} ${grant.execution}/${grant.phase}/${grant.handler}#${item.number} attempt ${item.attempt}`,
    );
  }

  noteProduced(grant: Grant, task: number, outcome: Outcome): void {
    this.ledger.produced(grant, task, outcome);
  }

  hasIdentity(grant: Grant): boolean {
    const phase = this.#executions.get(grant.execution)?.byName.get(grant.phase);
    return phase?.handlers.find(({ name }) => name === grant.handler)?.definition.identity !== undefined;
  }

  /** A task took its process down: the node's, if it ran there, else the worker's. */
  processDies(worker: SimWorker): void {
    if (worker.local) this.#crash();
    else this.#replace(worker);
  }

  #populate(): void {
    const random = this.#random.child("grammar");
    const count = random.between(1, 3);
    for (let i = 0; i < count; i++) {
      const plan = randomPlan(random, `w${i}`);
      this.#plans.set(plan.hash, plan);
      this.#tables.putDefinition(plan.definition.name, plan.hash, JSON.stringify(plan.definition));
    }
    const plans = [...this.#plans.values()];
    for (let i = 0; i < this.#options.executions; i++) {
      const execution = `e${i}`;
      const plan = random.pick(plans);
      this.#executions.set(execution, plan);
      this.ledger.expect(execution, plan);
      const now = this.timeline.now;
      const times = {
        ...(random.chance(0.1) ? { startAt: now + random.below(3_000) } : {}),
        ...(random.chance(0.1) ? { deadline: now + random.below(10_000) } : {}),
      };
      this.timeline.after(random.below(2_000), () => this.#client.start(execution, plan, times));
    }
  }

  #scheduleFaults(): void {
    const random = this.#random.child("faults");
    const repeat = (fault: Fault, everyMs: number, run: () => void) => {
      if (!this.has(fault)) return;
      const next = () =>
        this.timeline.after(random.below(everyMs * 2), () => {
          if (this.#healed) return;
          run();
          next();
        });
      next();
    };
    repeat("crash", 4_000, () => this.#crash());
    repeat("clean-restarts", 6_000, () => this.#close());
    repeat("dead-workers", 4_000, () => {
      const remote = this.#workers.filter((worker) => !worker.local);
      if (remote.length > 0) this.#replace(random.pick(remote));
    });
    repeat("frozen-workers", 4_000, () => {
      const remote = this.#workers.filter((worker) => !worker.local);
      if (remote.length > 0) random.pick(remote).frozenUntil = this.timeline.now + random.below(5_000);
    });
    repeat("clock-jumps", 5_000, () => {
      this.#skew += random.pick([-2_000, 500, 20_000]);
      this.trace.note(this.timeline.now, `clock ${this.#skew}`);
    });
    repeat("controls", 1_500, () => this.#client.act(random.pick([...this.#executions.keys()])));
  }

  /** Faults are over: everything that is held is released, and now it has to end. */
  #heal(): void {
    this.#healed = true;
    this.behaviour.healed = true;
    this.trace.note(this.timeline.now, "heal");
    if (this.#node === null) this.#open();
    for (const worker of this.#workers) worker.frozenUntil = 0;
    if (!this.#workers.some((worker) => !worker.isDead)) this.#hire();
    const nudge = () => {
      this.ledger.sync();
      for (const execution of this.#executions.keys()) {
        const status = this.ledger.status(execution);
        if (status === "paused") this.#client.control(execution, "resume");
        for (const name of this.ledger.waits(execution)) this.#client.signal(execution, name);
      }
      this.timeline.after(5_000, nudge);
    };
    nudge();
  }

  #open(): void {
    const info = this.#tables.open();
    this.ledger.opened(info);
    this.#incarnation++;
    this.#isClosing = false;
    this.#nodeNow = 0;
    const suspectMs = this.#workers.some((worker) => !worker.local) || this.#incarnation === 1 ? 300 : 0;
    this.#node = new EngineNode(info, this.#clock(), { ...SETTINGS, suspectMs });
    this.trace.note(this.timeline.now, `open epoch ${info.fence.epoch} unclean ${info.uncleanEpoch}`);
    if (this.#workers.length === 0) for (let i = this.#random.between(1, 3); i > 0; i--) this.#hire();
    for (const worker of this.#workers.filter((candidate) => candidate.local)) this.#fire(worker);
    if (this.has("local-worker")) this.#hireLocal();
    for (const worker of this.#workers) worker.join();
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.#scheduleAdvance();
  }

  #crash(): void {
    if (this.#node === null) return;
    this.trace.note(this.timeline.now, "crash");
    this.#node = null;
    this.#incarnation++;
    const unsettled = this.#tables.unsettled;
    if (unsettled > 0 && this.has("lost-commits")) this.#tables.lose(this.#random.between(0, unsettled));
    this.ledger.crashed();
    for (const worker of this.#workers.filter((candidate) => candidate.local)) this.#fire(worker);
    this.timeline.after(this.#random.pick([1, 200, 3_000]), () => this.#node === null && this.#open());
  }

  /** A graceful end, if nothing is left open; else it is a crash like any other. */
  #close(): void {
    if (this.#node === null || this.#isClosing) return;
    this.#isClosing = true;
    this.#deliver({ kind: "closing" });
    const incarnation = this.#incarnation;
    this.timeline.after(200, () => {
      if (this.#incarnation !== incarnation || this.#node === null) return;
      const isClean = this.#node.openLeases === 0 && !this.#node.isBusy;
      if (!isClean) return this.#crash();
      this.trace.note(this.timeline.now, "close");
      this.#tables.settle();
      this.#tables.close(this.ledger.fence(), { clean: true });
      this.#node = null;
      this.#incarnation++;
      this.ledger.closed();
      for (const worker of this.#workers.filter((candidate) => candidate.local)) this.#fire(worker);
      this.timeline.after(50, () => this.#node === null && this.#open());
    });
  }

  #uses(): string[] {
    const uses = new Set<string>();
    for (const plan of this.#plans.values()) {
      for (const phase of plan.phases) {
        for (const handler of [...phase.handlers, ...(phase.decision ? [phase.decision] : [])]) {
          if (handler.use !== "") uses.add(handler.use);
          if (handler.enumerateUse !== null) uses.add(handler.enumerateUse);
        }
      }
    }
    return [...uses];
  }

  #hire(): void {
    const random = this.#random.child(`worker ${this.#workerCount}`);
    const worker = new SimWorker(this, random, {
      id: `w${this.#workerCount++}`,
      local: false,
      uses: this.#uses(),
      capacity: random.between(1, 6),
    });
    this.#workers.push(worker);
    worker.join();
  }

  #hireLocal(): void {
    const random = this.#random.child(`worker ${this.#workerCount}`);
    this.#workers.push(
      new SimWorker(this, random, {
        id: `local${this.#workerCount++}`,
        local: true,
        uses: this.#uses(),
        capacity: random.between(1, 6),
      }),
    );
  }

  #fire(worker: SimWorker): void {
    worker.die();
    this.#workers = this.#workers.filter((other) => other !== worker);
  }

  #replace(worker: SimWorker): void {
    this.trace.note(this.timeline.now, `worker ${worker.id} dies`);
    this.#fire(worker);
    this.timeline.after(this.#random.below(1_000), () => this.#hire());
  }

  /** The machine's clock; a node lets it go forward only. */
  #clock(): number {
    this.#nodeNow = Math.max(this.#nodeNow, Math.floor(this.timeline.now + this.#skew));
    return Math.floor(this.timeline.now + this.#skew);
  }

  #delay(): number {
    return this.#random.chance(0.05) && !this.#healed ? this.#random.below(2_000) : this.#random.below(10);
  }

  #deliver(input: Input): void {
    if (this.#node === null) return;
    if (input.kind === "worker-reports") this.ledger.heard(input.worker, input.reports);
    this.#node.input(input, this.#clock());
    this.#scheduleAdvance();
  }

  #scheduleAdvance(): void {
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    this.timeline.after(this.#random.below(3), () => {
      this.#isAdvancing = false;
      this.#advance();
    });
  }

  #advance(): void {
    const node = this.#node;
    if (node === null) return;
    for (const output of node.advance(this.#clock())) {
      if (this.#node === node) this.#perform(output);
    }
    if (this.#node !== node) return;
    const at = node.nextWakeAt();
    if (at === Number.POSITIVE_INFINITY || at === this.#wakeAt) return;
    this.#wakeAt = at;
    this.timeline.after(Math.max(1, at - this.#clock()), () => {
      this.#wakeAt = Number.POSITIVE_INFINITY;
      this.#scheduleAdvance();
    });
  }

  /** Answers a question of the node a little later, unless it has died meanwhile. */
  #answer(make: () => Input): void {
    const incarnation = this.#incarnation;
    this.timeline.after(this.#random.below(5), () => {
      if (this.#incarnation === incarnation) this.#deliver(make());
    });
  }

  #perform(output: Output): void {
    const tables = this.#tables;
    switch (output.kind) {
      case "commit":
        return this.#commit(output);
      case "load":
        return this.#answer(() => {
          const loaded = tables.load(output.ids, { foldVersion: FOLD_VERSION });
          loaded.forEach((one) => one !== null && this.ledger.checkLoad(one));
          return { kind: "loaded", loads: output.ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })) };
        });
      case "get-definition":
        return this.#answer(() => ({
          kind: "definition",
          hash: output.hash,
          plan: this.#plans.get(output.hash) ?? null,
        }));
      case "read-page":
        return this.#answer(() => ({
          kind: "page-read",
          execution: output.execution,
          seq: output.seq,
          entry: tables.readJournal({ execution: output.execution, from: output.seq, rowsMax: 1 })[0] ?? null,
        }));
      case "scan-work":
        return this.#answer(() => ({
          kind: "work-scanned",
          heads: tables.scanWork(output),
          each: output.each,
        }));
      case "scan-timers":
        return this.#answer(() => ({
          kind: "timers-scanned",
          timers: tables.scanTimers(output),
          until: output.until,
          max: output.max,
        }));
      case "reply":
        return this.#client.replied(output.request, output.answer, output.existed ?? false);
      case "grant": {
        const { grant } = output;
        this.trace.note(
          this.timeline.now,
          `grant ${output.worker} ${grant.do} ${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler} ${grant.items.map((item) => `${item.number}.${item.attempt}.${item.claim}`).join(" ")}`,
        );
        this.ledger.checkGrant(output.worker, grant, this.#nodeNow);
        const worker = this.#workers.find((candidate) => candidate.id === output.worker);
        if (worker === undefined || (!worker.local && this.has("lost-messages") && this.#random.chance(0.05)))
          return;
        return this.timeline.after(worker.local ? 0 : this.#delay(), () => worker.take(grant));
      }
      case "cancel": {
        const worker = this.#workers.find((candidate) => candidate.id === output.worker);
        if (output.why === "lost") this.ledger.released(output.attempts);
        return this.timeline.after(this.#delay(), () => worker?.cancel(output.attempts, output.why));
      }
      case "verdicts": {
        const worker = this.#workers.find((candidate) => candidate.id === output.worker);
        if (worker === undefined || (!worker.local && this.has("lost-messages") && this.#random.chance(0.05)))
          return;
        return this.timeline.after(worker.local ? 0 : this.#delay(), () => worker.heard(output.report));
      }
      case "progressed":
        return this.ledger.progressed(output.execution, output.seq);
      case "fenced":
        throw new Violation(`the only owner was fenced: ${output.why}`);
      case "unreadable":
        throw new Violation(`unreadable: ${output.why}`);
      case "inspected":
        return;
    }
  }

  #commit({ commit, content }: Extract<Output, { kind: "commit" }>): void {
    const incarnation = this.#incarnation;
    const isOurs = () => this.#incarnation === incarnation;
    const dice = this.#random.u32() / 4294967296;
    this.timeline.after(this.#random.below(8), () => {
      if (!isOurs()) return;
      if (this.has("failed-commits") && dice < 0.03)
        return this.#deliver({ kind: "commit-failed", commit, nothingWritten: true });
      if (this.has("crash") && dice > 0.99) return this.#crash();
      const verdict = this.#tables.commit(content);
      this.trace.note(
        this.timeline.now,
        `commit ${commit} ${verdict.kind} ${content.writes.map((write) => `${write.execution}+${write.entries.length}`).join(" ")}`,
      );
      for (const write of content.writes)
        this.trace.detail(
          () =>
            `  ${write.execution} ${write.entries.flatMap((entry) => decodeEntry(entry).map(({ event }) => showEvent(event))).join("; ")}`,
        );
      if (this.has("crash") && dice > 0.97) return this.#crash();
      this.timeline.after(this.#random.below(8), () => {
        if (!isOurs()) return;
        this.#tables.settle();
        this.ledger.sync();
        if (this.has("crash") && dice > 0.96) return this.#crash();
        if (this.has("lost-replies") && dice < 0.06)
          return this.#deliver({ kind: "commit-failed", commit, nothingWritten: false });
        this.#deliver({ kind: "committed", commit, verdict });
      });
    });
  }

  #stuck(): string {
    const open = [...this.#executions.keys()].filter((id) => !this.ledger.hasEnded(id));
    return `stuck: ${open.map((id) => `${id} is ${this.ledger.status(id)}: ${this.#why(id)}`).join(", ")}`;
  }

  #why(execution: string): string {
    this.#node?.input({ kind: "inspect", request: 0, execution }, this.#clock());
    for (const output of this.#node?.advance(this.#clock()) ?? []) {
      if (output.kind === "inspected" && "why" in output.inspection) return output.inspection.why;
    }
    return "not in memory";
  }
}

function showEvent(event: Event): string {
  const list =
    "tasks" in event && "attempts" in event
      ? ` ${event.tasks.map((task, i) => `${task}.${event.attempts[i]}`).join(" ")}`
      : "";
  const place =
    "handler" in event
      ? ` ${event.phase}.${event.visit}/${event.handler}`
      : "phase" in event
        ? ` ${event.phase}.${event.visit}`
        : "";
  return `${event.kind}${place}${list}`;
}
