/** A node with a worker, for tests of what is recorded. */

import { type Attempt, NodeBench } from "./node-bench.ts";
import { phase } from "./scenarios/kernel-run.ts";

export const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

/** A bench with one worker that has the tasks of one execution. */
export function working(
  definition: object = phase("a"),
  options: { local?: boolean; settings?: object } = {},
) {
  const bench = new NodeBench({ sweepMs: 5_000, ...options.settings });
  bench.join("w1", ["w.a", "w.b"], { capacity: 100, local: options.local ?? true });
  bench.claim("w1", 100);
  bench.start(bench.plan([definition]), "e1");
  bench.settle();
  return { bench, first: bench.attempts()[0] as Attempt };
}
