/** Jobs in one process: a fan-out, chains, steps, starts and visits. */
import { inParallel } from "../in-parallel.ts";
import type { Bench, Figures } from "../scenario.ts";
import { median, percentile, spread } from "../statistics.ts";
import { inProcess, type Job, type Opened } from "./job.ts";
import { chain, fan, loop, ran, single, stepped, taskOf, visited, waiting } from "./workflows.ts";

const AT_A_TIME = 100;
const STEPS = 5;
/** The fewest commits of a chain: its start, and one for each step. */
const CHAIN_COMMITS = STEPS + 1;
/** The fewest commits of a task with steps: its start, one for each step, and its receipt. */
const STEPS_COMMITS = STEPS + 2;
const FIRST_TASKS = 10_000;
const BATCH = 1_000;

const runsOf = ({ isShort }: Bench): number => (isShort ? 2 : 5);

export const fanOut: Job = {
  name: "fan-out",
  about: "tasks of one phase",
  goals: [goal("tasksPerSecond", "tasks/s", [150_000, 110_000], "rawTasksPerSecond")],
  parts: [inProcess(runFanOut)],
};

export const first: Job = {
  name: "first",
  about: "the first 10,000 tasks of a fresh process",
  goals: [goal("tasksPerSecond", "tasks/s", [60_000, 40_000], "rawTasksPerSecond")],
  parts: [inProcess(runFirst)],
  times: 3,
};

export const chains: Job = {
  name: "chains",
  about: "executions of 5 phases, 100 at a time",
  goals: [goal("chainsPerSecond", "chains/s", [8_000, 5_000], "rawChainsPerSecond")],
  parts: [inProcess(runChains)],
};

export const chainLatency: Job = {
  name: "chain",
  about: "one execution of 5 phases at a time, beside six raw commits",
  goals: [latency("p50Ms", "ms, p50, of a chain of 5", "rawCommitsMs")],
  parts: [inProcess((bench, opened) => runSingly(bench, opened, chain, CHAIN_COMMITS))],
};

export const steps: Job = {
  name: "steps",
  about: "one execution with five step() calls in its task at a time, beside seven raw commits",
  goals: [latency("p50Ms", "ms, p50, of five steps", "rawCommitsMs")],
  parts: [inProcess((bench, opened) => runSingly(bench, opened, stepped, STEPS_COMMITS))],
};

export const starts: Job = {
  name: "starts",
  about: "durable starts, 100 at a time, and by startMany",
  goals: [
    goal("startsPerSecond", "starts/s", [45_000, 30_000], "rawStartsPerSecond"),
    {
      ...goal("startManyPerSecond", "starts/s by startMany", [80_000, 50_000], "rawInsertsPerSecond"),
      raw: { figure: "rawInsertsPerSecond", share: 0.5 },
    },
  ],
  parts: [inProcess(runStarts)],
};

export const visits: Job = {
  name: "visits",
  about: "one phase of one execution, visited 10,000 times",
  goals: [
    {
      figure: "lastToFirst",
      label: "cost of the last visits, times the first",
      bound: "most",
      file: 1.2,
      postgres: 1.2,
    },
  ],
  parts: [inProcess(runVisits)],
};

/** A least rate, over files and over PostgreSQL, and the figure with its raw limit. */
function goal(figure: string, label: string, [file, postgres]: readonly [number, number], raw: string) {
  return { figure, label, bound: "least", file, postgres, raw: { figure: raw } } as const;
}

function latency(figure: string, label: string, raw: string) {
  return { figure, label, bound: "most", raw: { figure: raw, share: 1.3 } } as const;
}

/** Runs tasks in one execution; returns the seconds. */
export async function tasksIn({ rondo, meter }: Opened, work: typeof fan, tasks: number): Promise<number> {
  ran.count = 0;
  meter.reset();
  const done = await rondo.run(work, { tasks });
  const { seconds } = meter;
  if (done !== tasks || ran.count !== tasks)
    throw new Error(`${ran.count} tasks were processed and ${done} counted, not ${tasks}`);
  return seconds;
}

async function runFanOut(bench: Bench, opened: Opened): Promise<Figures> {
  const { rondo, meter } = opened;
  const raw = await opened.openRaw();
  const tasks = bench.isShort ? 20_000 : 100_000;
  rondo.serve(fan);
  await tasksIn(opened, fan, tasks);
  await raw.tasksPerSecond(tasks / 5);
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < runsOf(bench); i++) {
    bench.progress(`run ${i + 1} of ${runsOf(bench)}`);
    raws.push(await raw.tasksPerSecond(tasks));
    rates.push(tasks / (await bench.section(() => tasksIn(opened, fan, tasks))));
  }
  return { tasks, ...rate("tasks", rates), rawTasksPerSecond: median(raws), ...meter.figures(tasks) };
}

async function runFirst(bench: Bench, opened: Opened): Promise<Figures> {
  opened.rondo.serve(fan);
  const seconds = await bench.section(() => tasksIn(opened, fan, FIRST_TASKS));
  const figures = opened.meter.figures(FIRST_TASKS);
  const raw = await opened.openRaw();
  const rawTasksPerSecond = await raw.tasksPerSecond(FIRST_TASKS);
  return { tasks: FIRST_TASKS, tasksPerSecond: FIRST_TASKS / seconds, rawTasksPerSecond, ...figures };
}

