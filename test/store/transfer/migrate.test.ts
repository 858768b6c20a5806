// What `rondo migrate` does with a database.
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrateDatabase } from "../../../src/compose/compose-transfer.ts";
import { MIGRATIONS } from "../../../src/store/postgres/migrations/migrations.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

test("a new database gets all there is, once; one that is declared restored is another generation", async () => {
  const schema = database.newSchema();
  const place = { store: database.url, schema };
  const version = MIGRATIONS.length;
  expect(await migrateDatabase(place)).toEqual({ from: 0, to: version });
  expect(await migrateDatabase(place)).toEqual({ from: version, to: version });
  const node = new PostgresStore({ url: database.url, nodeUrl: "http://one", schema });
  const before = await openWhole(node);
  expect(await migrateDatabase({ ...place, restored: true })).toEqual({ from: version, to: version });
  await expect(node.renew()).rejects.toThrow(/restored meanwhile/);
  await node.close({ clean: true }).catch(() => {});
  const next = new PostgresStore({ url: database.url, nodeUrl: "http://one", schema });
  const after = await openWhole(next);
  expect(after.generation).not.toBe(before.generation);
  expect(after.key).not.toBe(before.key);
  expect(after.owned[0]?.uncleanEpoch).toBe(before.owned[0]?.epoch);
  await next.close({ clean: true });
});
