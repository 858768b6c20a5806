// A debounce loses no item and takes none twice, whenever an item comes about the end of its execution.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runSeed } from "../run.ts";

// `npm run sim:ci` runs more of them.
const SEEDS = Array.from({ length: effort({ usual: 1, long: 50 }) }, (_, i) => i + 1);

test.each(SEEDS)("the races of seed %i hold", (seed) => {
  const { violation, happened } = runSeed({ seed, races: true });
  expect(violation).toBeNull();
  expect(happened.get("signal after the end")).toBeGreaterThan(10);
  expect(happened.get("signal before the end")).toBeGreaterThan(10);
  expect(happened.get("signal placed again")).toBeGreaterThan(0);
});
