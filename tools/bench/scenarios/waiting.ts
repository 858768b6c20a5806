/** Executions that wait: how fast starts are durable, the cost of very many timers, and how soon a restart works. */
import { workflow } from "../../../src/index.ts";
import { startMany, starts as startsPerSecond } from "../loads.ts";
import { openMetered } from "../metered-rondo.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { sleeping, waiting } from "../workflows.ts";

const SETTLE_MS = 1_000;

const IDLE_GOAL = { figure: "idleCpuPercent", label: "idle CPU in %", bound: "most", value: 1 } as const;

export const starts: Scenario = {
  name: "starts",
  about: "starts acknowledged as durable, 5,000 at a time",
  goals: [{ figure: "startsPerSecond", label: "starts/s", bound: "least", value: 40_000 }],
  parts: [runStarts],
};

export const timers: Scenario = {
  name: "timers",
  about: "open executions with a timer each, and a restart after a kill",
  goals: [
    { figure: "peakRssMb", label: "peak RSS in MB", bound: "most", value: 400 },
    IDLE_GOAL,
    { figure: "restartSeconds", label: "s from restart to first dispatch", bound: "most", value: 3 },
  ],
  parts: [fillTimers, restart],
};

export const idle: Scenario = {
  name: "idle",
  about: "an open engine with nothing to do",
  goals: [IDLE_GOAL],
  parts: [runIdle],
};

async function runStarts(bench: Bench): Promise<Figures> {
  const metered = await openMetered(bench.directory);
  const figures = await startsPerSecond(bench, metered);
  await metered.rondo.close();
  return figures;
}

/** Leaves the store open, so that the next part restarts after a crash. */
async function fillTimers(bench: Bench): Promise<Figures> {
  const total = timersOf(bench);
  const { rondo, meter } = await openMetered(bench.directory);
  rondo.serve(sleeping);
  bench.progress(`starting ${total} executions that sleep for 10 hours`);
  const startsPerSecond = await bench.section(async () => {
    meter.reset();
    await startMany(rondo, sleeping, total);
    return total / meter.seconds;
  });
  return { timers: total, timerStartsPerSecond: startsPerSecond, ...(await idleFigures(bench)) };
}

/** The time from the start of a new process until a handler of a new execution runs. */
async function restart(bench: Bench): Promise<Figures> {
  const { rondo, store } = await openMetered(bench.directory);
  const openSeconds = performance.now() / 1_000;
  let restartSeconds = 0;
  const fresh = workflow({ name: "fresh" }).phase("work", {
    process() {
      restartSeconds = performance.now() / 1_000;
    },
  });
  rondo.serve(fresh, sleeping);
  await rondo.run(fresh, null);
  const total = timersOf(bench);
  const found = (await store.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: total + 1, partitions: null }))
    .length;
  if (found !== total) throw new Error(`${found} of ${total} timers are there after the restart`);
  await rondo.close();
  return { timersAfterRestart: found, openSeconds, restartSeconds };
}

async function runIdle(bench: Bench): Promise<Figures> {
  const { rondo } = await openMetered(bench.directory);
  rondo.serve(waiting);
  await startMany(rondo, waiting, 100);
  const figures = await bench.section(() => idleFigures(bench));
  await rondo.close();
  return figures;
}

function timersOf(bench: Bench): number {
  return bench.isShort ? 10_000 : 100_000;
}

/** The CPU time of the whole process over some quiet seconds, and its memory then. */
async function idleFigures(bench: Bench): Promise<Figures> {
  const ms = bench.isShort ? 2_000 : 10_000;
  bench.progress(`idle for ${ms / 1_000} s`);
  await sleep(SETTLE_MS);
  const before = process.cpuUsage();
  const from = performance.now();
  await sleep(ms);
  const { user, system } = process.cpuUsage(before);
  const idleCpuPercent = (user + system) / 10 / (performance.now() - from);
  return { idleSeconds: ms / 1_000, idleCpuPercent, idleRssMb: process.memoryUsage.rss() / 1_048_576 };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
