// Workers over HTTP that loses, delays and repeats messages: nothing is lost, and nothing runs twice without need.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runAnySeed } from "../run.ts";

/**
 * Seeds 31 and 43 found a claim that the engine had forgotten, and failed claims that went with their session; seed 23 a lost answer
 * that the server had forgotten after two others.
 */
const SEEDS = [...Array.from({ length: effort({ usual: 4, long: 100 }) }, (_, i) => i + 1), 23, 31, 43];

test.each(SEEDS)(
  "the worker sessions of seed %i hold",
  async (seed) => {
    const { violation, kinds, hash } = await runAnySeed({ seed, sessions: true });
    expect(violation).toBeNull();
    expect(kinds).toContain("finished");
    if (seed === 1) expect((await runAnySeed({ seed, sessions: true })).hash).toBe(hash);
  },
  120_000,
);
