// Pages that speak of a database, followed word by word over a real one.
import { afterAll, beforeAll, test } from "vitest";
import { followPage } from "./follow-page.ts";
import { PageDatabase } from "./page-database.ts";

let database: PageDatabase;
beforeAll(async () => {
  database = await PageDatabase.make();
}, 90_000);
afterAll(() => database.remove());

test.each(["README.md", "docs/guides/cluster.md"])(
  "%s",
  async (path) => followPage(path, { "postgres://rondo@localhost:5432/rondo": await database.empty() }),
  180_000,
);

test("docs/operate.md", async () => {
  await followPage("docs/operate.md", { "postgres://rondo@db/rondo": await database.empty() });
}, 120_000);
