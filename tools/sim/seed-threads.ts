/** Runs seeds on all cores. Reports come in the order of the seeds, whichever thread is done first. */

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { compiledFile } from "../../src/std/compiled-file.ts";
import type { Happening } from "./faults.ts";
import { type RunOptions, replayLine, runAnySeed, shrink } from "./run.ts";

/** One seed to run, as sent to a thread. */
export interface SeedRun extends Omit<RunOptions, "show"> {
  /** Whether to run the seed twice and compare the traces. */
  readonly twice: boolean;
  /** Whether to search for a smaller run that still fails. */
  readonly shrinks: boolean;
}

export interface SeedReport {
  readonly seed: number;
  readonly hash: string;
  readonly violation: string | null;
  readonly kinds: readonly string[];
  /** The count of each happening. */
  readonly happened: ReadonlyMap<Happening, number>;
  /** The command line that repeats the run, if it broke an invariant. */
  readonly replay: string | null;
}

export async function reportOf({ twice, shrinks, ...run }: SeedRun): Promise<SeedReport> {
  const { hash, violation, kinds, happened } = await runAnySeed(run);
  const report = { seed: run.seed, hash, violation, kinds: [...kinds], happened, replay: null };
  if (violation !== null) return { ...report, replay: shrinks ? replayLine(shrink(run)) : null };
  const again = twice ? (await runAnySeed(run)).hash : hash;
  if (again === hash) return report;
  return {
    ...report,
    violation: `two runs differ: ${hash} and ${again}`,
    replay: `rondo sim --from ${run.seed} --seeds 1 --twice`,
  };
}

interface Thread {
  readonly worker: Worker;
  /** The number of its runs without a report. */
  open: number;
}

/** The number of runs that a thread has queued, so that it never waits for the next one. */
const AHEAD = 2;

/** Runs seeds on this many threads; ends early when `onReport` returns false. */
export async function runSeeds(
  runs: Iterable<SeedRun>,
  options: { readonly threads?: number; readonly onReport: (report: SeedReport) => boolean },
): Promise<void> {
  const { onReport, threads = availableParallelism() } = options;
  const queue = runs[Symbol.iterator]();
  if (threads <= 1) {
    for (let next = queue.next(); next.done !== true; next = queue.next())
      if (!onReport(await reportOf(next.value))) return;
    return;
  }
  await new Promise<void>((resolve, reject) => {
    const reports = new Map<number, SeedReport>();
    const order: number[] = [];
    const all = new Set<Thread>();
    const end = (error?: Error) => {
      for (const { worker } of all) void worker.terminate();
      all.clear();
      if (error === undefined) resolve();
      else reject(error);
    };
    const feed = (thread: Thread) => {
      while (thread.open < AHEAD) {
        const next = queue.next();
        if (next.done === true) break;
        thread.open++;
        order.push(next.value.seed);
        thread.worker.postMessage(next.value);
      }
    };
    const take = (thread: Thread, report: SeedReport) => {
      if (!all.has(thread)) return;
      thread.open--;
      reports.set(report.seed, report);
      for (let seed = order[0]; seed !== undefined; seed = order[0]) {
        const ready = reports.get(seed);
        if (ready === undefined) break;
        order.shift();
        reports.delete(seed);
        if (!onReport(ready)) return end();
      }
      feed(thread);
      if (order.length === 0) end();
    };
    for (let i = 0; i < threads; i++) {
      const thread: Thread = {
        worker: new Worker(compiledFile("./seed-thread.js", import.meta.url), { execArgv: [] }),
        open: 0,
      };
      all.add(thread);
      thread.worker.on("message", (report: SeedReport) => take(thread, report));
      thread.worker.on("error", (error: Error) => end(error));
      thread.worker.on("exit", (code) => {
        if (all.has(thread)) end(new Error(`a thread of the simulator ended with ${code}`));
      });
      feed(thread);
    }
    if (order.length === 0) end();
  });
}
