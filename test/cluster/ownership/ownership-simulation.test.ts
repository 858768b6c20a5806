// Ownership in simulated histories; and, since a harness that finds nothing is worth nothing, with bugs on purpose.
import { describe, expect, test } from "vitest";
import { BUGS, type Bug, OwnershipWorld } from "../../fixtures/cluster/ownership-world-fixture.ts";

const SEEDS = 150;
/** A bug must show within so many. */
const HUNT_SEEDS = 60;

test("in every history partitions have one owner at a time, and come to rest where they belong", () => {
  let written = 0;
  let refused = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = new OwnershipWorld(seed);
    try {
      world.run();
    } catch (thrown) {
      throw new Error(`seed ${seed}: ${(thrown as Error).message}`, { cause: thrown });
    }
    written += world.check.written;
    refused += world.check.refused;
  }
  // The histories are worth looking at: stale owners did try.
  expect(written).toBeGreaterThan(SEEDS * 100);
  expect(refused).toBeGreaterThan(SEEDS);
}, 120_000);

test("equal seeds give equal histories", () => {
  for (const seed of [1, 2, 3]) {
    const hashes = [0, 1].map(() => {
      const world = new OwnershipWorld(seed);
      world.run();
      return world.trace.hash;
    });
    expect(hashes[0]).toBe(hashes[1]);
  }
});

describe("a planted bug is found:", () => {
  test.each(BUGS)("%s", (bug: Bug) => {
    const found = (seed: number): string | null => {
      try {
        new OwnershipWorld(seed, { bug }).run();
        return null;
      } catch (thrown) {
        return (thrown as Error).message;
      }
    };
    const seeds = Array.from({ length: HUNT_SEEDS }, (_, i) => i + 1);
    expect(seeds.some((seed) => found(seed) !== null)).toBe(true);
  });
});
