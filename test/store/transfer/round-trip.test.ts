// A store goes from a directory into a database and back, with executions open, and they end as they would have.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { storeOf } from "../../../src/compose/compose.ts";
import { exportFrom, importInto } from "../../../src/compose/compose-transfer.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { exportToFile } from "../../fixtures/store/export-to-file.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { contentOf } from "../../fixtures/store/store-content.ts";
import { ENDS, firstLife, secondLife } from "../../fixtures/store/transfer-lives-fixture.ts";
import { wholeDatabase } from "../../fixtures/store/whole-database-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

describe("a store", () => {
  test("goes into a database and back as it was, and its executions end in either", async () => {
    const folder = temporaryDirectory();
    const [source, back] = [`file:${join(folder, "a")}`, `file:${join(folder, "b")}`];
    const schema = database.newSchema();
    await firstLife(source);
    const before = await contentOf(storeOf(source));
    expect(before["executions"]).toHaveLength(11);
    expect(before["timers"]).toHaveLength(6);
    expect(before["dead"]).toHaveLength(1);

    const out = await exportToFile({ store: source }, join(folder, "out"));
    expect(out).toEqual({
      executions: 11,
      definitions: 8,
      documents: 0,
      timers: 6,
      letters: 0,
      deadLetters: 1,
    });
    const place = { store: database.url, schema };
    expect(await importInto({ ...place, file: join(folder, "out") })).toEqual(out);
    expect(await contentOf(storeOf(source))).toEqual(before);
    expect(await contentOf(wholeDatabase(database.url, schema))).toEqual(before);

    expect(await exportToFile(place, join(folder, "back"))).toEqual(out);
    expect(await importInto({ store: back, file: join(folder, "back") })).toEqual(out);
    expect(await contentOf(storeOf(back))).toEqual(before);

    expect(await secondLife(wholeDatabase(database.url, schema))).toEqual(ENDS);
    expect(await secondLife(back)).toEqual(ENDS);
  }, 120_000);

  test("that nodes work on is not exported, and not imported into", async () => {
    const schema = database.newSchema();
    const place = { store: database.url, schema };
    const node = new PostgresStore({ url: database.url, nodeUrl: "http://node:1", schema });
    await node.open();
    onTestFinished(() => node.close({ clean: true }));
    await node.renew();
    await expect(exportFrom({ ...place, rondo: "0", write: async () => {} })).rejects.toThrow(
      /nodes are using this store: http:\/\/node:1/,
    );
    const folder = temporaryDirectory();
    await firstLife(`file:${folder}/a`);
    await exportToFile({ store: `file:${folder}/a` }, `${folder}/out`);
    await expect(importInto({ ...place, file: `${folder}/out` })).rejects.toThrow(
      /has a store that is not empty/,
    );
    expect((await node.renew()).nodes).toHaveLength(1);
    await node.leave({ clean: true });
    // Now it is empty and free: the import takes its place.
    expect((await importInto({ ...place, file: `${folder}/out` })).executions).toBe(11);
    await expect(importInto({ ...place, file: `${folder}/out` })).rejects.toThrow(
      /has a store that is not empty/,
    );
  }, 120_000);
});
