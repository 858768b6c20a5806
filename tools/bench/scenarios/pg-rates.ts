/**
 * Rates and latency of one node over PostgreSQL, in process: a fan-out, executions of five steps, and starts. Each is measured
 * beside plain inserts over one connection in the same run. Node has the flags of the container image.
 */
import { chains, latencies, starts } from "../loads.ts";
import { type MeteredNode, openMeteredNode } from "../postgres/metered-node.ts";
import { queryAt } from "../postgres/query-at.ts";
import { RawInserts } from "../postgres/raw-postgres.ts";
import { type Bench, databaseOf, type Figures, NODE_FLAGS, type Scenario } from "../scenario.ts";
import { median, spread } from "../statistics.ts";
import { fan, ran, STEPS } from "../workflows.ts";

const RUNS = 5;
const WARM_UP_TASKS = 20_000;
const CHAINS_AT_A_TIME = 500;
/** The characters that a start stores: a journal entry and a head. */
const START_CHARS = 600;

export const pgFanout: Scenario = {
  name: "pg-fanout",
  about: "trivial tasks in one phase, synchronous_commit=on",
  goals: [
    { figure: "tasksPerSecond", label: "tasks/s", bound: "least", value: 60_000 },
    { figure: "ratioToRaw", label: "of plain batched inserts", bound: "least", value: 0.5 },
  ],
  parts: [runFanout],
  flags: NODE_FLAGS,
};

export const pgChain: Scenario = {
  name: "pg-chain",
  about: "executions of 5 steps, 500 at a time",
  goals: [{ figure: "stepsPerSecond", label: "steps/s", bound: "least", value: 20_000 }],
  parts: [runChain],
  flags: NODE_FLAGS,
};

export const pgLatency: Scenario = {
  name: "pg-latency",
  about: "executions of 5 steps, one at a time",
  goals: [{ figure: "p50Ms", label: "ms for 5 steps, p50", bound: "most", value: 8 }],
  parts: [runLatency],
  flags: NODE_FLAGS,
};

export const pgStarts: Scenario = {
  name: "pg-starts",
  about: "starts acknowledged as durable, 5,000 at a time",
  goals: [{ figure: "startsPerSecond", label: "starts/s", bound: "least", value: 30_000 }],
  parts: [runStarts],
  flags: NODE_FLAGS,
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

/** The seconds for the packed journal of the last execution, in as many inserts as there were commits. */
async function packedSeconds(
  raw: RawInserts,
  url: string,
  commits: number,
): Promise<{ seconds: number; bytes: number }> {
  const rows = await queryAt(
    url,
    "SELECT body FROM rondo.journal WHERE e = (SELECT max(e) FROM rondo.executions) ORDER BY seq",
  );
  const bodies = rows.map(({ body }) => String(body));
  await raw.empty();
  const seconds = await raw.seconds(bodies, Math.max(1, Math.ceil(bodies.length / commits)));
  return { seconds, bytes: bodies.reduce((sum, body) => sum + body.length, 0) };
}

/** The seconds for one execution with this many tasks. */
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
  return beside(bench, (node, raw) =>
    chains(bench, node, {
      executions,
      atATime: CHAINS_AT_A_TIME,
      raw: () => raw.rowsPerSecond(executions * STEPS, START_CHARS),
    }),
  );
}

async function runLatency(bench: Bench): Promise<Figures> {
  return beside(bench, (node, raw) =>
    latencies(bench, node, { name: "insert", ratio: "ratioToInsert", ms: () => raw.insertMs() }),
  );
}

async function runStarts(bench: Bench): Promise<Figures> {
  return beside(bench, (node, raw) => starts(bench, node, (total) => raw.rowsPerSecond(total, START_CHARS)));
}

/** A node, and beside it a connection for plain inserts. */
async function beside(
  bench: Bench,
  run: (node: MeteredNode, raw: RawInserts) => Promise<Figures>,
): Promise<Figures> {
  const node = await openMeteredNode(databaseOf(bench));
  const raw = await RawInserts.open(databaseOf(bench));
  const figures = await run(node, raw);
  await raw.close();
  await node.rondo.close();
  return figures;
}
