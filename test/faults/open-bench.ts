/** A bench that goes with the test, and what tests of it have in common. */
import { expect, onTestFinished } from "vitest";
import { FaultBench, type FaultBenchOptions } from "./fault-bench.ts";
import { RequestProxy } from "./request-proxy.ts";

export const CLAIM = /\/claim$/;
export const EVENTS = /\/events$/;
/** Bodies with a word of these kinds in them. */
export const STEP = /"kind":"step"/;
/** The receipt of a task that is done, not that of an enumeration. */
export const RECEIPT = /"kind":"receipt","status":"done".*"result":\{"id":/;

export async function openBench(options: FaultBenchOptions = {}): Promise<FaultBench> {
  const bench = await FaultBench.open(options);
  onTestFinished(() => bench.close());
  return bench;
}

/** A proxy in front of the bench's server. */
export async function openProxy(bench: FaultBench): Promise<RequestProxy> {
  const proxy = await RequestProxy.start(bench.url);
  onTestFinished(() => proxy.close());
  return proxy;
}

/** All faults are over: everything ends as it should, and nothing is left. */
export async function expectWell(bench: FaultBench): Promise<void> {
  expect(await bench.wrongs()).toEqual([]);
  expect(await bench.stop()).toEqual([]);
}
