import { join } from "node:path";
import { expect, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { openDatabase } from "../../src/store/sqlite/open-database.ts";
import { RECORD_READS } from "../../src/store/sqlite/record-reader.ts";
import { READS } from "../../src/store/sqlite/sqlite-reader.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

test("every read of the SQLite store goes through an index, and none sorts", async () => {
  const file = join(temporaryDirectory(), "rondo.db");
  const connection = openDatabase(file, { driver: await loadDriver() });
  for (const [name, sql] of Object.entries({ ...READS, ...RECORD_READS })) {
    const values = Array.from(sql.matchAll(/\?/g), () => "x");
    const plan = connection.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>(values);
    const steps = plan.map(({ detail }) => detail).filter((detail) => !detail.startsWith("SCALAR SUBQUERY"));
    expect({ name, steps }).toEqual({
      name,
      steps: steps.map(() => expect.stringMatching(/^SEARCH .* USING /)),
    });
    expect(steps.length).toBeGreaterThan(0);
  }
});
