/** The script of the demo: runs in a sandbox that pass a state on and log their progress. */
import { type AnyWorkflow, workflow } from "../../../src/index.ts";

/** The name of the workflow. */
export const PRIMES = "demo-primes";

/** The upper limits of the runs. Each run continues where the last one stopped. */
const LIMITS = [40_000, 80_000, 120_000, 160_000];
/** The number of primes below the last limit. */
export const PRIMES_FOUND = 14_683;

/** Counts by trial division, which is slow enough to be watched. */
const EXPRESSION = (limit: number): string => `(state) => {
  let { from, found, last } = state;
  const piece = (${limit} - from) / 4;
  for (let n = from; n < ${limit}; n++) {
    let isPrime = n > 1;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) { isPrime = false; break; }
    if (isPrime) { found++; last = n; }
    if ((n + 1 - from) % piece === 0) console.log("below", n + 1, "there are", found, "primes; the last is", last);
  }
  return { from: ${limit}, found, last };
}`;

/** The workflow; its output is the last state. */
export function primesWorkflow() {
  const primes = workflow<null>({ name: PRIMES })
    .script("count", {
      runs: LIMITS.map((limit, i) => ({ name: `part-${i + 1}`, expression: EXPRESSION(limit) })),
      state: { from: 0, found: 0, last: 0 },
      retry: { attempts: 50, crashes: 50 },
    })
    .returns(async ({ phases }) => {
      for await (const state of phases.count.results()) return state as { found: number; last: number };
      return null;
    });
  return primes satisfies AnyWorkflow;
}
