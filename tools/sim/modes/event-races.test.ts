// Events have exactly the effects that their triggers promise, whichever processes die.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runSeed } from "../run.ts";

// `npm run sim:ci` runs more of them.
const SEEDS = Array.from({ length: effort({ usual: 1, long: 50 }) }, (_, i) => i + 1);

test.each(SEEDS)("the events of seed %i have their effects once", (seed) => {
  const { violation, kinds } = runSeed({ seed, events: true });
  expect(violation).toBeNull();
  expect([...kinds].filter((kind) => kind.startsWith("gate.")).sort()).toEqual([
    "gate.cancelled",
    "gate.carried",
    "gate.dropped",
    "gate.freed",
    "gate.passed",
    "gate.taken",
  ]);
});
