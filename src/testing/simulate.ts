/**
 * A user's workflow under seeds: its own handlers run, in one process over a store in memory, while the process dies at
 * its commits and starts again, commits fail, answers are lost and requests are repeated. Each run must end as one
 * without faults does; its journal must only grow and count every task once; and what the user says must hold.
 */
import type { PublicEvent } from "../kernel/public-event.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import { type Duration, parseDuration } from "../std/duration.ts";
import { SeededRandom } from "../std/random.ts";
import { RondoError, unwrap } from "../std/rejection.ts";
import { MemoryTables } from "../store/memory/memory-tables.ts";
import type { HostedWorkflow } from "../worker/handler-code.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";
import { checkJournal, checkSame } from "./simulated-checks.ts";
import { type FaultCounts, SimulatedFaults } from "./simulated-faults.ts";
import { TestRondo } from "./test-rondo.ts";

/** What to simulate. */
export interface SimulateOptions<W extends AnyWorkflow = AnyWorkflow> {
  /** How many seeds, from 1 on (default 100); or which. */
  readonly seeds?: number | readonly number[];
  readonly input: WorkflowInput<W>;
  /** Other workflows whose handlers are served, such as children that are named only. */
  readonly workflows?: readonly HostedWorkflow[];
  /** Sent, each once, whenever nothing else can happen: by the names of signals. */
  readonly signals?: Readonly<Record<string, unknown>>;
  /** Crashes in one run at most (default 3: a task that is open at the fourth is given up, see `retry.crashes`). */
  readonly crashesMax?: number;
  /** Virtual time within which it has to end (default 400d). */
  readonly within?: Duration;
  /** Throws if something does not hold. With it, runs need not end as one without faults does. */
  readonly check?: (run: SimulatedRun<WorkflowOutput<W>>) => void | Promise<void>;
}

/** One run, when it is over. */
export interface SimulatedRun<Output> {
  readonly seed: number;
  readonly execution: ExecutionView;
  readonly output: Output | null;
  readonly events: readonly PublicEvent[];
  readonly faults: Readonly<FaultCounts>;
}

/** All runs. */
export interface SimulationSummary extends FaultCounts {
  readonly runs: number;
}

/** Something did not hold, under this seed. */
export class SimulationFailed extends Error {
  override name = "SimulationFailed";
  readonly seed: number;

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

/** Runs the workflow under each seed; throws a `SimulationFailed` at the first that breaks. */
export async function simulateWorkflow<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W>,
  scripts: ScriptOptions,
): Promise<SimulationSummary> {
  const { seeds = 100 } = options;
  const all = typeof seeds === "number" ? Array.from({ length: seeds }, (_, i) => i + 1) : seeds;
  const summary = { runs: 0, crashes: 0, failedCommits: 0, lostReplies: 0 };
  const expected =
    options.check === undefined ? await runOnce(workflow, { ...options, seed: 0 }, scripts) : null;
  for (const seed of all) {
    const run = await runOnce(workflow, { ...options, seed }, scripts);
    try {
      if (expected !== null) checkSame(run, expected);
      await options.check?.(run);
    } catch (cause) {
      throw failed(seed, cause, run.events);
    }
    summary.runs++;
    summary.crashes += run.faults.crashes;
    summary.failedCommits += run.faults.failedCommits;
    summary.lostReplies += run.faults.lostReplies;
  }
  return summary;
}

/** One run to its end; seed 0: nothing goes wrong. */
async function runOnce<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W> & { readonly seed: number },
  scripts: ScriptOptions,
): Promise<SimulatedRun<WorkflowOutput<W>>> {
  const { seed, input, crashesMax = 3 } = options;
  const random = new SeededRandom(seed);
  const tables = new MemoryTables({ random: random.child("store") });
  let t: TestRondo | null = null;
  const faults = new SimulatedFaults(random.child("faults"), {
    crashesMax,
    crash: () => void t?.crash(),
  });
  t = new TestRondo([workflow, ...(options.workflows ?? [])], {
    tables,
    random: random.child("ids"),
    capacity: 100,
    settings: {},
    onLog: () => {},
    scripts,
    ...(seed === 0 ? {} : { faults }),
  });
  try {
    await start(t, workflow, input);
    // Whoever got no answer asks again.
    if (seed % 3 === 1) await start(t, workflow, input);
    await drive(t, options);
    const execution = await status(t);
    const events = t.events(ID);
    checkJournal(events);
    const output = execution.output as WorkflowOutput<W> | null;
    return { seed, execution, output, events, faults: faults.counts };
  } catch (cause) {
    throw cause instanceof SimulationFailed ? cause : failed(seed, cause, t.events(ID));
  } finally {
    await t[Symbol.asyncDispose]();
  }
}

function failed(seed: number, cause: unknown, events: readonly PublicEvent[]): SimulationFailed {
  const last = events.slice(-12).map((event) => `    ${JSON.stringify(event).slice(0, 160)}`);
  const what = cause instanceof Error ? cause.message : String(cause);
  return new SimulationFailed(seed, what, { cause, events: last.join("\n") });
}

function start<W extends AnyWorkflow>(t: TestRondo, workflow: W, input: WorkflowInput<W>): Promise<unknown> {
  return ask(t, () => t.start<W>(workflow, input as never, { id: ID }));
}

/** Asks until there is an answer: time passes meanwhile, and engines die. */
async function ask<T>(t: TestRondo, make: () => Promise<T>): Promise<T> {
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
      error instanceof RondoError && ["not_ready", "store_unavailable"].includes(error.code);
    if (ended !== null && !isAskedAgain) throw error;
  }
  throw new Error("nobody answers");
}

/** Lets time pass until the execution has ended. */
async function drive<W extends AnyWorkflow>(t: TestRondo, options: SimulateOptions<W>): Promise<void> {
  const until = t.clock.now() + unwrap(parseDuration(options.within ?? "400d", "within"));
  const signals = new Map(Object.entries(options.signals ?? {}));
  for (let step = 0; step < STEPS_MAX; step++) {
    await t.settle();
    const last = t.events(ID).at(-1);
    const view = last?.kind.includes("finished") === true || step % 50 === 0 ? await status(t) : null;
    if (view !== null && view.finishedAt !== null) return;
    const [signal] = signals;
    if (step % 20 === 19 && signal !== undefined) {
      signals.delete(signal[0]);
      await ask(t, () => t.execution(ID).signal(signal[0], signal[1], { id: `simulated-${signal[0]}` }));
    }
    const ms = t.nextAt - t.clock.now();
    if (ms === Number.POSITIVE_INFINITY && signals.size === 0) break;
    if (t.clock.now() > until) break;
    await t.clock.advance(Math.max(1, Math.min(ms, 86_400_000)));
  }
  throw new Error(`it did not end: ${await ask(t, () => t.execution(ID).why())}`);
}

function status(t: TestRondo): Promise<ExecutionView> {
  return ask(t, () => t.execution(ID).status());
}
