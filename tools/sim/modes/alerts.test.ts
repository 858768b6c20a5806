// Each cause of an alert is told once, whichever nodes die.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runAnySeed } from "../run.ts";

const SEEDS = Array.from({ length: effort({ usual: 2, long: 50 }) }, (_, i) => i + 1);

test.each(SEEDS)(
  "the causes of seed %i are told once",
  async (seed) => {
    const { violation, kinds, hash } = await runAnySeed({ seed, alerts: true });
    expect(violation).toBeNull();
    expect([...kinds].sort()).toEqual(["errors", "failing", "nodes", "queues"]);
    if (seed === 1) expect((await runAnySeed({ seed, alerts: true })).hash).toBe(hash);
  },
  120_000,
);
