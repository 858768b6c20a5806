// The measurement itself: every way of not ending is ended by its time limit. How fast is a budget, not a test.
import { expect, test } from "vitest";
import { measureKillLatency } from "../../../tools/bench/kill-latency.ts";
import { testPool } from "../../fixtures/workers/sandbox-fixture.ts";

test("every script without an end is killed for its time", async () => {
  const measured = await measureKillLatency(await testPool(), { repetitions: 1 });
  expect(measured.map(({ end }) => end)).toEqual(measured.map(() => "killed time"));
  expect(measured.length).toBeGreaterThan(5);
  expect(measured.every(({ lateMs }) => lateMs >= 0)).toBe(true);
});
