// Pages that speak of a database, followed word by word over a real one.
import { afterAll, beforeAll, test } from "vitest";
import { followPage } from "../fixtures/docs/follow-page-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 90_000);
afterAll(() => database.remove());

/** Fewer seeds hold as well, and take less of the machine. */
const FEWER = { "seeds: 100": "seeds: 10" };

test.each(["README.md", "docs/guides/cluster.md"])(
  "%s",
  async (path) => {
    const url = await database.newDatabase();
    await followPage(path, { "postgres://rondo@localhost:5432/rondo": url, ...FEWER });
  },
  240_000,
);

test("docs/operate.md", async () => {
  await followPage("docs/operate.md", { "postgres://rondo@db/rondo": await database.newDatabase() });
}, 120_000);
