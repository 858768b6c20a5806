/**
 * One phase of many trivial tasks, processed in this process. It measures the rate beside the cost of the same rows without an
 * engine. With ten times as many tasks it measures the memory, and whether the time grows linearly, also if some tasks fail
 * first.
 */
import { workflow } from "../../../src/index.ts";
import { type MeteredRondo, openMetered } from "../metered-rondo.ts";
import { rawTasksPerSecond } from "../raw-disk.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { median, spread } from "../statistics.ts";

const RUNS = 5;
const TENTH_RUNS = 3;
const WARM_UP_TASKS = 5_000;
const PROGRESS_MS = 2_000;

const RSS_GOAL = { figure: "peakRssMb", label: "peak RSS in MB", bound: "most", value: 250 } as const;
const TIMES_GOAL = {
  figure: "timesOfTenth",
  label: "time, times that of a tenth of the tasks",
  bound: "most",
  value: 11,
} as const;

export const fanout: Scenario = {
  name: "fanout",
  about: "trivial tasks in one phase, durable",
  goals: [
    { figure: "tasksPerSecond", label: "tasks/s", bound: "least", value: 100_000 },
    { figure: "ratioToRaw", label: "of the raw rate", bound: "least", value: 0.35 },
  ],
  parts: [runFanout],
};

export const million: Scenario = {
  name: "million",
  about: "ten times as many tasks",
  goals: [RSS_GOAL, TIMES_GOAL],
  parts: [(bench) => runMillion(bench, false)],
};

export const retries: Scenario = {
  name: "retries",
  about: "as many, 10 % fail once and are retried",
  goals: [RSS_GOAL, TIMES_GOAL],
  parts: [(bench) => runMillion(bench, true)],
};

let processed = 0;

const plain = workflow<{ tasks: number }>({ name: "fanout" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield { n };
    },
    process({ task }) {
      processed++;
      return { n: task.n };
    },
  })
  .returns(({ phases }) => phases.work.count);

const failing = workflow<{ tasks: number }>({ name: "fanout-retries" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield { n };
    },
    retry: { attempts: 2, backoff: "constant", min: 100 },
    process({ task, attempt }) {
      if (attempt === 1 && task.n % 10 === 3) throw new Error(`task ${task.n} fails once`);
      processed++;
      return { n: task.n };
    },
  })
  .returns(({ phases }) => phases.work.count);

async function runFanout(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 20_000 : 100_000;
  const open = await openMetered(bench.directory);
  open.rondo.serve(plain);
  await runTasks(bench, open, { tasks: WARM_UP_TASKS, fails: false });
  rawTasksPerSecond(bench.directory, WARM_UP_TASKS);
  const raw: number[] = [];
  const rates: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    bench.progress(`run ${i + 1} of ${RUNS}`);
    raw.push(rawTasksPerSecond(bench.directory, tasks));
    rates.push(tasks / (await bench.section(() => runTasks(bench, open, { tasks, fails: false }))));
  }
  const figures = open.meter.figures(tasks);
  await open.rondo.close();
  const ratios = rates.map((rate, i) => rate / (raw[i] as number));
  return {
    tasks,
    runs: RUNS,
    tasksPerSecond: median(rates),
    tasksPerSecondSpread: spread(rates),
    rawTasksPerSecond: median(raw),
    rawTasksPerSecondSpread: spread(raw),
    ratioToRaw: median(ratios),
    ratioToRawSpread: spread(ratios),
    ...figures,
  };
}

async function runMillion(bench: Bench, fails: boolean): Promise<Figures> {
  const tasks = bench.isShort ? 100_000 : 1_000_000;
  const open = await openMetered(bench.directory);
  open.rondo.serve(plain, failing);
  await runTasks(bench, open, { tasks: WARM_UP_TASKS, fails });
  const tenth: number[] = [];
  for (let i = 0; i < TENTH_RUNS; i++) tenth.push(await runTasks(bench, open, { tasks: tasks / 10, fails }));
  const seconds = await bench.section(() => runTasks(bench, open, { tasks, fails }));
  const figures = open.meter.figures(tasks);
  await open.rondo.close();
  return {
    tasks,
    seconds,
    secondsOfTenth: median(tenth),
    secondsOfTenthSpread: spread(tenth),
    timesOfTenth: seconds / median(tenth),
    tasksPerSecond: tasks / seconds,
    ...figures,
  };
}

/** The seconds for one execution with this many tasks. */
async function runTasks(
  bench: Bench,
  { rondo, meter }: MeteredRondo,
  { tasks, fails }: { tasks: number; fails: boolean },
): Promise<number> {
  processed = 0;
  meter.reset();
  const timer = setInterval(() => bench.progress(`${processed} of ${tasks} tasks`), PROGRESS_MS);
  const done = await rondo.run(fails ? failing : plain, { tasks });
  const { seconds } = meter;
  clearInterval(timer);
  if (done !== tasks || processed !== tasks)
    throw new Error(`${processed} tasks were processed and ${done} counted, not ${tasks}`);
  return seconds;
}
