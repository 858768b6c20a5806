// No room: commits stop with a clear error, nothing is torn, and work goes on when there is room.
import { describe, expect, test } from "vitest";
import { DirectoryStore } from "../../src/store/sqlite/directory-store.ts";
import { packWrites } from "../../src/store/sqlite/packed-commit.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { fenceOf, StoreFault } from "../../src/store/store.ts";
import { SmallDisk } from "../fixtures/small-disk-fixture.ts";
import { entry, start, step } from "../fixtures/store/example-writes.ts";
import { watchedDriver } from "../fixtures/store/watched-driver-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const large = (seq: number) => entry(seq, "x".repeat(100_000));

test("a commit without room writes nothing, and the same commit is accepted once there is room", async () => {
  const { driver, watched } = await watchedDriver();
  const store = new DirectoryStore(temporaryDirectory(), driver);
  const fence = fenceOf(store.open({ pid: 1, startedAt: 1 }));
  store.commit(fence, packWrites([start("a")]));
  watched.connection?.exec("PRAGMA max_page_count = 30");
  const writes = packWrites([step("a", 1), start("b"), step("a", 2, { entries: [large(3)] })]);
  const before = store.call("load", [["a", "b"]]);
  for (let attempt = 0; attempt < 2; attempt++) {
    let fault: unknown = null;
    try {
      store.commit(fence, writes);
    } catch (error) {
      fault = error;
    }
    expect(fault).toBeInstanceOf(StoreFault);
    expect(fault).toMatchObject({ retryable: true, nothingWritten: true });
    expect(String(fault)).toContain("the disk is full: nothing was written; work goes on when there is room");
    expect(store.call("load", [["a", "b"]])).toEqual(before);
  }
  expect(store.commit(fence, packWrites([step("a", 1), start("c")]))).toEqual({
    kind: "ok",
    exists: [],
    fenced: [],
  });
  watched.connection?.exec("PRAGMA max_page_count = 100000");
  const later = packWrites([step("a", 2), start("b"), step("a", 3, { entries: [large(4)] })]);
  expect(store.commit(fence, later)).toEqual({ kind: "ok", exists: [], fenced: [] });
  expect(store.call("load", [["a", "b", "c"]]).map((execution) => execution?.head.order)).toEqual([1, 3, 2]);
  store.close({ clean: true });
});

describe.runIf(SmallDisk.isPossible)("on a disk of 1 MiB", () => {
  test("the store fills up, keeps what it acknowledged, and goes on when the disk has grown", async () => {
    const disk = SmallDisk.make("1m") as SmallDisk;
    const { directory } = disk;
    const store = new SqliteStore({ directory });
    const fence = fenceOf(await store.open());
    let end = 0;
    const next = () =>
      store.commit({
        fence,
        writes: [end === 0 ? start("a") : step("a", end, { entries: [entry(end + 1, "x".repeat(30_000))] })],
      });
    const fill = async (): Promise<unknown> => {
      for (; end < 1_000; end++) {
        const fault: unknown = await next().then(
          () => null,
          (error: unknown) => error,
        );
        if (fault !== null) return fault;
      }
      return null;
    };
    expect(await fill()).toMatchObject({ name: "StoreFault", retryable: true, nothingWritten: true });
    expect(await store.readJournal({ execution: "a", from: 1 })).toHaveLength(end);
    const full = end;
    disk.resize("4m");
    expect(await fill()).toMatchObject({ name: "StoreFault", retryable: true });
    expect(end).toBeGreaterThan(full + 10);
    await store.close({ clean: false });
    const reopened = new SqliteStore({ directory });
    disk.resize("16m");
    await reopened.open();
    expect(await reopened.readJournal({ execution: "a", from: 1 })).toHaveLength(end);
    await reopened.close({ clean: true });
  });
});
