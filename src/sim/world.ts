/**
 * One simulated run: a node over tables that can lose what was not acknowledged, workers and a client over a network
 * that loses, delays and repeats, and clocks that jump; all under one seed. Checks invariants at every durable row,
 * every grant and every answer; then heals and demands that everything ends.
 */

import type { Input } from "../engine/io.ts";
import type { Outcome } from "../kernel/message.ts";
import type { Plan } from "../kernel/plan.ts";
import type { Grant, GrantItem } from "../protocol/work.ts";
import { SeededRandom } from "../std/random.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import type { Behaviour } from "./behaviour.ts";
import type { Fault } from "./faults.ts";
import { randomPlan } from "./grammar.ts";
import { Ledger } from "./ledger.ts";
import { NodeHost } from "./node-host.ts";
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
  readonly client: SimClient;
  readonly #host: NodeHost;
  readonly #plans = new Map<string, Plan>();
  readonly #executions = new Map<string, Plan>();
  #workers: SimWorker[] = [];
  #workerCount = 0;
  #healed = false;

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
    this.client = new SimClient(this, this.#random.child("client"));
    this.#host = new NodeHost(this, this.#random.child("node"), this.#tables, this.#plans);
  }

  has(fault: Fault): boolean {
    return (
      this.#options.faults.has(fault) && (!this.#healed || fault === "poison" || fault === "local-worker")
    );
  }

  /** Runs to the end; throws a `Violation` if an invariant breaks. */
  run(): void {
    this.#populate();
    this.#host.open();
    this.#scheduleFaults();
    let steps = 0;
    const end = this.timeline.now + GIVE_UP_MS;
    this.timeline.after(HEAL_AT_MS, () => this.#heal());
    while (!(this.#healed && this.ledger.allEnded(this.#executions.keys()))) {
      if (steps++ >= STEPS_MAX || this.timeline.now >= end) throw new Violation(this.#stuck());
      if (!this.timeline.next()) throw new Violation(this.#stuck());
    }
    this.ledger.checkEnd(this.client.acknowledged);
    this.trace.note(this.timeline.now, `end ${this.ledger.summary()}`);
  }

  /** A message of a worker on its way to the node. */
  toNode(worker: SimWorker, input: Input): void {
    if (worker.local) {
      const { isDead } = worker;
      if (!isDead) this.timeline.after(0, () => worker.isDead || this.#host.deliver(input));
      return;
    }
    if (this.has("lost-messages") && this.#random.chance(0.05)) return;
    const send = () => this.timeline.after(this.delay(), () => worker.isDead || this.#host.deliver(input));
    send();
    if (input.kind === "worker-reports" && this.has("repeated-messages") && this.#random.chance(0.1)) send();
  }

  fromClient(input: Input): void {
    this.timeline.after(this.delay(), () => this.#host.deliver(input));
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
    if (worker.local) this.#host.crash();
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
      this.timeline.after(random.below(2_000), () => this.client.start(execution, plan, times));
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
    repeat("crash", 4_000, () => this.#host.crash());
    repeat("clean-restarts", 6_000, () => this.#host.close());
    repeat("dead-workers", 4_000, () => {
      const remote = this.#workers.filter((worker) => !worker.local);
      if (remote.length > 0) this.#replace(random.pick(remote));
    });
    repeat("frozen-workers", 4_000, () => {
      const remote = this.#workers.filter((worker) => !worker.local);
      if (remote.length > 0) random.pick(remote).frozenUntil = this.timeline.now + random.below(5_000);
    });
    repeat("clock-jumps", 5_000, () => {
      this.#host.skew += random.pick([-2_000, 500, 20_000]);
      this.trace.note(this.timeline.now, `clock ${this.#host.skew}`);
    });
    repeat("controls", 1_500, () => this.client.act(random.pick([...this.#executions.keys()])));
  }

  /** Faults are over: everything that is held is released, and now it has to end. */
  #heal(): void {
    this.#healed = true;
    this.behaviour.healed = true;
    this.trace.note(this.timeline.now, "heal");
    if (!this.#host.isUp) this.#host.open();
    for (const worker of this.#workers) worker.frozenUntil = 0;
    if (!this.#workers.some((worker) => !worker.isDead)) this.#hire();
    const nudge = () => {
      this.ledger.sync();
      for (const execution of this.#executions.keys()) {
        const status = this.ledger.status(execution);
        if (status === "paused") this.client.control(execution, "resume");
        for (const name of this.ledger.waits(execution)) this.client.signal(execution, name);
      }
      this.timeline.after(5_000, nudge);
    };
    nudge();
  }

  get hasRemoteWorkers(): boolean {
    return this.#workers.some((worker) => !worker.local);
  }

  worker(id: string): SimWorker | undefined {
    return this.#workers.find((worker) => worker.id === id);
  }

  /** The node's process has started: workers register, and it brings its own. */
  nodeOpened(): void {
    if (this.#workers.length === 0) for (let i = this.#random.between(1, 3); i > 0; i--) this.#hire();
    if (this.has("local-worker")) this.#hireLocal();
    for (const worker of this.#workers) worker.join();
  }

  /** The node's process is gone, and with it its own worker. */
  nodeEnded(): void {
    for (const worker of this.#workers.filter((candidate) => candidate.local)) this.#fire(worker);
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

  /** How long a message takes. */
  delay(): number {
    return this.#random.chance(0.05) && !this.#healed ? this.#random.below(2_000) : this.#random.below(10);
  }

  #stuck(): string {
    const open = [...this.#executions.keys()].filter((id) => !this.ledger.hasEnded(id));
    return `stuck: ${open.map((id) => `${id} is ${this.ledger.status(id)}: ${this.#host.why(id)}`).join(", ")}`;
  }
}
