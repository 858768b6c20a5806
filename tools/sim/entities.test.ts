// Executions continue as others under one id, whichever processes die and whichever old executions are purged.
import { expect, test } from "vitest";
import { effort } from "../../test/fixtures/long.ts";
import { runSeed } from "./run.ts";

const SEEDS = Array.from({ length: effort({ usual: 2, long: 50 }) }, (_, i) => i + 1);
/** A client follows an id while the execution that it waits for begins, continues and is purged. */
const PURGED_MEANWHILE = 106;

test.each([...new Set([...SEEDS, PURGED_MEANWHILE])])(
  "the entities of seed %i take every item once, in its order",
  (seed) => {
    const { violation, kinds } = runSeed({ seed, entities: true });
    expect(violation).toBeNull();
    expect([...kinds]).toEqual(expect.arrayContaining(["continuing", "newest"]));
  },
);
