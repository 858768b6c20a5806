// The suites that every adapter passes, over a real PostgreSQL.
import { afterAll, beforeAll, vi } from "vitest";
import { PostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { describeStore } from "./conformance.ts";
import { describeCluster, PARTITIONS } from "./conformance-cluster.ts";
import { TestDatabase } from "./postgres-server.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

describeStore("postgres", () => {
  const schema = database.newSchema();
  return () => new PostgresStore({ url: database.url, nodeUrl: "http://node", schema, partitions: 1 });
});

describeCluster("postgres", async () => {
  const schema = database.newSchema();
  const leaseMs = 400;
  return {
    makeStore: (nodeUrl) =>
      new PostgresStore({ url: database.url, nodeUrl, schema, partitions: PARTITIONS, leaseMs }),
    lapse: async (incarnation, others) => {
      const isThere = async () => {
        const members = await Promise.all(others.map((other) => other.renew()));
        return members.some(({ nodes }) => nodes.some((node) => node.incarnation === incarnation));
      };
      while (await isThere());
    },
    hintsCome: (seen, count) => vi.waitUntil(() => seen.length >= count).then(() => undefined),
  };
});
