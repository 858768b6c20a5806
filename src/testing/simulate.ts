/**
 * Runs a user's workflow with its own handlers under many seeds, in one process or in a cluster over one store in memory.
 * Processes die at their commits, freeze, leave and start again; commits fail, answers are lost, and requests are repeated.
 * Each run must end like a run without faults. Its journal must have no gaps and count every task once. The user's check must
 * hold.
 */
import type { PublicEvent } from "../kernel/journal/public-event.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { ContextExtensions } from "../sdk/context.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { SeededRandom } from "../std/random.ts";
import { RondoError, unwrap } from "../std/rejection.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import type { HostedTopic, HostedWorkflow, Middleware } from "../worker/handler-code.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";
import { type FaultCounts, SimulatedFaults } from "./simulated-faults.ts";
import { TEST_PARTITIONS, TestCluster } from "./test-cluster.ts";
import { type TestBroadcast, TestPostOps, type TestTarget } from "./test-post-ops.ts";
import { type TestClock, TestRondo } from "./test-rondo.ts";

/** Options of `simulate`. */
export interface SimulateOptions<W extends AnyWorkflow = AnyWorkflow> {
  /**
   * How many seeds, from 1 on; or a list of seeds.
   *
   * @default 100
   */
  readonly seeds?: number | readonly number[];
  /** The input of every run. */
  readonly input: WorkflowInput<W>;
  /**
   * The number of nodes; 1 is one process over its own store.
   *
   * @default every other seed is a cluster of 2 to 4
   */
  readonly nodes?: number;
  /**
   * Further workflows whose handlers are served, such as children that the workflow only names; and topics.
   *
   * @default []
   */
  readonly workflows?: readonly (HostedWorkflow | HostedTopic)[];
  /**
   * Middleware around all code. The first one is the outermost.
   *
   * @default []
   */
  readonly use?: readonly Middleware<Partial<ContextExtensions>>[];
  /**
   * Signals by name. Each is sent once: when the execution waits for it, before time moves on.
   *
   * @default {}
   */
  readonly signals?: Readonly<Record<string, unknown>>;
  /**
   * The most crashes of one run. A task that is open at the fourth crash fails: see `retry.crashes`.
   *
   * @default 3
   */
  readonly crashesMax?: number;
  /**
   * The virtual time within which a run has to end.
   *
   * @default "400d"
   */
  readonly within?: Duration;
  /**
   * Answers broadcasts of commands with an HTTP status.
   *
   * @default answers 204
   */
  readonly target?: TestTarget;
  /**
   * Checks a run that has ended, and throws if something is wrong. If it is given, runs with faults may end differently from
   * the run without faults.
   *
   * @default none
   */
  readonly check?: (run: SimulatedRun<WorkflowOutput<W>>) => void | Promise<void>;
}

/** A run that has ended. */
export interface SimulatedRun<Output> {
  /** The seed of the run. */
  readonly seed: number;
  /** The number of nodes of the run. */
  readonly nodes: number;
  /** The execution at its end. */
  readonly execution: ExecutionView;
  /** The output of the execution; null if the execution is not done. */
  readonly output: Output | null;
  /** The journal. */
  readonly events: readonly PublicEvent[];
  /** The faults of the run. */
  readonly faults: Readonly<FaultCounts>;
  /** The broadcasts of commands in order. Each try is an entry of its own. */
  readonly broadcasts: readonly TestBroadcast[];
}

/** The totals over all runs. */
export interface SimulationSummary extends FaultCounts {
  /** All runs. */
  readonly runs: number;
  /** The number of runs with several nodes. */
  readonly clusterRuns: number;
}

/** Thrown by `simulate`: a check failed under this seed. Seed 0 is the run without faults. */
export class SimulationFailed extends Error {
  override name = "SimulationFailed";
  /** The seed. */
  readonly seed: number;

  /** Made by `simulate`. */
  constructor(seed: number, what: string, more: { readonly cause?: unknown; readonly events: string }) {
    super(
      `seed ${seed}: ${what}\n  replay: simulate(workflow, { seeds: [${seed}], ... })\n  its last events:\n${more.events}`,
      { cause: more.cause },
    );
    this.seed = seed;
  }
}

const ID = "simulated";
const STEPS_MAX = 50_000;
/** The most virtual time that broadcasts may take after the execution's end. */
const OWED_MS = 60_000;
const NOTHING: FaultCounts = { crashes: 0, failedCommits: 0, lostReplies: 0, pauses: 0, leaves: 0 };
/** All timers are kept in memory, so that a year of virtual time takes only as many steps as it has timers. */
const SETTINGS = { timerHorizonMs: 100 * 366 * 86_400_000, timersMax: 1_000_000 };
/** In a cluster, the engine waits for tasks that may still run at a dead node. */
const CLUSTER_SETTINGS = { ...SETTINGS, suspectMs: 30_000 };

/** The members of a test Rondo or test cluster that a simulation uses. */
type Simulated = Pick<TestCluster, "start" | "execution" | "events" | "settle" | "pass"> &
  AsyncDisposable & { readonly clock: TestClock };

