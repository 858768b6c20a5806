/** Executions of five steps, each a phase with one task: many at a time for the rate, one at a time for the latency. */
import { chains, latencies } from "../loads.ts";
import { openMetered } from "../metered-rondo.ts";
import { SyncProbe } from "../raw-disk.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";

const AT_A_TIME = 100;

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

async function runChain(bench: Bench): Promise<Figures> {
  const metered = await openMetered(bench.directory);
  const executions = bench.isShort ? 200 : 1_000;
  const figures = await chains(bench, metered, { executions, atATime: AT_A_TIME });
  await metered.rondo.close();
  return figures;
}

async function runLatency(bench: Bench): Promise<Figures> {
  const metered = await openMetered(bench.directory);
  const probe = new SyncProbe(bench.directory);
  const figures = await latencies(bench, metered, {
    name: "fdatasync",
    ratio: "ratioToFdatasync",
    ms: () => probe.time(),
  });
  probe.close();
  await metered.rondo.close();
  return figures;
}
