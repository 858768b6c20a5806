// The suites that every adapter passes, over a real PostgreSQL.
import { afterAll, beforeAll, vi } from "vitest";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { PARTITIONS } from "../../fixtures/store/cluster-node-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { describeStore } from "../suites/conformance.ts";
import { describeCluster } from "../suites/conformance-cluster.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

describeStore("postgres", () => {
  const schema = database.newSchema();
  return () =>
    new PostgresStore({
      url: database.url,
      nodeUrl: "http://node",
      schema,
      partitions: 1,
      searchBehindMs: 0,
    });
});

describeCluster("postgres", async () => {
  const schema = database.newSchema();
  return {
    makeStore: (nodeUrl) => new PostgresStore({ url: database.url, nodeUrl, schema, partitions: PARTITIONS }),
    lapse: async (incarnation) => {
      const sql = `UPDATE ${schema}.nodes SET lease_until = ${schema}.now_ms_1() WHERE incarnation = $1`;
      await database.query(sql, [incarnation]);
    },
    hintsCome: (seen, count) =>
      vi.waitUntil(() => seen.length >= count, { timeout: 60_000 }).then(() => undefined),
  };
});