/** Runs the workflow under each seed. Throws a `SimulationFailed` at the first seed that breaks a check. */
export async function simulateWorkflow<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W>,
  scripts: ScriptOptions,
): Promise<SimulationSummary> {
  const { seeds = 100 } = options;
  const all = typeof seeds === "number" ? Array.from({ length: seeds }, (_, i) => i + 1) : seeds;
  const summary = { ...NOTHING, runs: 0, clusterRuns: 0 };
  const expected =
    options.check === undefined ? await runOnce(workflow, { ...options, seed: 0 }, scripts) : null;
  if (expected !== null && expected.execution.status !== "done") throw failedWithoutFaults(expected);
  for (const seed of all) {
    const run = await runOnce(workflow, { ...options, seed }, scripts);
    try {
      if (expected !== null) checkSame(run, expected);
      await options.check?.(run);
    } catch (cause) {
      throw failed(seed, cause, run.events);
    }
    summary.runs++;
    if (run.nodes > 1) summary.clusterRuns++;
    for (const kind of Object.keys(NOTHING) as (keyof FaultCounts)[]) summary[kind] += run.faults[kind];
  }
  return summary;
}

/** Runs the workflow once to its end. With seed 0, no fault happens. */
async function runOnce<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W> & { readonly seed: number },
  scripts: ScriptOptions,
): Promise<SimulatedRun<WorkflowOutput<W>>> {
  const { seed, input } = options;
  const nodes = seed === 0 ? 1 : (options.nodes ?? nodesOf(seed));
  const postOps = new TestPostOps(options.target);
  const { t, faults } = await open(workflow, { ...options, nodes, postOps }, scripts);
  try {
    await start(t, workflow, input);
    // A client that got no answer repeats its start, so the simulation does that too.
    if (seed % 3 === 1) await start(t, workflow, input);
    await drive(t, options);
    // Gives broadcasts time to be sent.
    await t.clock.advance(OWED_MS);
    const execution = await status(t);
    const events = t.events(ID);
    checkJournal(events);
    const output = execution.output as WorkflowOutput<W> | null;
    const { broadcasts } = postOps;
    return { seed, nodes, execution, output, events, faults: faults.counts, broadcasts };
  } catch (cause) {
    throw cause instanceof SimulationFailed ? cause : failed(seed, cause, t.events(ID));
  } finally {
    await t[Symbol.asyncDispose]();
  }
}

/** Returns the number of nodes for a seed. Every other run is a cluster. */
function nodesOf(seed: number): number {
  return seed % 2 === 1 ? 1 : 2 + ((seed / 2) % 3);
}

/** Opens Rondo for a run: one process, or a cluster. */
async function open<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W> & {
    readonly seed: number;
    readonly nodes: number;
    readonly postOps: TestPostOps;
  },
  scripts: ScriptOptions,
): Promise<{ t: Simulated; faults: SimulatedFaults }> {
  const { seed, nodes, crashesMax = 3, workflows = [], postOps } = options;
  const random = new SeededRandom(seed);
  const faults = new SimulatedFaults(random.child("faults"), { crashesMax });
  const all = [workflow, ...workflows];
  const middleware = options.use ?? [];
  const common = { capacity: 100, settings: SETTINGS, onLog: () => {}, scripts, postOps, middleware };
  if (nodes > 1) {
    const tables = new MemoryTables({ random: random.child("store"), partitions: TEST_PARTITIONS });
    const ids = random.child("ids");
    return {
      t: await TestCluster.open(all, {
        ...common,
        settings: CLUSTER_SETTINGS,
        tables,
        nodes,
        random: ids,
        faults,
      }),
      faults,
    };
  }
  const tables = new MemoryTables({ random: random.child("store") });
  let t: TestRondo | null = null;
  const own = faults.of({ crash: () => void t?.crash() });
  t = new TestRondo(all, {
    ...common,
    tables,
    random: random.child("ids"),
    ...(seed === 0 ? {} : { faults: own }),
  });
  return { t, faults };
}

/** Makes the error for a run without faults that does not end as done: then the workflow itself fails, with any seed. */
function failedWithoutFaults({ execution, events }: SimulatedRun<unknown>): SimulationFailed {
  const { status, error } = execution;
  const at = [error?.phase, error?.handler].filter((name) => name !== undefined).join("/");
  const where = `${at === "" ? "" : ` in ${at}`}${error?.task === undefined ? "" : `, task ${error.task}`}`;
  const what = error === null ? status : `${status}${where}: ${error.code}: ${error.message}`;
  return new SimulationFailed(
    0,
    `the run without faults ended ${what}. Fix that first: time is virtual here, so a handler that waits by a real timer runs into its timeout (use sleep, or the clock of testRondo). If the workflow is meant to fail, give a check`,
    { events: lastEvents(events) },
  );
}

