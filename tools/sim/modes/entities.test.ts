// Executions continue as others under one id, whichever processes die and whichever old executions are purged.
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { runSeed } from "../run.ts";

// `npm run sim:ci` runs the first ones.
const SEEDS = Array.from({ length: effort({ usual: 0, long: 50 }) }, (_, i) => i + 1);
/** A client follows an id while the execution that it waits for begins, continues and is purged. */
const PURGED_MEANWHILE = 106;
/** The newest execution of an id is cancelled, and retried after a purge. */
const RETRIED_AFTER_PURGE = 148;
/** The last execution of an id becomes cancelled after all items were sent. */
const CANCELLED_LAST = 57;
/** An execution begins cancelled a while after the one before has ended, because its process died between. */
const BEGINS_LATE = 87;

test.each([...new Set([...SEEDS, PURGED_MEANWHILE, RETRIED_AFTER_PURGE, CANCELLED_LAST, BEGINS_LATE])])(
  "the entities of seed %i take every item once, in its order",
  (seed) => {
    const { violation, kinds } = runSeed({ seed, entities: true });
    expect(violation).toBeNull();
    expect([...kinds]).toEqual(expect.arrayContaining(["continuing", "newest"]));
  },
);
