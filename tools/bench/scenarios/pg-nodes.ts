/**
 * Nodes of a cluster over one database: two that share the load, one that takes over from a node that was killed or stopped,
 * and one that is idle.
 */
import pg from "pg";
import { connect } from "../../../src/client/connect.ts";
import { openRondo, type Rondo, workflow } from "../../../src/index.ts";
import { RondoProcess } from "../http/rondo-process.ts";
import { inParallel } from "../in-parallel.ts";
import { startMany } from "../loads.ts";
import { type Load, NodeProcess } from "../postgres/node-process.ts";
import { queryAt } from "../postgres/query-at.ts";
import { RawInserts } from "../postgres/raw-postgres.ts";
import { type Bench, databaseOf, type Figures, type Scenario } from "../scenario.ts";
import { median, spread } from "../statistics.ts";
import { STEPS, sleeping } from "../workflows.ts";

const PAIRS = 5;
const CHAINS_AT_A_TIME = 400;
const SHARE_MS = 60_000;
const ASK_MS = 250;
/** The number of executions of the node that ends. */
const LEFT = 200;
const ENDS = 3;
/** How long executions sleep. They wake while the lease of the killed node still runs. */
const NAP_MS = 8_000;
const TAKE_OVER_MS = 60_000;
const SETTLE_MS = 3_000;
/** The time for garbage collection after the load. */
const TIDY_MS = 10_000;

export const pgTwoNodes: Scenario = {
  name: "pg-two-nodes",
  about: "the same load on one node and shared by two, in turns",
  goals: [
    { figure: "chainTimesOfOne", label: "steps/s, times those of one node", bound: "least", value: 1 },
    { figure: "fanoutTimesOfOne", label: "tasks/s, times those of one node", bound: "least", value: 1 },
  ],
  parts: [runTwoNodes],
};

export const pgTakeover: Scenario = {
  name: "pg-takeover",
  about: "executions of a node that ends: until another runs the first of them",
  goals: [
    { figure: "killSeconds", label: "s after kill -9 (lease 10 s)", bound: "most", value: 12 },
    { figure: "endSeconds", label: "s after SIGTERM", bound: "most", value: 1 },
  ],
  parts: [runKill, runEnd],
};

export const pgIdle: Scenario = {
  name: "pg-idle",
  about: "a node with very many open executions and nothing to do",
  goals: [
    { figure: "statementsPerSecond", label: "statements/s at the database", bound: "most", value: 3 },
    { figure: "idleCpuPercent", label: "idle CPU in %", bound: "most", value: 1 },
  ],
  parts: [runIdle],
};

async function runTwoNodes(bench: Bench): Promise<Figures> {
  const url = databaseOf(bench);
  const executions = bench.isShort ? 1_000 : 4_000;
  const tasks = bench.isShort ? 20_000 : 100_000;
  const raw = await RawInserts.open(url);
  const nodes = await Promise.all([NodeProcess.start(url), NodeProcess.start(url)]);
  try {
    bench.progress("waiting until both have their share of the partitions");
    await untilShared(url);
    const chains = (share: number): Load => ({
      kind: "chains",
      executions: executions / share,
      atATime: CHAINS_AT_A_TIME / share,
    });
    const fanouts = (share: number): Load => ({ kind: "tasks", tasks: tasks / share });
    for (const node of nodes) await node.run(chains(1));
    for (const node of nodes) await node.run(fanouts(2));
    const chain = await inTurns(bench, nodes, chains);
    const fanout = await inTurns(bench, nodes, fanouts);
    return {
      pairs: PAIRS,
      chainTimesOfOne: median(chain.times),
      chainTimesOfOneSpread: spread(chain.times),
      stepsPerSecondOfOne: (executions * STEPS) / median(chain.one),
      stepsPerSecondOfTwo: (executions * STEPS) / median(chain.two),
      fanoutTimesOfOne: median(fanout.times),
      fanoutTimesOfOneSpread: spread(fanout.times),
      tasksPerSecondOfOne: tasks / median(fanout.one),
      tasksPerSecondOfTwo: tasks / median(fanout.two),
      rawTasksPerSecond: await raw.tasksPerSecond(tasks),
    };
  } finally {
    await Promise.all(nodes.map((node) => node.stop()));
    await raw.close();
  }
}

/** The same load on one node and on both, several times, each equally often first. */
async function inTurns(
  bench: Bench,
  nodes: readonly NodeProcess[],
  load: (share: number) => Load,
): Promise<{ one: number[]; two: number[]; times: number[] }> {
  const byOne = (i: number): Promise<number> => seconds(() => (nodes[i % 2] as NodeProcess).run(load(1)));
  const byTwo = (): Promise<number> =>
    seconds(() => Promise.all(nodes.map((node) => node.run(load(nodes.length)))));
  const one: number[] = [];
  const two: number[] = [];
  for (let i = 0; i < PAIRS; i++) {
    bench.progress(`pair ${i + 1} of ${PAIRS}`);
    if (i % 2 === 1) two.push(await byTwo());
    one.push(await byOne(i));
    if (i % 2 === 0) two.push(await byTwo());
  }
  return { one, two, times: one.map((alone, i) => alone / (two[i] as number)) };
}

