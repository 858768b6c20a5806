/** Jobs through `rondo start` and `rondo worker` as separate processes, asked by `rondo/client`, beside a bare HTTP server. */
import { fileURLToPath } from "node:url";
import { connect } from "../../../src/client/connect.ts";
import type { RemoteClient } from "../../../src/client.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { inParallel } from "../in-parallel.ts";
import type { Bench, Figures } from "../scenario.ts";
import { median, mediansOf, percentile, spread } from "../statistics.ts";
import type { Job } from "./job.ts";
import { RawServer } from "./raw-server.ts";
import { openRawStore } from "./raw-store.ts";
import { chain, fan, shortChain, single, taskOf, waiting } from "./workflows.ts";

const WORKFLOWS = fileURLToPath(new URL("./workflows.js", import.meta.url));
const CAPACITY = 2_000;
const AT_A_TIME = 100;
const BATCH = 1_000;
const CHAIN_COMMITS = 6;

/** How often a load is measured after it has warmed up. */
const runsOf = ({ isShort }: Bench): number => (isShort ? 1 : 3);

export const server: Job = {
  name: "server",
  about: "through a server and a worker over HTTP, each its own process",
  goals: [
    {
      figure: "chainP50Ms",
      label: "ms, p50, of a chain of 5",
      bound: "most",
      file: 6,
      postgres: 9,
      raw: { figure: "rawChainMs" },
    },
    {
      figure: "shortChainsPerSecond",
      label: "chains of 3 per second",
      bound: "least",
      file: 3_000,
      postgres: 2_000,
      raw: { figure: "rawRequestsPerSecond" },
    },
    {
      figure: "tasksPerSecond",
      label: "tasks/s",
      bound: "least",
      file: 60_000,
      postgres: 45_000,
      raw: { figure: "rawTasksPerSecond" },
    },
    {
      figure: "startsPerSecond",
      label: "starts/s, one by one",
      bound: "least",
      file: 8_000,
      postgres: 6_000,
      raw: { figure: "rawStartRequestsPerSecond" },
    },
    {
      figure: "startManyPerSecond",
      label: "starts/s by startMany",
      bound: "least",
      file: 50_000,
      postgres: 30_000,
      raw: { figure: "rawInsertsPerSecond" },
    },
  ],
  parts: [runServer],
};

/** Runs a load, and measures the time and the CPU of the server and of the worker for each item. */
type Measure = (name: string, items: number, run: () => Promise<unknown>) => Promise<Measured>;

interface Measured {
  readonly seconds: number;
  readonly cpu: Figures;
}

interface Load {
  /** The name of the load; its rate is the figure `<name>PerSecond`. */
  readonly name: string;
  readonly items: number;
  readonly run: (items: number) => Promise<unknown>;
  /** The figure of the raw limit, and how it is measured. */
  readonly raw: readonly [figure: string, measure: () => Promise<number>];
}

/** Runs a load and its raw limit once to warm up, then a few times in turn. Returns the medians of the rates, and the CPU of all runs. */
async function rateOf(bench: Bench, measure: Measure, load: Load): Promise<Figures> {
  const { name, items, run, raw } = load;
  const [rawFigure, measureRaw] = raw;
  await run(items);
  await measureRaw();
  const rates: number[] = [];
  const raws: number[] = [];
  const cpus: Figures[] = [];
  for (let i = 0; i < runsOf(bench); i++) {
    const { seconds, cpu } = await measure(name, items, () => run(items));
    rates.push(items / seconds);
    cpus.push(cpu);
    raws.push(await measureRaw());
  }
  return {
    [`${name}PerSecond`]: median(rates),
    [`${name}PerSecondSpread`]: spread(rates),
    [rawFigure]: median(raws),
    ...mediansOf(cpus),
  };
}

