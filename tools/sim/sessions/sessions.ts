/**
 * Worker sessions over HTTP: real workers claim from the real routes of a server, over a network that loses, delays and repeats
 * messages (sim-http.ts). At the end every execution is done, with the right output, and no worker holds an attempt.
 *
 * In odd seeds only messages are lost or late, for less time than a lease lasts. Then no attempt may be lost, every task runs
 * exactly once, and the work of a lost answer is handed out again soon. In even seeds the server and the workers also die, stop
 * and freeze, and messages arrive twice.
 */
import { Engine } from "../../../src/engine/driver.ts";
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import type { Event } from "../../../src/kernel/event.ts";
import { decodeEntry } from "../../../src/kernel/journal/journal-entry.ts";
import { workflow } from "../../../src/sdk/workflow.ts";
import { bindRoutes } from "../../../src/server/route.ts";
import { workerRoutes } from "../../../src/server/worker-protocol/worker-routes.ts";
import { WorkerSessions } from "../../../src/server/worker-protocol/worker-sessions.ts";
import type { Clock } from "../../../src/std/clock.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { isRejection, unwrap } from "../../../src/std/rejection.ts";
import { toError } from "../../../src/std/to-error.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { KillableProcess } from "../../../src/testing/killable-process.ts";
import { VirtualClock } from "../../../src/testing/virtual-clock.ts";
import type { HostedWorkflow } from "../../../src/worker/handler-code.ts";
import { RemoteWorker } from "../../../src/worker/http/remote-worker.ts";
import { must, Trace, type TracedRun, traced, Violation } from "../trace.ts";
import { type NetworkFaults, NO_FAULTS, SimConnection, SimHttp, type SimServer } from "./sim-http.ts";

const SECOND = 1_000;
const ADDRESS = "http://server:7777";
const WORKERS = 2;
const CAPACITY = 6;
const HEAL_AT = 60 * SECOND;
/** By when all is done after the faults: soon if no lease has to end, else after some heartbeats and back-offs. */
const GENTLE_END_AT = HEAL_AT + 25 * SECOND;
const ROUGH_END_AT = HEAL_AT + 600 * SECOND;
const LOOK_MS = SECOND;
const GENTLE: NetworkFaults = {
  ...NO_FAULTS,
  lostRequest: 0.06,
  lostAnswer: 0.1,
  slow: 0.1,
  slowMs: SECOND,
};
const ROUGH: NetworkFaults = { ...GENTLE, silence: 0.4, slowMs: 8 * SECOND, repeated: 0.05 };
/** After the faults, one more execution has so many slow tasks that every worker must get some of them. */
const PROBE = "probe";
const PROBE_TASKS = 60;
const PROBE_MS = 300;
const PROBE_AT = HEAL_AT + 60 * SECOND;
const GENTLE_LEASE_MS = 30 * SECOND;
/** The longest time of an execution in odd seeds, in which it ends within one lease. */
const GENTLE_MS = 25 * SECOND;
const ROUGH_LEASE_MS = 6 * SECOND;

interface Started {
  readonly id: string;
  readonly plan: Plan;
  readonly input: unknown;
  readonly output: unknown;
  /** How many tasks run, with enumerations and `returns` left out. */
  readonly tasks: number;
  isAcknowledged: boolean;
}

interface Server extends SimServer {
  readonly process: KillableProcess;
  readonly engine: Engine;
  readonly store: MemoryStore;
  readonly sessions: WorkerSessions;
}

interface WorkerProcess {
  readonly name: string;
  readonly id: string;
  readonly process: KillableProcess;
  readonly worker: RemoteWorker;
  readonly connections: SimConnection[];
}

/** Runs the worker sessions of a seed. */
export function runSessions(seed: number, show: ((line: string) => void) | null): Promise<TracedRun> {
  return traced(new SessionsWorld(seed, show));
}

class SessionsWorld {
  readonly trace: Trace;
  readonly kinds = new Set<string>();
  readonly #clock = new VirtualClock();
  readonly #from = this.#clock.now();
  readonly #random: SeededRandom;
  readonly #isRough: boolean;
  /** Whether the server names itself as the node of a cluster: then workers have a session for each node. */
  readonly #isCluster: boolean;
  readonly #tables: MemoryTables;
  readonly #http: SimHttp;
  readonly #executions: Started[] = [];
  /** How often each task ran, by execution, phase and task. */
  readonly #ran = new Map<string, number>();
  readonly #workers: WorkerProcess[] = [];
  /** The workers that ran tasks of the last execution. */
  readonly #probed = new Set<string>();
  #server: Server | null = null;
  #processes = 0;
  #bug: Error | null = null;

