import { afterAll, beforeAll, expect, test } from "vitest";
import { newExecutionId } from "../../src/std/id.ts";
import { systemRandom } from "../../src/std/random.ts";
import { PostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { queryAt } from "../../tools/bench/postgres/query-at.ts";
import { RawInserts } from "../../tools/bench/postgres/raw-postgres.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

test("raw chains find the heads of their executions by the index", async () => {
  const url = await database.newDatabase();
  const store = new PostgresStore({ url, nodeUrl: "http://n", partitions: 1 });
  await store.open();
  await store.close({ clean: true });
  const raw = await RawInserts.open(url);
  const newIds = (many: number) =>
    Array.from({ length: many }, () => newExecutionId(Date.now(), systemRandom));
  await raw.chainsPerSecond(1_000, { newIds, startChars: 10, stepChars: 10, steps: 2, perCommit: 100 });
  await raw.close();
  const scans = () =>
    queryAt(
      url,
      "SELECT seq_scan::int, idx_scan::int, n_tup_upd::int FROM pg_stat_user_tables WHERE relname = 'raw_executions'",
    );
  await expect.poll(async () => (await scans())[0]?.["n_tup_upd"], { timeout: 10_000 }).toBe(1_000);
  const [found] = await scans();
  // Each index was made by one scan of the table.
  expect(found?.["seq_scan"]).toBeLessThan(10);
  expect(found?.["idx_scan"]).toBeGreaterThan(0);
});