async function runChains(bench: Bench, { rondo, meter, openRaw }: Opened): Promise<Figures> {
  const raw = await openRaw();
  const executions = bench.isShort ? 1_000 : 5_000;
  rondo.serve(chain);
  const run = (many: number): Promise<void> =>
    inParallel(many, AT_A_TIME, (n) => rondo.run(chain, taskOf(n)));
  await run(executions);
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < runsOf(bench); i++) {
    bench.progress(`run ${i + 1} of ${runsOf(bench)}`);
    raws.push(await raw.chainsPerSecond(executions, STEPS, AT_A_TIME));
    ran.count = 0;
    meter.reset();
    await bench.section(() => run(executions));
    rates.push(executions / meter.seconds);
    if (ran.count !== executions * STEPS) throw new Error(`${ran.count} steps were processed`);
  }
  return {
    executions,
    ...rate("chains", rates),
    rawChainsPerSecond: median(raws),
    ...meter.figures(executions),
  };
}

async function runSingly(
  bench: Bench,
  { rondo, meter, openRaw }: Opened,
  work: typeof chain | typeof stepped,
  commits: number,
): Promise<Figures> {
  const raw = await openRaw();
  const executions = bench.isShort ? 150 : 1_000;
  rondo.serve(work);
  const run = (n: number): Promise<unknown> => rondo.run<typeof chain>(work as typeof chain, taskOf(n));
  for (let n = 0; n < executions; n++) await run(n);
  const times: number[] = [];
  const raws: number[] = [];
  await bench.section(async () => {
    meter.reset();
    for (let n = 0; n < executions; n++) {
      const from = performance.now();
      await run(n);
      times.push(performance.now() - from);
      raws.push(await raw.commitMs());
    }
  });
  const figures = meter.figures(executions);
  return {
    executions,
    p50Ms: median(times),
    p99Ms: percentile(times, 0.99),
    rawCommitMs: median(raws),
    rawCommitsMs: commits * median(raws),
    commitsPerExecution: (figures["commits"] as number) / executions,
    ...figures,
  };
}

async function runStarts(bench: Bench, { rondo, meter, openRaw }: Opened): Promise<Figures> {
  const raw = await openRaw();
  const total = bench.isShort ? 10_000 : 50_000;
  rondo.serve(waiting);
  const singly = (many: number): Promise<void> =>
    inParallel(many, AT_A_TIME, (n) => rondo.start(waiting, taskOf(n)));
  const together = async (many: number): Promise<void> => {
    for (let n = 0; n < many; n += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, many - n) }, (_, i) => ({ input: taskOf(n + i) }));
      const outcomes = await rondo.startMany(waiting, batch);
      if (outcomes.some(({ error }) => error !== null)) throw new Error("a start was refused");
    }
  };
  const loads = [
    { name: "starts", run: singly, perCommit: AT_A_TIME, raw: "rawStartsPerSecond" },
    { name: "startMany", run: together, perCommit: BATCH, raw: "rawInsertsPerSecond" },
  ];
  let figures: Figures = { starts: total };
  for (const load of loads) {
    await load.run(total / 5);
    const rates: number[] = [];
    const raws: number[] = [];
    for (let i = 0; i < runsOf(bench); i++) {
      bench.progress(`${load.name}, run ${i + 1} of ${runsOf(bench)}`);
      raws.push(await raw.startsPerSecond(total, load.perCommit));
      meter.reset();
      await bench.section(() => load.run(total));
      rates.push(total / meter.seconds);
    }
    const { cpuMicrosPerItem } = meter.figures(total);
    figures = {
      ...figures,
      ...rate(load.name, rates),
      [load.raw]: median(raws),
      [`${load.name}CpuMicros`]: cpuMicrosPerItem as number,
    };
  }
  return figures;
}

async function runVisits(bench: Bench, { rondo }: Opened): Promise<Figures> {
  const total = bench.isShort ? 1_000 : 10_000;
  const window = total / 20;
  rondo.serve(loop, single);
  await inParallel(total, 1, (n) => rondo.run(single, taskOf(n)));
  visited.length = 0;
  await bench.section(() => rondo.run(loop, { visits: total }));
  if (visited.length !== total) throw new Error(`there were ${visited.length} visits`);
  /** The median milliseconds of the visits from one to another. */
  const cost = (from: number): number =>
    median(visited.slice(from + 1, from + window).map((at, i) => at - (visited[from + i] as number)));
  const [first, middle, last] = [cost(0), cost(Math.floor(total / 10)), cost(total - window)];
  return {
    visits: total,
    firstVisitMs: first,
    tenthVisitMs: middle,
    lastVisitMs: last,
    lastToFirst: last / first,
  };
}

function rate(name: string, rates: readonly number[]): Figures {
  return { [`${name}PerSecond`]: median(rates), [`${name}PerSecondSpread`]: spread(rates) };
}
