/**
 * The same loads on 1, 2 or 4 nodes over one database. On a machine with few cores the rates are flat, so the CPU time of nodes and
 * database for each task and chain, the transactions and the bytes of the write-ahead log carry the extrapolation (docs/scaling.md).
 */

import { type Load, NodeProcess } from "../postgres/node-process.ts";
import { queryAt } from "../postgres/query-at.ts";
import { cpuMsOf } from "../process-cpu.ts";
import { type Bench, databaseOf, type Figures, NODE_FLAGS, type Scenario } from "../scenario.ts";

const COUNTS = [1, 2, 4] as const;
const CHAINS_AT_A_TIME = 100;
const SHARE_MS = 120_000;
const ASK_MS = 250;
/** The database counts transactions with a delay of a second. */
const COUNTED_MS = 1_500;

/** A scenario for each number of nodes; they run only if they are named. */
export const nodeScenarios: readonly Scenario[] = COUNTS.map((count) => ({
  name: `real-nodes-${count}-postgres`,
  job: `nodes-${count}`,
  about: `tasks and chains on ${count} ${count === 1 ? "node" : "nodes"} over one database`,
  store: "postgres",
  goals: [],
  parts: [(bench) => runNodes(bench, count)],
  flags: NODE_FLAGS,
  isLong: true,
}));

async function runNodes(bench: Bench, count: number): Promise<Figures> {
  const url = databaseOf(bench);
  // Cold code takes several times the CPU time of warm code, so each of four nodes needs enough work to become warm.
  const tasks = bench.isShort ? 20_000 : 600_000;
  const executions = bench.isShort ? 400 : 24_000;
  const nodes: NodeProcess[] = [];
  try {
    for (let i = 0; i < count; i++) nodes.push(await NodeProcess.start(url));
    bench.progress("waiting until each node has its share of the partitions");
    await untilShared(url, count);
    const chains = (all: number): Load => ({
      kind: "chains",
      executions: Math.ceil(all / count),
      atATime: Math.ceil(CHAINS_AT_A_TIME / count),
      isReal: true,
    });
    const fanOut = (all: number): Load => ({ kind: "tasks", tasks: Math.ceil(all / count), isReal: true });
    for (const warmUp of [fanOut(tasks / 5), chains(executions / 5)])
      await Promise.all(nodes.map((node) => node.run(warmUp)));
    bench.progress(`${tasks} tasks`);
    const byTask = await measure(url, nodes, fanOut(tasks));
    bench.progress(`${executions} chains of five`);
    const byChain = await measure(url, nodes, chains(executions));
    return {
      nodes: count,
      tasks,
      tasksPerSecond: tasks / byTask.seconds,
      nodeCpuMicrosPerTask: (byTask.nodeCpuMs * 1_000) / tasks,
      databaseCpuMicrosPerTask: (byTask.databaseCpuMs * 1_000) / tasks,
      transactionsPer1000Tasks: (byTask.transactions * 1_000) / tasks,
      logBytesPerTask: byTask.logBytes / tasks,
      chains: executions,
      chainsPerSecond: executions / byChain.seconds,
      nodeCpuMicrosPerChain: (byChain.nodeCpuMs * 1_000) / executions,
      databaseCpuMicrosPerChain: (byChain.databaseCpuMs * 1_000) / executions,
      transactionsPerChain: byChain.transactions / executions,
      logBytesPerChain: byChain.logBytes / executions,
      logBytesPerTransaction: byChain.logBytes / byChain.transactions,
    };
  } finally {
    await Promise.all(nodes.map((node) => node.stop()));
  }
}

interface Used {
  readonly nodeCpuMs: number;
  readonly databaseCpuMs: number;
  readonly transactions: number;
  readonly logBytes: number;
}

/** Runs the load on all nodes at once; returns the seconds, and what nodes and database used for it. */
async function measure(
  url: string,
  nodes: readonly NodeProcess[],
  load: Load,
): Promise<Used & { readonly seconds: number }> {
  await sleep(COUNTED_MS);
  const before = await usedBy(url, nodes);
  const from = performance.now();
  await Promise.all(nodes.map((node) => node.run(load)));
  const seconds = (performance.now() - from) / 1_000;
  await sleep(COUNTED_MS);
  const after = await usedBy(url, nodes);
  return {
    seconds,
    nodeCpuMs: after.nodeCpuMs - before.nodeCpuMs,
    databaseCpuMs: after.databaseCpuMs - before.databaseCpuMs,
    transactions: after.transactions - before.transactions,
    logBytes: after.logBytes - before.logBytes,
  };
}

async function usedBy(url: string, nodes: readonly NodeProcess[]): Promise<Used> {
  const [row] = await queryAt(
    url,
    `SELECT xact_commit::bigint AS transactions, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text AS bytes
     FROM pg_stat_database WHERE datname = current_database()`,
  );
  const servers = await queryAt(url, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
  return {
    nodeCpuMs: sum(nodes.map(({ pid }) => cpuMsOf(pid))),
    databaseCpuMs: sum(servers.map(({ pid }) => cpuMsOf(Number(pid)))),
    transactions: Number(row?.["transactions"]),
    logBytes: Number(row?.["bytes"]),
  };
}

/** Resolves when each node has at least half of its fair share of the partitions. */
async function untilShared(url: string, count: number): Promise<void> {
  const until = performance.now() + SHARE_MS;
  for (;;) {
    const owners = await queryAt(
      url,
      "SELECT count(*)::int AS had FROM rondo.partitions WHERE owner IS NOT NULL GROUP BY owner",
    );
    const had = owners.map((row) => Number(row["had"]));
    if (had.length === count && Math.min(...had) >= sum(had) / count / 2) return;
    if (performance.now() > until)
      throw new Error(`${count} nodes share the partitions as ${had.join(" to ")}`);
    await sleep(ASK_MS);
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
