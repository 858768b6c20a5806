/// <reference lib="esnext.disposable" />
/** `rondo/testing`: workflows under test, in memory, with a clock that the test moves and crashes that it causes. */
import { scriptsOf } from "./compose.ts";
import type { LogLine } from "./local/local-rondo.ts";
import { SeededRandom } from "./std/random.ts";
import { MemoryTables } from "./store/memory/memory-tables.ts";
import { TestRondo } from "./testing/test-rondo.ts";
import type { HostedWorkflow } from "./worker/handler-code.ts";

export type { TestClock, TestRondo } from "./testing/test-rondo.ts";

/** What to test, and how. */
export interface TestOptions {
  /** The workflows whose handlers are served, again after each crash. */
  readonly workflows: readonly HostedWorkflow[];
  /** Names the run: ids made up are the same for the same seed. */
  readonly seed?: number | string;
  /** Items in flight at the worker. */
  readonly capacity?: number;
  /** Gets what handlers log. */
  readonly onLog?: (line: LogLine) => void;
  /** Runs scripts without the outer layer of their sandbox where it cannot be had. For trusted scripts only. */
  readonly unsafeNoJail?: boolean;
}

/** All timers are kept in memory, so that a year passes in as many steps as it has timers. */
const SETTINGS = { timerHorizonMs: 100 * 366 * 86_400_000, timersMax: 1_000_000 };

/**
 * Opens a Rondo to test workflows with: in memory, deterministic, without real time.
 *
 * Time stands still unless `t.clock.advance` moves it. So for a workflow that sleeps, retries or waits, hold the
 * promise of `t.run(...)` or `execution.result()`, advance the clock, then await what you hold:
 *
 *     const output = t.run(nightly, { bucket: "b" });
 *     await t.clock.advance("1d");
 *     expect(await output).toEqual(...);
 *
 * Handlers run as they are. Promises and `setImmediate` in them are let run before time moves; real timers and real
 * I/O are not waited for: use `t.clock.after` instead, or resolve a promise of your own. Scripts run for real, in their
 * sandbox: await the result.
 */
export async function testRondo(options: TestOptions): Promise<TestRondo> {
  const random = new SeededRandom(options.seed ?? 1);
  const t = new TestRondo(options.workflows, {
    tables: new MemoryTables({ random: random.child("store") }),
    random: random.child("ids"),
    capacity: options.capacity ?? 2_000,
    settings: SETTINGS,
    onLog: options.onLog ?? (() => {}),
    scripts: scriptsOf(options.unsafeNoJail === true),
  });
  await t.settle();
  return t;
}
