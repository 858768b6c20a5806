import { expect, test } from "vitest";
import type { Connection, Value } from "./driver.ts";
import { ManyRows } from "./many-rows.ts";

/** A connection that records the values of each statement that is run. */
function recording(sql = (all: string) => `INSERT INTO t VALUES ${all}`) {
  const ran: Value[][] = [];
  const connection: Connection = {
    exec() {},
    prepare: (text) => ({
      run(values) {
        expect(values).toHaveLength(text.split("?").length - 1);
        ran.push([...values]);
        return text.split("(?").length - 1;
      },
      get: () => undefined,
      all: () => [],
    }),
    rollback() {},
    close() {},
  };
  return { ran, rows: new ManyRows(connection, 2, sql) };
}

test("rows go out in their order, none twice, in few statements", () => {
  const { ran, rows } = recording();
  const given = Array.from({ length: 77 }, (_, i) => [i, `row ${i}`] as const);
  for (const [n, text] of given) rows.add(n, text);
  expect(ran).toEqual([]);
  rows.flush();
  expect(ran.flat()).toEqual(given.flat());
  expect(ran.map((values) => values.length / 2)).toEqual([64, 4, 4, 4, 1]);
  rows.flush();
  expect(ran).toHaveLength(5);
});

test("rows of a commit that is taken back are forgotten", () => {
  const { ran, rows } = recording();
  rows.add(1, "one");
  rows.clear();
  rows.add(2, "two");
  rows.flush();
  expect(ran).toEqual([[2, "two"]]);
});

test("values that rows share are bound once in a statement, and other values begin another statement", () => {
  const { ran, rows } = recording((all) => `INSERT INTO t SELECT * FROM (VALUES ${all}), (SELECT ?)`);
  rows.share(["a"]);
  for (let n = 0; n < 5; n++) {
    rows.share(["a"]);
    rows.add(n, `row ${n}`);
  }
  expect(ran).toEqual([]);
  rows.share(["b"]);
  rows.add(5, "row 5");
  expect(rows.flush()).toBe(6);
  const [four, one, last] = ran;
  expect(four).toEqual([0, "row 0", 1, "row 1", 2, "row 2", 3, "row 3", "a"]);
  expect([one, last]).toEqual([
    [4, "row 4", "a"],
    [5, "row 5", "b"],
  ]);
  rows.add(6, "row 6");
  expect(rows.flush()).toBe(1);
  expect(ran.at(-1)).toEqual([6, "row 6", "b"]);
});
