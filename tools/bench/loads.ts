/** Loads that are the same over every store: executions of five steps, many or one at a time, and starts. */
import type { AnyWorkflow, Rondo } from "../../src/index.ts";
import { inParallel } from "./in-parallel.ts";
import type { Meter } from "./metered-rondo.ts";
import type { Bench, Figures } from "./scenario.ts";
import { median, percentile, spread } from "./statistics.ts";
import { ran, STEPS, steps, waiting } from "./workflows.ts";

const RUNS = 5;
const STARTS_AT_A_TIME = 5_000;
/** Runs until the code is compiled: short runs would measure the compiler. */
const WARM_UP_EXECUTIONS = 3_000;

interface Metered {
  readonly rondo: Rondo;
  readonly meter: Meter;
}

/** Starts `total` waiting executions, 5,000 at a time; resolves when all are durable. */
export function startMany(rondo: Rondo, what: AnyWorkflow, total: number): Promise<void> {
  return inParallel(total, STARTS_AT_A_TIME, (n) => rondo.start(what, { n }));
}

/** Measures steps per second. `raw` measures the store without an engine before each run. */
export async function chains(
  bench: Bench,
  { rondo, meter }: Metered,
  load: { executions: number; atATime: number; raw?: () => Promise<number> },
): Promise<Figures> {
  const { executions, atATime, raw } = load;
  const total = executions * STEPS;
  rondo.serve(steps);
  const run = (many: number): Promise<void> => inParallel(many, atATime, (n) => rondo.run(steps, { n }));
  await run(WARM_UP_EXECUTIONS);
  const { rates, raws } = await inRuns(bench, meter, {
    total,
    raw,
    run: async () => {
      ran.count = 0;
      await run(executions);
      if (ran.count !== total) throw new Error(`${ran.count} steps were processed`);
    },
  });
  return {
    executions,
    runs: RUNS,
    steps: total,
    stepsPerSecond: median(rates),
    stepsPerSecondSpread: spread(rates),
    ...besideRaw(rates, raws),
    ...meter.figures(total),
  };
}

/** Measures executions one after the other, and beside each the time of `probe`, under this name. */
export async function latencies(
  bench: Bench,
  { rondo, meter }: Metered,
  probe: { readonly name: string; readonly ratio: string; readonly ms: () => number | Promise<number> },
): Promise<Figures> {
  const executions = bench.isShort ? 100 : 500;
  rondo.serve(steps);
  await inParallel(executions / 2, 1, (n) => rondo.run(steps, { n }));
  const times: number[] = [];
  const probes: number[] = [];
  await bench.section(async () => {
    meter.reset();
    await inParallel(executions, 1, async (n) => {
      const from = performance.now();
      await rondo.run(steps, { n });
      times.push(performance.now() - from);
      probes.push(await probe.ms());
    });
  });
  const figures = meter.figures(executions * STEPS);
  return {
    executions,
    p50Ms: median(times),
    p99Ms: percentile(times, 0.99),
    [`${probe.name}P50Ms`]: median(probes),
    [`${probe.name}P99Ms`]: percentile(probes, 0.99),
    [probe.ratio]: median(times) / median(probes),
    commitsPerExecution: (figures["commits"] as number) / executions,
    ...figures,
  };
}

/** Measures starts per second. `raw` is as for `chains`. */
export async function starts(
  bench: Bench,
  { rondo, meter }: Metered,
  raw?: (total: number) => Promise<number>,
): Promise<Figures> {
  const total = bench.isShort ? 10_000 : 50_000;
  rondo.serve(waiting);
  await startMany(rondo, waiting, total / 5);
  const run = (): Promise<void> => startMany(rondo, waiting, total);
  const { rates, raws } = await inRuns(bench, meter, { total, run, raw: raw && (() => raw(total)) });
  return {
    starts: total,
    runs: RUNS,
    startsPerSecond: median(rates),
    startsPerSecondSpread: spread(rates),
    ...besideRaw(rates, raws),
    ...meter.figures(total),
  };
}

/** Runs a load several times, each time after a run without an engine, if there is one. */
async function inRuns(
  bench: Bench,
  meter: Meter,
  load: { total: number; run: () => Promise<void>; raw: (() => Promise<number>) | undefined },
): Promise<{ rates: number[]; raws: number[] }> {
  const rates: number[] = [];
  const raws: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    bench.progress(`run ${i + 1} of ${RUNS}`);
    if (load.raw !== undefined) raws.push(await load.raw());
    await bench.section(async () => {
      meter.reset();
      await load.run();
      rates.push(load.total / meter.seconds);
    });
  }
  return { rates, raws };
}

function besideRaw(rates: readonly number[], raws: readonly number[]): Figures {
  if (raws.length === 0) return {};
  const ratios = rates.map((rate, i) => rate / (raws[i] as number));
  return { rawRowsPerSecond: median(raws), ratioToRaw: median(ratios) };
}