function failed(seed: number, cause: unknown, events: readonly PublicEvent[]): SimulationFailed {
  const what = cause instanceof Error ? cause.message : String(cause);
  return new SimulationFailed(seed, what, { cause, events: lastEvents(events) });
}

function lastEvents(events: readonly PublicEvent[]): string {
  return events
    .slice(-12)
    .map((event) => `    ${JSON.stringify(event).slice(0, 160)}`)
    .join("\n");
}

function start<W extends AnyWorkflow>(t: Simulated, workflow: W, input: WorkflowInput<W>): Promise<unknown> {
  return ask(t, () => t.start<W>(workflow, input as never, { id: ID }));
}

/** Repeats a request until it is answered. Virtual time passes meanwhile, and engines may crash. */
async function ask<T>(t: Simulated, make: () => Promise<T>): Promise<T> {
  for (let i = 0; i < 100; i++) {
    let outcome: { readonly value: T } | { readonly error: unknown } | null = null;
    make().then(
      (value) => {
        outcome = { value };
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    for (let turns = 0; outcome === null && turns < 1_000; turns++) {
      await t.settle();
      if (outcome === null) await t.clock.advance(100);
    }
    const ended = outcome as { readonly value: T } | { readonly error: unknown } | null;
    if (ended !== null && "value" in ended) return ended.value;
    const error = ended?.error;
    const isAskedAgain =
      error instanceof RondoError && ["not_ready", "not_owner", "store_unavailable"].includes(error.code);
    if (ended !== null && !isAskedAgain) throw error;
    await t.clock.advance(1_000);
  }
  throw new Error("no node answers");
}

/** Moves virtual time until the execution has ended. */
async function drive<W extends AnyWorkflow>(t: Simulated, options: SimulateOptions<W>): Promise<void> {
  const until = t.clock.now() + unwrap(parseDuration(options.within ?? "400d", "within"));
  const signals = new Map(Object.entries(options.signals ?? {}));
  for (let step = 0; step < STEPS_MAX; step++) {
    await t.settle();
    const last = t.events(ID).at(-1)?.kind ?? "";
    const mayHaveEnded = last.includes("finished") || last.includes("newest") || step % 50 === 0;
    const view = mayHaveEnded ? await status(t) : null;
    // An execution that has continued as another one has a successor, which begins a moment later.
    if (view !== null && view.finishedAt !== null && view.continuedAs === undefined) return;
    if (await sendAwaited(t, signals)) continue;
    if (t.clock.now() > until || !(await t.pass())) break;
  }
  throw new Error(`the execution did not end: ${await ask(t, () => t.execution(ID).why())}`);
}

/** Sends the first of the signals that the execution waits for. Returns false if it waits for none of them. */
async function sendAwaited(t: Simulated, signals: Map<string, unknown>): Promise<boolean> {
  if (signals.size === 0) return false;
  const awaited = await ask(t, () => t.execution(ID).awaits());
  const name = [...signals.keys()].find((one) => awaited.includes(one));
  if (name === undefined) return false;
  const data = signals.get(name);
  signals.delete(name);
  await ask(t, () => t.execution(ID).signal(name, data, { id: `simulated-${name}` }));
  return true;
}

function status(t: Simulated): Promise<ExecutionView> {
  return ask(t, () => t.execution(ID).describe());
}

/** The facts of a run that are checked for every workflow. */
interface Run {
  readonly execution: ExecutionView;
}

/** Checks that the journal has no gaps, counts each task once in a round, and ends once. */
function checkJournal(events: readonly PublicEvent[]): void {
  const settled = new Set<string>();
  let round = 1;
  events.forEach((event, i) => {
    if (event.seq !== i + 1) throw new Error(`event ${event.seq} comes after event ${i}`);
    const { kind } = event;
    if (kind.endsWith(".retried") || kind === "retried") round++;
    if (!kind.endsWith("tasks.settled")) return;
    for (const task of settledTasks(event)) {
      const key = `${round}/${task}`;
      if (settled.has(key)) throw new Error(`task ${task} is counted twice`);
      settled.add(key);
    }
  });
}

/** Checks that the run ended like the run without faults. */
function checkSame({ execution }: Run, { execution: expected }: Run): void {
  const { status, error } = execution;
  if (status !== expected.status)
    throw new Error(
      `the execution ended ${status}${error === null ? "" : ` (${error.message})`}, without faults it ends ${expected.status}`,
    );
  const output = JSON.stringify(execution.output);
  const without = JSON.stringify(expected.output);
  if (output !== without) throw new Error(`the output is ${output}, without faults it is ${without}`);
}

function settledTasks(event: PublicEvent): string[] {
  const { phase, visit, handler, tasks } = event as unknown as {
    readonly phase: string;
    readonly visit: number;
    readonly handler: string;
    readonly tasks: readonly unknown[];
  };
  if (!Array.isArray(tasks)) return [];
  return tasks.map((task) => {
    const number = Array.isArray(task)
      ? task[0]
      : typeof task === "object"
        ? (task as { n?: number }).n
        : task;
    return `${phase}.${visit}/${handler}#${String(number)}`;
  });
}
