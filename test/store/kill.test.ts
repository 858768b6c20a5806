// Real processes, really killed: what was acknowledged is there, and nothing is half there.
import { expect, test } from "vitest";
import { SeededRandom } from "../../src/std/random.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreChild } from "./child-process.ts";
import { expectWholePairs } from "./pairs.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

test("a process killed at any moment has lost nothing that it acknowledged", async () => {
  const random = new SeededRandom("kill");
  const directory = temporaryDirectory();
  let acknowledged = 0;
  for (let round = 1; round <= 4; round++) {
    const child = StoreChild.run("commit", directory);
    expect(Number((await child.line())?.replace("open ", ""))).toBeGreaterThanOrEqual(acknowledged);
    const killAfter = acknowledged + random.between(1, 150);
    while (acknowledged < killAfter) acknowledged = Number(await child.line());
    await child.kill();
    for (let line = await child.line(); line !== null; line = await child.line()) acknowledged = Number(line);
    const store = new SqliteStore({ directory });
    const { fence, uncleanEpoch } = await store.open();
    expect(fence.epoch).toBe(2 * round);
    expect(uncleanEpoch).toBe(2 * round - 1);
    await expectWholePairs(store, acknowledged);
    await store.close({ clean: true });
  }
});
