// The same random operations through the memory store (the oracle) and through PostgreSQL.
import { afterAll, beforeAll, test } from "vitest";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { effort } from "../../fixtures/long.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { expectEqualAnswers } from "../suites/differential.ts";

/** With a schema of its own for each. */
const RUNS = effort({ usual: 10, long: 150 });

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

test.each([1, 4])(
  "memory and postgres give equal answers to any sequence of operations, with %d partitions",
  async (partitions) => {
    const makePlace = async () => {
      const schema = database.newSchema();
      return {
        makeStore: () => new PostgresStore({ url: database.url, nodeUrl: "http://node", schema, partitions }),
        remove: async () => void (await database.query(`DROP SCHEMA ${schema} CASCADE`)),
      };
    };
    await expectEqualAnswers({ makePlace, runs: RUNS, partitions, cluster: true });
  },
  600_000,
);
