/** Attempts that are claimed, for tests of leases. */
import { type Attempt, NodeBench } from "./node-bench.ts";

export const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 5_000 };

/** A bench with a remote worker that has claimed `claims` items of one execution. */
export function claimed(definition: object, claims = 10): { bench: NodeBench; first: Attempt[] } {
  const bench = new NodeBench(SETTINGS);
  bench.join("w1", ["w.a", "w.fix"], { local: false, capacity: 100 });
  bench.claim("w1", claims);
  bench.start(bench.plan([definition]), "e1");
  bench.settle();
  return { bench, first: bench.attempts() };
}
