// One process owns a directory; others are told who and where, and come in at once when it is gone.
import { existsSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DirectoryOwned } from "../../src/store/sqlite/faults.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreChild } from "../fixtures/store/child-process-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

async function refusal(directory: string): Promise<DirectoryOwned> {
  const error: unknown = await new SqliteStore({ directory }).open().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof DirectoryOwned)) throw new Error("expected DirectoryOwned", { cause: error });
  return error;
}

test("a second process is told who owns the directory and where it listens", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.run("hold", directory);
  expect(await child.line()).toBe("open");
  const error = await refusal(directory);
  expect(error.owner).toEqual({
    pid: child.pid,
    startedAt: expect.any(Number),
    listening: "http://localhost:4321",
  });
  expect(error.message).toMatch(
    new RegExp(
      `${directory} is in use by process ${child.pid} .* listens at http://localhost:4321; use that`,
    ),
  );
  expect(error).toMatchObject({ retryable: true, nothingWritten: true });
});

test("the directory is free at once when its owner is killed", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.run("hold", directory);
  expect(await child.line()).toBe("open");
  await refusal(directory);
  await child.kill();
  const store = new SqliteStore({ directory });
  expect((await store.open()).owned[0]?.uncleanEpoch).toBe(1);
  await store.close({ clean: true });
});

test("the directory is free, and names no owner, when its owner has closed", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.run("hold", directory);
  expect(await child.line()).toBe("open");
  expect(await child.end()).toBe(0);
  expect(existsSync(join(directory, "owner.json"))).toBe(false);
  const store = new SqliteStore({ directory });
  expect((await store.open()).owned[0]?.uncleanEpoch).toBe(0);
  await store.close({ clean: true });
});

test("an owner that ended by an uncaught error has lost nothing, and the next one says nothing of the kind", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.run("throw", directory);
  expect(await child.line()).toBe("open");
  expect(await child.end()).toBe(1);
  expect(child.errors).toContain("a bug");
  const store = new SqliteStore({ directory });
  const { warnings, lostTransactions, owned } = await store.open();
  expect([warnings, lostTransactions, owned[0]?.uncleanEpoch]).toEqual([[], 0, 1]);
  expect(await store.getDocument("setting", "written")).toBe("{}");
  await store.close({ clean: true });
});

test("a second store in the same process is refused, also by another path", async () => {
  const directory = temporaryDirectory();
  const link = `${directory}/link`;
  symlinkSync(directory, link);
  const store = new SqliteStore({ directory });
  await store.open();
  expect((await refusal(directory)).owner).toMatchObject({ pid: process.pid });
  await refusal(link);
  await store.close({ clean: true });
  const next = new SqliteStore({ directory: link });
  await next.open();
  await next.close({ clean: true });
});

test("an owner that cannot be read is refused by the lock all the same", async () => {
  const directory = temporaryDirectory();
  const child = StoreChild.run("hold", directory);
  expect(await child.line()).toBe("open");
  writeFileSync(join(directory, "owner.json"), '{"pid":');
  const error = await refusal(directory);
  expect(error.owner).toBeNull();
  expect(error.message).toContain("in use by another process");
});

test("the directory and its files are for their owner only", async () => {
  const directory = join(temporaryDirectory(), "deep", "store");
  const store = new SqliteStore({ directory });
  await store.open();
  await store.putDefinition("w", "h", "body");
  const mode = (path: string) => statSync(path).mode & 0o777;
  expect(mode(directory)).toBe(0o700);
  expect(mode(join(directory, "rondo.db"))).toBe(0o600);
  expect(mode(join(directory, "rondo.db-wal"))).toBe(0o600);
  expect(mode(join(directory, "owner.json"))).toBe(0o600);
  await store.close({ clean: true });
});

test("a store that was closed while calls were on their way answers every one of them", async () => {
  const store = new SqliteStore({ directory: temporaryDirectory() });
  await store.open();
  const [before, closed, after] = await Promise.allSettled([
    store.load(["a"]),
    store.close({ clean: true }),
    store.load(["a"]),
  ]);
  expect(before).toEqual({ status: "fulfilled", value: [null] });
  expect(closed.status).toBe("fulfilled");
  expect(after).toMatchObject({ status: "rejected", reason: { message: "the store is not open" } });
});
