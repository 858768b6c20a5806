// Stores of every landed version open, are read whole, and can be written on.
import { copyFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, logRow, start } from "../fixtures/store/example-writes.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const FIXTURES = fileURLToPath(new URL("../fixtures/stores/", import.meta.url));

test.each(readdirSync(FIXTURES))(
  "the store of %s opens, is read whole and takes a commit",
  async (version) => {
    const directory = temporaryDirectory();
    copyFileSync(join(FIXTURES, version, "rondo.db"), join(directory, "rondo.db"));
    const store = new SqliteStore({ directory });
    const info = await store.open();
    expect(info.owned[0]?.epoch).toBeGreaterThan(1);
    const heads = await store.listHeads({}, { before: null, max: 1_000 });
    expect(heads.length).toBeGreaterThan(0);
    for (const head of heads) {
      const [loaded] = await store.load([head.id]);
      expect(loaded?.head).toEqual(head);
      const rows = await store.readJournal({ execution: head.id, from: 1 });
      const events = rows.flatMap((row) => decodeEntry(row));
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
      expect(events[0]?.event.kind).toBe("created");
      const definition = await store.getDefinition({ hash: head.hash });
      expect(JSON.parse(definition?.body ?? "null")).toMatchObject({ name: head.workflow });
      expect(await store.getDefinition({ newestOf: head.workflow })).not.toBeNull();
    }
    const wanting = heads.filter(({ want }) => want === "work").map(({ id }) => id);
    const work = await store.scanWork({ after: {}, each: 1_000, partitions: null });
    expect(work.map(({ id }) => id).toSorted()).toEqual(wanting.toSorted());
    await store.scanTimers({ until: Infinity, max: 1_000, partitions: null });
    const ended = heads.filter(({ finishedAt }) => finishedAt !== null).map(({ id }) => id);
    const found = await store.listEnded({ finishedBefore: Infinity, max: 1_000 });
    expect(found.toSorted()).toEqual(ended.toSorted());
    const names = (await store.listDefinitions({ after: "", max: 1_000 })).map(({ name }) => name);
    expect(names).toEqual([...new Set(heads.map(({ workflow }) => workflow))].toSorted());
    const letters = [{ id: "letter", to: "nobody", body: "{}" }];
    expect(await commit(store, info, [start("one-more", { mail: letters, logs: [logRow([1])] })])).toEqual(
      [],
    );
    await store.purge(ended);
    expect(await store.listHeads({}, { before: null, max: 1_000 })).toHaveLength(
      heads.length - ended.length + 1,
    );
    expect(await store.readLogs({ execution: "one-more", after: 0, rowsMax: 9 })).toHaveLength(1);
    await store.close({ clean: true });
  },
);
