// A short soak, so that the long one works when it is wanted (`node test/faults/soak.mjs`).
import { expect, test } from "vitest";
import { soak } from "./soak.ts";

test("some of all faults at random: nothing is lost, nothing is counted twice", {
  timeout: 150_000,
}, async () => {
  const report = await soak({ seed: "short", minutes: 0, faultsPerRound: 8 });
  expect(report).toMatchObject({ rounds: 1, executions: 8, wrong: [] });
});
