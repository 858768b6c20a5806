// A disk that fails while writing: the process ends, since nobody knows what is on the disk until it is read again.
import { expect, test } from "vitest";
import { DirectoryStore } from "../../src/store/sqlite/directory-store.ts";
import { SqliteError } from "../../src/store/sqlite/driver.ts";
import { DiskFailed } from "../../src/store/sqlite/faults.ts";
import { packWrites } from "../../src/store/sqlite/packed-commit.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { fenceOf } from "../../src/store/store.ts";
import { StoreChild } from "../fixtures/store/child-process-fixture.ts";
import { start } from "../fixtures/store/example-writes.ts";
import { expectWholePairs } from "../fixtures/store/pairs-fixture.ts";
import { watchedDriver } from "../fixtures/store/watched-driver-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const IOERR_FSYNC = 1_034;

test("after an fsync error no commit is tried again, not even one that would work", async () => {
  const { driver, watched } = await watchedDriver();
  const store = new DirectoryStore(temporaryDirectory(), driver);
  const fence = fenceOf(store.open({ pid: 1, startedAt: 1 }));
  const create = (id: string) => store.commit(fence, packWrites([start(id)]));
  create("a");
  watched.beforeExec = (sql) => {
    if (sql === "COMMIT") throw new SqliteError("disk I/O error", IOERR_FSYNC);
  };
  expect(() => create("b")).toThrow(DiskFailed);
  watched.beforeExec = () => {};
  expect(() => create("c")).toThrow(/disk failed while writing .* the process ends/);
  expect(() => store.call("putDefinition", ["w", "h", "body"])).toThrow(DiskFailed);
  expect(store.call("load", [["a", "b", "c"]]).map((execution) => execution?.head.id)).toEqual([
    "a",
    undefined,
    undefined,
  ]);
  store.close({ clean: true });
});

test("a process whose disk refuses a write ends with code 70, says why, and has lost nothing", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.runLimited(directory, 1_200);
  expect(await child.line()).toBe("open 0");
  let acknowledged = 0;
  for (let line = await child.line(); line !== null; line = await child.line()) acknowledged = Number(line);
  expect(await child.end()).toBe(70);
  expect(child.errors).toContain("rondo: the disk failed while writing");
  expect(acknowledged).toBeGreaterThan(5);
  const store = new SqliteStore({ directory });
  expect((await store.open()).owned[0]?.uncleanEpoch).toBe(1);
  await expectWholePairs(store, acknowledged);
  await store.close({ clean: true });
});