  constructor(seed: number, show: ((line: string) => void) | null) {
    this.trace = new Trace(show);
    this.#random = new SeededRandom(`sessions ${seed}`);
    this.#isRough = seed % 2 === 0;
    this.#isCluster = seed % 4 >= 2;
    this.#tables = new MemoryTables({ random: this.#random.child("tables") });
    this.#http = new SimHttp({
      clock: this.#clock,
      random: this.#random.child("network"),
      server: () => this.#server,
      faults: () => (this.#elapsed >= HEAL_AT ? NO_FAULTS : this.#isRough ? ROUGH : GENTLE),
      note: (what) => this.#note(what),
      onTimeout: ({ path }) => this.#timedOut(path),
      onBug: (thrown) => this.#found(thrown),
    });
  }

  async run(): Promise<void> {
    await this.#openServer();
    for (let i = 0; i < WORKERS; i++) this.#openWorker(`w${i}`);
    this.#planExecutions();
    if (this.#isRough) this.#planDeaths();
    const until = this.#isRough ? ROUGH_END_AT : GENTLE_END_AT;
    while (!(await this.#isDone())) {
      if (this.#elapsed >= until) throw new Violation(`not done in time: ${(await this.#open()).join(", ")}`);
      await this.#clock.advance(LOOK_MS);
      if (this.#bug !== null) throw this.#bug;
    }
    await this.#check();
  }

  get #elapsed(): number {
    return this.#clock.now() - this.#from;
  }

  #note(what: string): void {
    this.trace.note(this.#elapsed + 1_000_000, what);
  }

  #found(thrown: unknown): void {
    this.#bug ??= toError(thrown);
  }

  #timedOut(path: string): void {
    this.#note(`no answer in time: ${path}`);
    if (!this.#isRough)
      this.#found(new Violation(`${path} is not answered, and no message was lost silently`));
  }

  async #openServer(): Promise<void> {
    const process = new KillableProcess(this.#clock);
    const clock = process.clock(this.#clock);
    const store = process.store(new MemoryStore(this.#tables));
    const heartbeatMs = this.#isRough ? ROUGH_LEASE_MS : GENTLE_LEASE_MS;
    const settings = { claimLeaseMs: heartbeatMs, suspectMs: heartbeatMs, heartbeatMs, sweepMs: SECOND };
    const onFault = (fault: unknown): void => this.#found(fault);
    const engine = await Engine.open({ store, clock, settings, onFault, onStop: onFault });
    const random = this.#random.child(`server ${this.#processes++}`);
    const sessions = new WorkerSessions({
      ...{ engine, store, clock, random, heartbeatMs, leaseMs: heartbeatMs, onFault },
      ...(this.#isCluster ? { nodes: () => [ADDRESS] } : {}),
    });
    this.#server = { process, clock, engine, store, sessions, routes: bindRoutes(workerRoutes, sessions) };
    this.#note("the server listens");
  }

  #openWorker(name: string): void {
    const process = new KillableProcess(this.#clock);
    const clock = process.clock(this.#clock);
    const number = this.#processes++;
    const id = `${name}.${number}`;
    const connections: SimConnection[] = [];
    const worker = new RemoteWorker({
      ...{ addresses: [ADDRESS], name, worker: id, version: "1.0.0", capacity: CAPACITY },
      ...{ clock, random: this.#random.child(`worker ${number}`), spool: null, statusPort: null },
      workflows: FLOWS.map((make) => make({ ran: (key) => this.#task(id, key), clock })),
      middleware: [],
      connect: (address) => {
        const connection = new SimConnection(address, this.#http, clock);
        connections.push(connection);
        return connection;
      },
      onLog: () => {},
      onTrouble: (what) => this.#note(`${id}: ${what ?? "the server is back"}`),
      onRegistered: () => this.#note(`${id} is registered`),
      onDrain: () => {},
      onDropped: (attempt, why) => this.#note(`${attempt}: ${why.message}`),
      onBug: (thrown) => this.#found(thrown),
    });
    this.#workers.push({ name, id, process, worker, connections });
    worker.start().catch((thrown: unknown) => this.#found(thrown));
  }

  /** Called when a handler begins a task: returns how long it takes. */
  #task(worker: string, key: string): number {
    this.#ran.set(key, (this.#ran.get(key) ?? 0) + 1);
    this.#note(`${worker} runs ${key}`);
    if (key.startsWith(PROBE)) {
      this.#probed.add(worker);
      return PROBE_MS;
    }
    // Most tasks end at once, so that their reports and the next claim meet.
    return this.#random.chance(0.6) ? 0 : this.#random.below(300);
  }

  #planExecutions(): void {
    const [chain, fan, careful] = FLOWS.map((make) =>
      compilePlan(unwrap(parseDefinition(make({ ran: () => 0, clock: this.#clock }).definition))),
    ) as [Plan, Plan, Plan];
    const plan = (id: string, given: Omit<Started, "id" | "isAcknowledged">, at?: number): void => {
      const one = { id, ...given, isAcknowledged: false };
      this.#executions.push(one);
      this.#clock.after(at ?? this.#random.below(HEAL_AT - 5 * SECOND), () => this.#start(one));
    };
    for (let n = 0; n < 20; n++) plan(`chain${n}`, { plan: chain, input: n, output: n + 3, tasks: 3 });
    for (let i = 0; i < 3; i++) {
      const count = 10 + this.#random.below(40);
      plan(`fan${i}`, { plan: fan, input: count, output: (count * (count - 1)) / 2, tasks: count });
    }
    for (let i = 0; i < 4; i++)
      plan(`careful${i}`, { plan: careful, input: i, output: `${i} a b`, tasks: 1 });
    const last = { plan: fan, input: PROBE_TASKS, tasks: PROBE_TASKS };
    plan(
      PROBE,
      { ...last, output: (PROBE_TASKS * (PROBE_TASKS - 1)) / 2 },
      this.#isRough ? PROBE_AT : HEAL_AT,
    );
  }

  /** Starts an execution, and repeats that until a server has acknowledged it. */
  #start(started: Started): void {
    if (started.isAcknowledged) return;
    const { id, plan, input } = started;
    const { definition, hash } = plan;
    const send = async ({ store, engine }: Server): Promise<void> => {
      await store.putDefinition(definition.name, hash, JSON.stringify(definition));
      const message = {
        ...{ kind: "start" as const, execution: id, workflow: definition.name, hash, project: "default" },
        ...{ input: JSON.stringify(input), tags: {} },
      };
      const { answer } = await engine.send(id, message, { plan, fresh: false });
      must(!isRejection(answer), `${id} is not started: ${JSON.stringify(answer)}`);
      started.isAcknowledged = true;
    };
    if (this.#server !== null) send(this.#server).catch((thrown: unknown) => this.#found(thrown));
    this.#clock.after(SECOND, () => this.#start(started));
  }

  /** Lets processes die, stop and freeze until the faults end. */
  #planDeaths(): void {
    const random = this.#random.child("deaths");
    const next = (): void => {
      if (this.#elapsed >= HEAL_AT - 10 * SECOND) return;
      if (random.chance(0.5)) this.#disturbServer(random);
      else this.#disturbWorker(random.pick(this.#workers), random);
      this.#clock.after(2 * SECOND + random.below(8 * SECOND), next);
    };
    this.#clock.after(3 * SECOND, next);
  }

  #disturbServer(random: SeededRandom): void {
    const server = this.#server;
    if (server === null) return;
    if (random.chance(0.4)) {
      const ms = random.below(2 * ROUGH_LEASE_MS);
      this.#note(`the server freezes for ${ms} ms`);
      server.process.freeze(ms);
      return;
    }
    this.#note("the server dies");
    server.process.kill();
    this.#server = null;
    this.#http.breakAll(server);
    this.#clock.after(random.below(4 * SECOND), () => {
      this.#openServer().catch((thrown: unknown) => this.#found(thrown));
    });
  }

  #disturbWorker(one: WorkerProcess, random: SeededRandom): void {
    const { name, process, worker, connections } = one;
    if (random.chance(0.4)) {
      const ms = random.below(2 * ROUGH_LEASE_MS);
      this.#note(`${name} freezes for ${ms} ms`);
      process.freeze(ms);
      return;
    }
    this.#workers.splice(this.#workers.indexOf(one), 1);
    const isKilled = random.chance(0.6);
    this.#note(`${name} ${isKilled ? "dies" : "stops"}`);
    if (isKilled) {
      process.kill();
      for (const connection of connections) connection.close();
    } else worker.stop(random.below(SECOND)).catch((thrown: unknown) => this.#found(thrown));
    this.#clock.after(random.below(3 * SECOND), () => this.#openWorker(name));
  }

  /** The executions that have not ended, each with its status and what it waits for. */
  async #open(): Promise<string[]> {
    if (this.#server === null) return ["no server runs"];
    const open: string[] = [];
    for (const { id, isAcknowledged } of this.#executions) {
      const seen = isAcknowledged ? await this.#inspect(id) : null;
      if (seen === null) open.push(`${id} has not started`);
      else if (seen.view.status !== "done") open.push(`${id} is ${seen.view.status}: ${seen.why}`);
    }
    return open;
  }

  async #inspect(id: string) {
    const { engine } = this.#server as Server;
    const inspecting = engine.inspect(id);
    await this.#clock.settle();
    return unwrap(await inspecting);
  }

  async #isDone(): Promise<boolean> {
    if (this.#server === null || this.#elapsed < HEAL_AT) return false;
    return (await this.#open()).length === 0 && this.#workers.every(({ worker }) => worker.held === 0);
  }

  async #check(): Promise<void> {
    must(this.#server?.engine.openLeases === 0, "leases are open, and no worker holds an attempt");
    for (const { id, output, tasks } of this.#executions) {
      const { view } = await this.#inspect(id);
      must(
        JSON.stringify(view.output) === JSON.stringify(output),
        `${id}: the output is ${JSON.stringify(view.output)}, not ${JSON.stringify(output)}`,
      );
      const ms = (view.finishedAt ?? Number.POSITIVE_INFINITY) - view.createdAt;
      must(this.#isRough || ms < GENTLE_MS, `${id} took ${ms} ms: its work waited for the end of a lease`);
      const settled = this.#checkEvents(id);
      must(settled >= tasks, `${id}: ${settled} tasks are settled, of ${tasks}`);
    }
    for (const { id } of this.#workers) must(this.#probed.has(id), `${id} gets no work, although it runs`);
    if (this.#isRough) return;
    for (const [key, times] of this.#ran)
      must(times === 1, `${key} ran ${times} times, although no process died`);
  }

  /** Checks the events of an execution; returns the number of settled tasks. */
  #checkEvents(id: string): number {
    const settled = new Set<string>();
    for (const event of this.#eventsOf(id)) {
      this.kinds.add(event.kind);
      must(this.#isRough || event.kind !== "tasks.lost", `${id}: an attempt is lost, and no process died`);
      if (event.kind !== "tasks.settled") continue;
      for (const task of event.tasks) {
        const key = `${event.phase}/${event.handler}/${task}`;
        must(!settled.has(key), `${id}: the task ${key} is settled twice`);
        settled.add(key);
      }
    }
    return settled.size;
  }

  #eventsOf(id: string): Event[] {
    const rows = this.#tables.readJournal({ execution: id, from: 1 });
    return rows.flatMap((row) => decodeEntry(row)).map(({ event }) => event);
  }
}

/** What the handlers of a worker use: a count of their runs, and the clock of their process. */
interface Hands {
  readonly ran: (key: string) => number;
  readonly clock: Clock;
}

const FLOWS: readonly ((hands: Hands) => HostedWorkflow)[] = [
  /** Three tasks, one after the other. */
  (hands) => {
    const link = (phase: string) => ({
      process: async ({ input, execution }: { input: number; execution: string }) => {
        await work(hands, `${execution}/${phase}`);
        return input;
      },
    });
    return workflow<number>({ name: "chain" })
      .phase("a", link("a"))
      .phase("b", link("b"))
      .phase("c", link("c"))
      .returns(({ input }) => input + 3);
  },
  /** Many tasks, whose results are read at the end. */
  (hands) =>
    workflow<number>({ name: "fan" })
      .phase("work", {
        *enumerate({ input }) {
          for (let n = 0; n < input; n++) yield n;
        },
        async process({ task, execution }) {
          await work(hands, `${execution}/${task}`);
          return task;
        },
      })
      .returns(({ phases }) => phases.work.reduce((sum, n) => sum + n, 0)),
  /** A task with steps and a sleep between them. */
  (hands) =>
    workflow<number>({ name: "careful" })
      .phase("work", {
        async process({ input, execution, step, sleep }) {
          const one = await step("a", async () => {
            await work(hands, `${execution}/a`);
            return `${input} a`;
          });
          await sleep("between", 50);
          return step("b", async () => {
            await work(hands, `${execution}/b`);
            return `${one} b`;
          });
        },
      })
      .returns(({ phases }) => phases.work.only()),
];

async function work({ ran, clock }: Hands, key: string): Promise<void> {
  const ms = ran(key);
  if (ms > 0) await new Promise<void>((resolve) => clock.after(ms, resolve));
}
