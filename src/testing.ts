/// <reference lib="esnext.disposable" />
/** `rondo/testing`: workflows under test, in memory, with a clock that the test moves and crashes that it causes. */
import { scriptsOf } from "./compose/compose.ts";
import { anyFunction, anyObject, type Called, checkOptions } from "./protocol/check-options.ts";
import { checkWorkflow } from "./sdk/check.ts";
import type { ContextExtensions } from "./sdk/context.ts";
import type { LogLine } from "./sdk/log-line.ts";
import type { AnyWorkflow } from "./sdk/workflow.ts";
import { anything, type Decode, flag, integer, object, optional, where } from "./std/decode.ts";
import { parseDuration } from "./std/duration.ts";
import { SeededRandom } from "./std/random.ts";
import { isRejection, type Rejection, RondoError } from "./std/rejection.ts";
import { MemoryTables } from "./store/memory/memory-tables.ts";
import { type SimulateOptions, type SimulationSummary, simulateWorkflow } from "./testing/simulate.ts";
import { TestPostOps, type TestTarget } from "./testing/test-post-ops.ts";
import { TestRondo } from "./testing/test-rondo.ts";
import type { HostedTopic, HostedWorkflow, Middleware } from "./worker/handler-code.ts";

export {
  type SimulatedRun,
  type SimulateOptions,
  SimulationFailed,
  type SimulationSummary,
} from "./testing/simulate.ts";
export type { FaultCounts } from "./testing/simulated-faults.ts";
export type { TestBroadcast, TestTarget } from "./testing/test-post-ops.ts";
export type { TestClock, TestRondo } from "./testing/test-rondo.ts";

/** Options of `testRondo`. */
export interface TestOptions {
  /** The workflows and topics that are served, also after each crash. */
  readonly workflows: readonly (HostedWorkflow | HostedTopic)[];
  /**
   * The seed of all randomness: the same seed makes the same ids.
   *
   * @default 1
   */
  readonly seed?: number | string;
  /**
   * The most tasks that the worker holds at a time.
   *
   * @default 2_000
   */
  readonly capacity?: number;
  /**
   * Middleware around all code, also after each crash. The first one is the outermost.
   *
   * @default []
   */
  readonly use?: readonly Middleware<Partial<ContextExtensions>>[];
  /**
   * Called with each line that a handler logs.
   *
   * @default none
   */
  readonly onLog?: (line: LogLine) => void;
  /**
   * Answers broadcasts of commands with an HTTP status. `t.broadcasts` contains the sent broadcasts.
   *
   * @default answers 204
   */
  readonly target?: TestTarget;
  /**
   * Runs scripts without the outer layer of their sandbox, if the machine does not support it. Only for trusted scripts.
   *
   * @default false
   */
  readonly unsafeNoJail?: boolean;
}

const middlewareList = where(
  "a list of functions",
  (value) => Array.isArray(value) && value.every((one) => typeof one === "function"),
);
const workflowList = where("a list of workflows and topics", Array.isArray);

const TEST = {
  name: "testRondo",
  example: "testRondo({ workflows: [mine] })",
  options: object(
    {
      workflows: workflowList,
      seed: optional(where("a number or a text", (value) => ["number", "string"].includes(typeof value))),
      capacity: optional(integer(1)),
      use: optional(middlewareList),
      onLog: anyFunction,
      target: anyFunction,
      unsafeNoJail: optional(flag),
    } satisfies Readonly<Record<keyof TestOptions, Decode<unknown>>>,
    { what: "testRondo" },
  ),
} satisfies Called;

const SIMULATE = {
  name: "simulate",
  example: "simulate(mine, { seeds: 100, input: {} })",
  options: object(
    {
      seeds: optional(
        where("a whole number, or a list of them", (value) =>
          [value].flat().every((seed) => Number.isSafeInteger(seed) && (seed as number) >= 0),
        ),
      ),
      input: anything,
      nodes: optional(integer(1)),
      workflows: optional(workflowList),
      use: optional(middlewareList),
      signals: anyObject,
      crashesMax: optional(integer()),
      within: optional(
        where('a duration such as "30d"', (value) => !isRejection(parseDuration(value, "within"))),
      ),
      target: anyFunction,
      check: anyFunction,
    } satisfies Readonly<Record<keyof SimulateOptions, Decode<unknown>>>,
    { what: "simulate" },
  ),
} satisfies Called;

/** All timers are kept in memory, so that a year of virtual time takes only as many steps as it has timers. */
const SETTINGS = { timerHorizonMs: 100 * 366 * 86_400_000, timersMax: 1_000_000 };

/**
 * Opens a Rondo to test workflows with: in memory, deterministic, without real time.
 *
 * Time stands still unless `t.clock.advance` moves it. So for a workflow that sleeps, retries or waits, hold the
 * promise of `t.run(...)` or `execution.result()`, advance the clock, then await the promise.
 *
 * Handlers run as they are. Promises and `setImmediate` in them are let run before time moves; real timers and real
 * I/O are not waited for: use `t.clock.after` instead, or resolve a promise of your own. Scripts run for real, in their
 * sandbox: await the result.
 *
 * @throws RondoError if an option or a definition is wrong
 * @example
 * await using t = await testRondo({ workflows: [nightly] });
 * const output = t.run(nightly, { bucket: "b" });
 * await t.clock.advance("1d");
 * expect(await output).toEqual({ copied: 3 });
 */
export async function testRondo(options: TestOptions): Promise<TestRondo> {
  refuse(checkOptions(options, TEST));
  const random = new SeededRandom(options.seed ?? 1);
  const t = new TestRondo(options.workflows, {
    tables: new MemoryTables({ random: random.child("store") }),
    random: random.child("ids"),
    capacity: options.capacity ?? 2_000,
    settings: SETTINGS,
    middleware: options.use ?? [],
    onLog: options.onLog ?? (() => {}),
    scripts: scriptsOf(options.unsafeNoJail === true),
    postOps: new TestPostOps(options.target),
    openApi: async (parts) => (await import("./compose/compose-server.ts")).openForTest(parts),
  });
  await t.settle();
  return t;
}

/**
 * Runs a workflow with its real handlers under many seeds, each with another history of faults.
 *
 * Simulated: time; the process dying before and after its commits and starting again (so attempts run again, also while
 * the code of the first one still runs); commits that fail; answers that are lost; a start that is asked for twice. Every
 * other seed is a cluster of 2 to 4 nodes over one store (`nodes` fixes their number), which also stand still for longer
 * than their leases, leave in good order and come back.
 * Checked: the run ends with the status and output of a run without faults (or your `check` accepts its end); the journal
 * has no gaps and counts each task once.
 * Not simulated: workers in other processes, and calls of your handlers to other services: mock them, or give the run test
 * doubles. Promises and `setImmediate` in handlers run as usual; real timers are not awaited.
 *
 * @throws SimulationFailed with the seed of the first run that breaks
 * @throws RondoError if an option is wrong
 * @example await simulate(nightly, { seeds: 200, input: { bucket: "b" } });
 */
export async function simulate<W extends AnyWorkflow>(
  workflow: W & HostedWorkflow,
  options: SimulateOptions<W>,
): Promise<SimulationSummary> {
  checkWorkflow(workflow);
  refuse(checkOptions(options, SIMULATE));
  return simulateWorkflow(workflow, options, scriptsOf(false));
}

function refuse(refused: Rejection | null): void {
  if (refused !== null) throw new RondoError(refused);
}