/** Resolves when each node has at least a quarter of the partitions. */
async function untilShared(url: string): Promise<void> {
  const until = performance.now() + SHARE_MS;
  for (;;) {
    const owners = await queryAt(url, "SELECT count(*)::int AS had FROM rondo.partitions GROUP BY owner");
    const had = owners.map((row) => Number(row["had"]));
    const all = had.reduce((sum, count) => sum + count, 0);
    if (had.length === 2 && Math.min(...had) >= all / 4) return;
    if (performance.now() > until) throw new Error(`two nodes share the partitions as ${had.join(" to ")}`);
    await sleep(ASK_MS);
  }
}

async function runKill(bench: Bench): Promise<Figures> {
  return { killSeconds: await takeOver(bench, "SIGKILL") };
}

async function runEnd(bench: Bench): Promise<Figures> {
  const ends: number[] = [];
  for (let i = 0; i < (bench.isShort ? 1 : ENDS); i++) ends.push(await takeOver(bench, "SIGTERM"));
  return { ends: ends.length, endSeconds: median(ends), endSecondsSpread: spread(ends) };
}

/**
 * The seconds from the end of a node until code of its executions runs in this process. If the node is killed, its executions
 * sleep until a time at which they have no owner, because attempts that may have begun are awaited by design; the first one
 * counts. If the node is stopped, its executions have work that no worker can do until then; the last one counts, so that each
 * was taken over.
 */
async function takeOver(bench: Bench, signal: "SIGKILL" | "SIGTERM"): Promise<number> {
  const url = databaseOf(bench);
  let left = signal === "SIGKILL" ? 1 : LEFT;
  let began = (): void => {};
  const taken = new Promise<void>((resolve) => {
    began = () => void (--left === 0 && resolve());
  });
  const empty = workflow<{ n: number }>({ name: signal === "SIGKILL" ? "asleep" : "ready" });
  const flow = (signal === "SIGKILL" ? empty.sleep("nap", NAP_MS) : empty).phase("work", {
    process: () => began(),
  });
  const { server, url: at } = await RondoProcess.server(bench, url);
  let rondo: Rondo | null = null;
  try {
    const client = connect({ url: at });
    await inParallel(LEFT, LEFT, (n) => client.start(flow, { n }));
    rondo = await openRondo({ store: url });
    if (signal === "SIGKILL") rondo.serve(flow);
    bench.progress(`${LEFT} executions are at a node that gets ${signal}`);
    await sleep(SETTLE_MS);
    return await seconds(async () => {
      server.signal(signal);
      if (signal === "SIGTERM") rondo?.serve(flow);
      await inTime(taken, TAKE_OVER_MS);
    });
  } finally {
    await server.stop();
    await rondo?.close();
  }
}

async function runIdle(bench: Bench): Promise<Figures> {
  const url = databaseOf(bench);
  const open = bench.isShort ? 10_000 : 100_000;
  const rondo = await openRondo({ store: url });
  rondo.serve(sleeping);
  bench.progress(`starting ${open} executions that sleep for 10 hours`);
  await startMany(rondo, sleeping, open);
  await queryAt(url, "VACUUM ANALYZE");
  await sleep(TIDY_MS);
  const ms = bench.isShort ? 5_000 : 20_000;
  bench.progress(`idle for ${ms / 1_000} s`);
  const meter = meterStatements();
  const cpu = process.cpuUsage();
  const took = await bench.section(() => seconds(() => sleep(ms)));
  const { user, system } = process.cpuUsage(cpu);
  const { sent } = meter;
  await rondo.close();
  return {
    open,
    idleSeconds: took,
    statementsPerSecond: sent / took,
    idleCpuPercent: (user + system) / 10_000 / took,
  };
}

/** Counts the statements that this process sends from now on. */
function meterStatements(): { sent: number } {
  const meter = { sent: 0 };
  const query = Reflect.get(pg.Client.prototype, "query") as (...args: unknown[]) => unknown;
  const counted = function (this: pg.Client, ...args: unknown[]): unknown {
    meter.sent++;
    return query.apply(this, args);
  };
  Reflect.set(pg.Client.prototype, "query", counted);
  return meter;
}

async function seconds(run: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await run();
  return (performance.now() - from) / 1_000;
}

async function inTime(done: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`nothing was taken over in ${ms / 1_000} s`)), ms);
  });
  await Promise.race([done, late]).finally(() => clearTimeout(timer));
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
