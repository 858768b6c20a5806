/**
 * Rates and latency of one node over PostgreSQL, in process: a fan-out, executions of five steps, and starts. Each
 * beside what plain inserts over one connection reach in the same run.
 */
import { inParallel } from "../in-parallel.ts";
import { ask } from "../postgres/databases.ts";
import { type MeteredNode, openMeteredNode } from "../postgres/metered-node.ts";
import { RawInserts } from "../postgres/raw-postgres.ts";
import { fan, ran, STEPS, steps, waiting } from "../postgres/workflows.ts";
import { type Bench, databaseOf, type Figures, type Scenario } from "../scenario.ts";
import { median, percentile, spread } from "../statistics.ts";

const RUNS = 5;
const WARM_UP_TASKS = 20_000;
const WARM_UP_EXECUTIONS = 1_000;
const CHAINS_AT_A_TIME = 500;
const STARTS_AT_A_TIME = 5_000;
/** What a start stores, in characters: a journal entry and a head. */
const START_CHARS = 600;

export const pgFanout: Scenario = {
  name: "pg-fanout",
  about: "trivial tasks in one phase, synchronous_commit=on",
  goals: [
    { figure: "tasksPerSecond", label: "tasks/s", bound: "least", value: 60_000 },
    { figure: "ratioToRaw", label: "of plain batched inserts", bound: "least", value: 0.5 },
  ],
  parts: [runFanout],
};

export const pgChain: Scenario = {
  name: "pg-chain",
  about: "executions of 5 steps, 500 at a time",
  goals: [{ figure: "stepsPerSecond", label: "steps/s", bound: "least", value: 20_000 }],
  parts: [runChain],
};

export const pgLatency: Scenario = {
  name: "pg-latency",
  about: "executions of 5 steps, one at a time",
  goals: [{ figure: "p50Ms", label: "ms for 5 steps, p50", bound: "most", value: 8 }],
  parts: [runLatency],
};

export const pgStarts: Scenario = {
  name: "pg-starts",
  about: "starts acknowledged as durable, 5,000 at a time",
  goals: [{ figure: "startsPerSecond", label: "starts/s", bound: "least", value: 30_000 }],
  parts: [runStarts],
};

async function runFanout(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 20_000 : 100_000;
  const node = await openMeteredNode(databaseOf(bench));
  node.rondo.serve(fan);
  const raw = await RawInserts.open(databaseOf(bench));
  await runTasks(node, WARM_UP_TASKS);
  await raw.tasksPerSecond(WARM_UP_TASKS);
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    bench.progress(`run ${i + 1} of ${RUNS}`);
    await raw.empty();
    raws.push(await raw.tasksPerSecond(tasks));
    rates.push(tasks / (await bench.section(() => runTasks(node, tasks))));
  }
  const figures = node.meter.figures(tasks);
  const packed = await packedSeconds(raw, databaseOf(bench), figures["commits"] as number);
  await raw.close();
  await node.rondo.close();
  const ratios = rates.map((rate, i) => rate / (raws[i] as number));
  return {
    tasks,
    runs: RUNS,
    tasksPerSecond: median(rates),
    tasksPerSecondSpread: spread(rates),
    rawTasksPerSecond: median(raws),
    rawTasksPerSecondSpread: spread(raws),
    ratioToRaw: median(ratios),
    ratioToRawSpread: spread(ratios),
    packedTasksPerSecond: tasks / packed.seconds,
    journalBytesPerTask: packed.bytes / tasks,
    ...figures,
  };
}

/** Seconds for the journal of the last execution, as it is packed, in as many inserts as there were commits. */
async function packedSeconds(
  raw: RawInserts,
  url: string,
  commits: number,
): Promise<{ seconds: number; bytes: number }> {
  const rows = await ask(
    url,
    "SELECT body FROM rondo.journal WHERE e = (SELECT max(e) FROM rondo.executions) ORDER BY seq",
  );
  const bodies = rows.map(({ body }) => String(body));
  await raw.empty();
  const seconds = await raw.seconds(bodies, Math.max(1, Math.ceil(bodies.length / commits)));
  return { seconds, bytes: bodies.reduce((sum, body) => sum + body.length, 0) };
}

