// README.md, followed word by word, over a real database where it speaks of one.
import { afterAll, beforeAll, test } from "vitest";
import { PageDatabase } from "./page-database.ts";
import { followPage } from "./follow-page.ts";

let database: PageDatabase;
beforeAll(async () => {
  database = await PageDatabase.make();
}, 90_000);
afterAll(() => database.remove());

test("README.md", async () => {
  const url = await database.empty();
  await followPage("README.md", { "postgres://rondo@localhost:5432/rondo": url });
}, 180_000);
