import { expect, test } from "vitest";
import type { Connection, Value } from "./driver.ts";
import { ManyRows } from "./many-rows.ts";

/** What is run, as the rows of each statement. */
function recording() {
  const ran: Value[][] = [];
  const connection: Connection = {
    exec() {},
    prepare: (sql) => ({
      run(values) {
        expect(values).toHaveLength(sql.split("?").length - 1);
        ran.push([...values]);
        return 0;
      },
      get: () => undefined,
      all: () => [],
    }),
    rollback() {},
    close() {},
  };
  return { ran, rows: new ManyRows(connection, 2, (all) => `INSERT INTO t VALUES ${all}`) };
}

test("rows go out in their order, none twice, in few statements", () => {
  const { ran, rows } = recording();
  const given = Array.from({ length: 77 }, (_, i) => [i, `row ${i}`] as const);
  for (const [n, text] of given) rows.add(n, text);
  expect(ran).toEqual([]);
  rows.flush();
  expect(ran.flat()).toEqual(given.flat());
  expect(ran.map((values) => values.length / 2)).toEqual([32, 32, 8, 1, 1, 1, 1, 1]);
  rows.flush();
  expect(ran).toHaveLength(8);
});

test("rows of a commit that is taken back are forgotten", () => {
  const { ran, rows } = recording();
  rows.add(1, "one");
  rows.clear();
  rows.add(2, "two");
  rows.flush();
  expect(ran).toEqual([[2, "two"]]);
});
