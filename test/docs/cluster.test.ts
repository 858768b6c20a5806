// Pages that speak of a database, followed word by word over a real one.
import { afterAll, beforeAll, test } from "vitest";
import { followPage } from "../fixtures/docs/follow-page-fixture.ts";
import { PageDatabase } from "../fixtures/docs/page-database-fixture.ts";

let database: PageDatabase;
beforeAll(async () => {
  database = await PageDatabase.make();
}, 90_000);
afterAll(() => database.remove());

/** Fewer seeds hold as well, and take less of the machine. */
const FEWER = { "seeds: 100": "seeds: 10" };

test.each(["README.md", "docs/guides/cluster.md"])(
  "%s",
  async (path) => {
    const url = await database.empty();
    await followPage(path, { "postgres://rondo@localhost:5432/rondo": url, ...FEWER });
  },
  240_000,
);

test("docs/operate.md", async () => {
  await followPage("docs/operate.md", { "postgres://rondo@db/rondo": await database.empty() });
}, 120_000);
