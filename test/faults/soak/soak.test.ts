// A short soak of each store, so that the long one (`npm run soak`) works when it is wanted.
import { expect, test } from "vitest";
import { soak } from "./soak.ts";

test.each(["embedded", "postgres"] as const)(
  "%s: some faults at random, nothing is lost, nothing is counted twice",
  {
    timeout: 400_000,
  },
  async (store) => {
    const report = await soak({ store, seed: "short", minutes: 0, faultsPerRound: 5 });
    expect(report).toMatchObject({ rounds: 1, wrong: [], totals: { acknowledged: 26, lost: 0, twice: 0 } });
  },
);
