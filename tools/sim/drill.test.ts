// A handler with a limit goes on while nodes of its cluster die one after another, and never runs more than it may.
import { expect, test } from "vitest";
import { effort } from "../../test/fixtures/long.ts";
import { runSeed } from "./run.ts";

const SEEDS = Array.from({ length: effort({ usual: 4, long: 40 }) }, (_, i) => i + 1);

test.each(SEEDS)("the drill of seed %i holds", (seed) => {
  expect(runSeed({ seed, drill: true }).violation).toBeNull();
});