/** Seconds for one execution of so many tasks. */
async function runTasks({ rondo, meter }: MeteredNode, tasks: number): Promise<number> {
  ran.count = 0;
  meter.reset();
  const done = await rondo.run(fan, { tasks });
  const { seconds } = meter;
  if (done !== tasks || ran.count !== tasks)
    throw new Error(`${ran.count} tasks were processed and ${done} counted, not ${tasks}`);
  return seconds;
}

async function runChain(bench: Bench): Promise<Figures> {
  const executions = bench.isShort ? 1_000 : 5_000;
  const { rondo, meter } = await openMeteredNode(databaseOf(bench));
  rondo.serve(steps);
  const raw = await RawInserts.open(databaseOf(bench));
  const run = (total: number): Promise<void> =>
    inParallel(total, CHAINS_AT_A_TIME, (n) => rondo.run(steps, { n }));
  await run(WARM_UP_EXECUTIONS);
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    bench.progress(`run ${i + 1} of ${RUNS}`);
    raws.push(await raw.rowsPerSecond(executions * STEPS, START_CHARS));
    ran.count = 0;
    await bench.section(async () => {
      meter.reset();
      await run(executions);
      rates.push((executions * STEPS) / meter.seconds);
    });
    if (ran.count !== executions * STEPS) throw new Error(`${ran.count} steps were processed`);
  }
  const figures = meter.figures(executions * STEPS);
  await raw.close();
  await rondo.close();
  return {
    executions,
    runs: RUNS,
    steps: ran.count,
    stepsPerSecond: median(rates),
    stepsPerSecondSpread: spread(rates),
    rawRowsPerSecond: median(raws),
    ratioToRaw: median(rates.map((rate, i) => rate / (raws[i] as number))),
    ...figures,
  };
}

async function runLatency(bench: Bench): Promise<Figures> {
  const executions = bench.isShort ? 100 : 500;
  const { rondo, meter } = await openMeteredNode(databaseOf(bench));
  rondo.serve(steps);
  const raw = await RawInserts.open(databaseOf(bench));
  await inParallel(executions / 2, 1, (n) => rondo.run(steps, { n }));
  const runs: number[] = [];
  const inserts: number[] = [];
  await bench.section(async () => {
    meter.reset();
    await inParallel(executions, 1, async (n) => {
      const from = performance.now();
      await rondo.run(steps, { n });
      runs.push(performance.now() - from);
      inserts.push(await raw.insertMs());
    });
  });
  const figures = meter.figures(executions * STEPS);
  await raw.close();
  await rondo.close();
  return {
    executions,
    p50Ms: median(runs),
    p99Ms: percentile(runs, 0.99),
    insertP50Ms: median(inserts),
    insertP99Ms: percentile(inserts, 0.99),
    ratioToInsert: median(runs) / median(inserts),
    commitsPerExecution: (figures["commits"] as number) / executions,
    ...figures,
  };
}

async function runStarts(bench: Bench): Promise<Figures> {
  const total = bench.isShort ? 10_000 : 50_000;
  const { rondo, meter } = await openMeteredNode(databaseOf(bench));
  rondo.serve(waiting);
  const raw = await RawInserts.open(databaseOf(bench));
  const start = (many: number): Promise<void> =>
    inParallel(many, STARTS_AT_A_TIME, (n) => rondo.start(waiting, { n }));
  await start(total / 5);
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    bench.progress(`run ${i + 1} of ${RUNS}`);
    raws.push(await raw.rowsPerSecond(total, START_CHARS));
    await bench.section(async () => {
      meter.reset();
      await start(total);
      rates.push(total / meter.seconds);
    });
  }
  const figures = meter.figures(total);
  await raw.close();
  await rondo.close();
  return {
    starts: total,
    runs: RUNS,
    startsPerSecond: median(rates),
    startsPerSecondSpread: spread(rates),
    rawRowsPerSecond: median(raws),
    ratioToRaw: median(rates.map((rate, i) => rate / (raws[i] as number))),
    ...figures,
  };
}
