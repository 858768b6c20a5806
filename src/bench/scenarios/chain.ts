/** Executions of five steps, each a phase of one task: many at a time for the rate, one at a time for the latency. */
import { workflow } from "../../index.ts";
import { inParallel } from "../in-parallel.ts";
import { openMetered } from "../metered-rondo.ts";
import { SyncProbe } from "../raw-disk.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { median, percentile, spread } from "../statistics.ts";

const RUNS = 5;
const STEPS = 5;
const AT_A_TIME = 100;
/** Until the code is compiled: short runs would measure the compiler. */
const WARM_UP_EXECUTIONS = 1_000;

export const chain: Scenario = {
  name: "chain",
  about: "executions of 5 steps, 100 at a time",
  goals: [{ figure: "stepsPerSecond", label: "steps/s", bound: "least", value: 30_000 }],
  parts: [runChain],
};

export const latency: Scenario = {
  name: "latency",
  about: "executions of 5 steps, one at a time",
  goals: [{ figure: "ratioToFdatasync", label: "p50, times one fdatasync", bound: "most", value: 15 }],
  parts: [runLatency],
};

let processed = 0;
const step = {
  process: ({ input }: { input: { n: number } }) => {
    processed++;
    return { n: input.n };
  },
};

const steps = workflow<{ n: number }>({ name: "steps" })
  .phase("one", step)
  .phase("two", step)
  .phase("three", step)
  .phase("four", step)
  .phase("five", step);

async function runChain(bench: Bench): Promise<Figures> {
  const executions = bench.isShort ? 200 : 1_000;
  const { rondo, meter } = await openMetered(bench.directory);
  rondo.serve(steps);
  const run = (total: number): Promise<void> => inParallel(total, AT_A_TIME, (n) => rondo.run(steps, { n }));
  await run(WARM_UP_EXECUTIONS);
  const rates: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    processed = 0;
    await bench.section(async () => {
      meter.reset();
      await run(executions);
      rates.push((executions * STEPS) / meter.seconds);
    });
    if (processed !== executions * STEPS) throw new Error(`${processed} steps were processed`);
  }
  const figures = meter.figures(executions * STEPS);
  await rondo.close();
  return {
    executions,
    runs: RUNS,
    steps: processed,
    stepsPerSecond: median(rates),
    stepsPerSecondSpread: spread(rates),
    ...figures,
  };
}

async function runLatency(bench: Bench): Promise<Figures> {
  const executions = bench.isShort ? 100 : 500;
  const { rondo, meter } = await openMetered(bench.directory);
  rondo.serve(steps);
  await inParallel(executions / 2, 1, (n) => rondo.run(steps, { n }));
  const probe = new SyncProbe(bench.directory);
  const runs: number[] = [];
  const syncs: number[] = [];
  await bench.section(async () => {
    meter.reset();
    await inParallel(executions, 1, async (n) => {
      const from = performance.now();
      await rondo.run(steps, { n });
      runs.push(performance.now() - from);
      syncs.push(probe.time());
    });
  });
  const figures = meter.figures(executions * STEPS);
  probe.close();
  await rondo.close();
  return {
    executions,
    p50Ms: median(runs),
    p99Ms: percentile(runs, 0.99),
    fdatasyncP50Ms: median(syncs),
    fdatasyncP99Ms: percentile(syncs, 0.99),
    ratioToFdatasync: median(runs) / median(syncs),
    commitsPerExecution: (figures["commits"] as number) / executions,
    ...figures,
  };
}