async function runServer(bench: Bench): Promise<Figures> {
  const processes: RondoProcess[] = [];
  const raw = await openRawStore(bench);
  const bare = await RawServer.start();
  try {
    const { server, url } = await RondoProcess.server(bench, bench.database ?? undefined);
    processes.push(server);
    const worker = await RondoProcess.worker(bench, url, CAPACITY, WORKFLOWS);
    processes.unshift(worker);
    const rondo = connect({ url });
    const measure: Measure = async (name, items, run) => {
      bench.progress(name);
      const before = [server.cpuMs(), worker.cpuMs()] as const;
      const from = performance.now();
      await run();
      const seconds = (performance.now() - from) / 1_000;
      const micros = (ms: number): number => (ms * 1_000) / items;
      return {
        seconds,
        cpu: {
          [`${name}ServerCpuMicros`]: micros(server.cpuMs() - before[0]),
          [`${name}WorkerCpuMicros`]: micros(worker.cpuMs() - before[1]),
        },
      };
    };
    return {
      ...(await runChain(bench, rondo, { raw, bare, measure })),
      ...(await runShortChains(bench, rondo, { bare, measure })),
      ...(await runTasks(bench, rondo, { raw, measure })),
      ...(await runStarts(bench, rondo, { raw, bare, measure })),
      serverPeakRssMb: server.peakRssMb(),
      workerPeakRssMb: worker.peakRssMb(),
    };
  } finally {
    await stopAll(processes);
    bare.stop();
    await raw.close();
  }
}

interface Tools {
  readonly raw: Awaited<ReturnType<typeof openRawStore>>;
  readonly bare: RawServer;
  readonly measure: Measure;
}

async function runChain(bench: Bench, rondo: RemoteClient, { raw, bare, measure }: Tools): Promise<Figures> {
  const runs = bench.isShort ? 100 : 500;
  for (let n = 0; n < runs; n++) await rondo.run(chain, taskOf(n));
  const times: number[] = [];
  const raws: number[] = [];
  const { cpu } = await measure("chain", runs, async () => {
    for (let n = 0; n < runs; n++) {
      const from = performance.now();
      await rondo.run(chain, taskOf(n));
      times.push(performance.now() - from);
      // A chain needs at least six commits, and a request for the start and for each step.
      raws.push(CHAIN_COMMITS * ((await raw.commitMs()) + (await bare.requestMs())));
    }
  });
  return {
    chains: runs,
    chainP50Ms: median(times),
    chainP99Ms: percentile(times, 0.99),
    rawChainMs: median(raws),
    ...cpu,
  };
}

async function runShortChains(
  bench: Bench,
  rondo: RemoteClient,
  { bare, measure }: Omit<Tools, "raw">,
): Promise<Figures> {
  const total = bench.isShort ? 500 : 5_000;
  const run = (many: number): Promise<void> =>
    inParallel(many, AT_A_TIME, (n) => rondo.run(shortChain, taskOf(n)));
  const raw = ["rawRequestsPerSecond", () => bare.requestsPerSecond(total, AT_A_TIME)] as const;
  return {
    shortChains: total,
    ...(await rateOf(bench, measure, { name: "shortChains", items: total, run, raw })),
  };
}

async function runTasks(
  bench: Bench,
  rondo: RemoteClient,
  { raw, measure }: Omit<Tools, "bare">,
): Promise<Figures> {
  const tasks = bench.isShort ? 20_000 : 100_000;
  const run = async (): Promise<void> => {
    const done = await rondo.run(fan, { tasks });
    if (done !== tasks) throw new Error(`${done} tasks were counted, not ${tasks}`);
  };
  const limit = ["rawTasksPerSecond", () => raw.tasksPerSecond(tasks)] as const;
  return { tasks, ...(await rateOf(bench, measure, { name: "tasks", items: tasks, run, raw: limit })) };
}

async function runStarts(bench: Bench, rondo: RemoteClient, { raw, bare, measure }: Tools): Promise<Figures> {
  const total = bench.isShort ? 1_000 : 10_000;
  const many = bench.isShort ? 5_000 : 50_000;
  await rondo.run(single, taskOf(0));
  const singly = (count: number): Promise<void> =>
    inParallel(count, AT_A_TIME, (n) => rondo.start(waiting, taskOf(n)));
  const alone = await rateOf(bench, measure, {
    ...{ name: "starts", items: total, run: singly },
    raw: ["rawStartRequestsPerSecond", () => bare.requestsPerSecond(total, AT_A_TIME)],
  });
  const together = async (count: number): Promise<void> => {
    const lanes = 2;
    await inParallel(count / BATCH, lanes, async (batch) => {
      const starts = Array.from({ length: BATCH }, (_, i) => ({ input: taskOf(batch * BATCH + i) }));
      const outcomes = await rondo.startMany(waiting, starts);
      if (outcomes.some(({ error }) => error !== null)) throw new Error("a start was refused");
    });
  };
  const bulk = await rateOf(bench, measure, {
    ...{ name: "startMany", items: many, run: together },
    raw: ["rawInsertsPerSecond", () => raw.startsPerSecond(many, BATCH)],
  });
  return { starts: total, ...alone, ...bulk };
}
