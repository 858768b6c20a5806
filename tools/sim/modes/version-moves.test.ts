// Executions are moved between versions of a workflow, whichever code is served and whichever processes die.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runSeed } from "../run.ts";

const SEEDS = Array.from({ length: effort({ usual: 4, long: 50 }) }, (_, i) => i + 1);
/** A wait ends in the commit of the recorded start of its task: the grant contains its answer. */
const WAIT_WITH_START = 29;

test.each([...new Set([...SEEDS, WAIT_WITH_START])])(
  "the executions of seed %i end in the version that they were moved to",
  (seed) => {
    const { violation, kinds } = runSeed({ seed, versions: true });
    expect(violation).toBeNull();
    expect([...kinds]).toContain("moved");
  },
);
