/** The script of the demo: runs in a sandbox that hand a state on and log what they do, line by line. */
import { type AnyWorkflow, workflow } from "../../../src/index.ts";

/** Its name. */
export const PRIMES = "demo-primes";

/** The limits of its runs; each run goes on where the one before stopped. */
const LIMITS = [40_000, 80_000, 120_000, 160_000];
/** How many primes there are below the last of them. */
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

/** The workflow; what it returns is the last state. */
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
