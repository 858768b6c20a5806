import { expect, test } from "vitest";
import type { Inspection } from "../../engine/io.ts";
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import { reject } from "../../std/rejection.ts";
import type { JournalRange } from "../../store/store.ts";
import { EndedViews } from "./ended-views.ts";

/** An engine and a journal of one execution, and how often the engine is asked. */
function setUp() {
  const world = {
    rows: [{ seq: 1, count: 3, at: 10, body: "" }] as Entry[],
    view: { revision: 3, finishedAt: 10, output: 1 } as unknown,
    asked: 0,
  };
  const engine = {
    inspect: async () => {
      world.asked++;
      return world.view === null
        ? reject("not_found", "gone")
        : ({ view: world.view, why: "It is done." } as unknown as Inspection);
    },
  };
  const store = {
    readJournal: async ({ from, rowsMax = 99 }: JournalRange) =>
      world.rows.filter(({ seq, count }) => seq + count > from).slice(0, rowsMax),
  };
  return { world, views: new EndedViews(engine, store) };
}

test("what has ended is asked of the engine once, while its journal stays as it is", async () => {
  const { world, views } = setUp();
  for (let i = 0; i < 3; i++) expect(await views.inspect("a")).toMatchObject({ view: { output: 1 } });
  expect(world.asked).toBe(1);
});

test("one that runs is asked for each time", async () => {
  const { world, views } = setUp();
  world.view = { revision: 3, finishedAt: null };
  await views.inspect("a");
  await views.inspect("a");
  expect(world.asked).toBe(2);
});

test("a retry, an event after the end, another execution of the same id, and none at all are seen", async () => {
  const { world, views } = setUp();
  await views.inspect("a");
  world.rows.push({ seq: 4, count: 1, at: 11, body: "" });
  world.view = { revision: 4, finishedAt: 10, output: 2 };
  expect(await views.inspect("a")).toMatchObject({ view: { output: 2 } });
  world.rows = [{ seq: 1, count: 4, at: 99, body: "" }];
  world.view = { revision: 4, finishedAt: 99, output: 3 };
  expect(await views.inspect("a")).toMatchObject({ view: { output: 3 } });
  world.rows = [];
  world.view = null;
  expect(await views.inspect("a")).toMatchObject({ code: "not_found" });
});
