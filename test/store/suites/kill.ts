/**
 * Real processes, really killed: what was acknowledged is there, and nothing is half there. A suite over any adapter
 * that brings a process which commits pairs (child-commits.mjs) and a store that comes after it.
 */
import { expect, test } from "vitest";
import { SeededRandom } from "../../../src/std/random.ts";
import type { Store, StoreInfo } from "../../../src/store/store.ts";
import type { StoreChild } from "../../fixtures/store/child-process-fixture.ts";
import { expectWholePairs } from "../../fixtures/store/pairs-fixture.ts";

export interface KillPlace {
  /** Starts a process that commits. */
  run(): StoreChild;
  /** Opens and owns the store once the process is dead. */
  open(): Promise<{ store: Store; info: StoreInfo }>;
}

export function describeKill(name: string, makePlace: () => KillPlace | Promise<KillPlace>): void {
  test(`${name}: a process killed at any moment has lost nothing that it acknowledged`, async () => {
    const random = new SeededRandom("kill");
    const place = await makePlace();
    let acknowledged = 0;
    for (let round = 1; round <= 4; round++) {
      const child = place.run();
      expect(Number((await child.line())?.replace("open ", ""))).toBeGreaterThanOrEqual(acknowledged);
      const killAfter = acknowledged + random.between(1, 150);
      while (acknowledged < killAfter) acknowledged = Number(await child.line());
      await child.kill();
      for (let line = await child.line(); line !== null; line = await child.line())
        acknowledged = Number(line);
      const { store, info } = await place.open();
      expect(info.owned).toMatchObject([{ partition: 0, epoch: 2 * round, uncleanEpoch: 2 * round - 1 }]);
      await expectWholeRecords(store, await expectWholePairs(store, acknowledged));
      await store.close({ clean: true });
    }
  }, 60_000);
}

/** Each commit's letter, log and dead letter are there exactly if it is, and it took the letter before its own. */
async function expectWholeRecords(store: Store, commits: number): Promise<void> {
  const letters = await store.scanMail({ after: 0, max: 100_000, partitions: null });
  expect(letters.map(({ id, order }) => [id, order])).toEqual([[`letter-${commits}`, commits]]);
  const dead = await store.listDeadLetters({}, { before: null, max: 100_000 });
  expect(dead.map(({ tasks }) => tasks[0])).toEqual(Array.from({ length: commits }, (_, i) => commits - i));
  for (let n = 1; n <= commits; n++) {
    const rows = await store.readLogs({ execution: `right-${n}`, after: 0, rowsMax: 9 });
    expect(rows.map(({ order, lines }) => [order, lines.map((line) => line.n)])).toEqual([[n, [n]]]);
  }
}
