// Files that are damaged, of another program or of a newer Rondo: a clear refusal, and not a byte changed.
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sha256 } from "../../src/std/hash.ts";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { StoreUnreadable, type UnreadableReason } from "../../src/store/sqlite/faults.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, start } from "../fixtures/store/example-writes.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const PAGE = 4_096;

/** A copy of the files of a store with some content; with its WAL, as after a crash, or closed. */
async function storeFiles(state: "closed" | "crashed"): Promise<string> {
  const directory = temporaryDirectory();
  const origin = join(directory, "origin");
  const copy = join(directory, "copy");
  mkdirSync(copy);
  const store = new SqliteStore({ directory: origin });
  const info = await store.open();
  await commit(
    store,
    info,
    Array.from({ length: 200 }, (_, i) => start(`e${i}`)),
  );
  if (state === "closed") await store.close({ clean: true });
  for (const file of state === "closed" ? ["rondo.db"] : ["rondo.db", "rondo.db-wal"])
    copyFileSync(join(origin, file), join(copy, file));
  await store.close({ clean: true });
  return copy;
}

function overwrite(file: string, at: number, bytes: Buffer): void {
  const content = readFileSync(file);
  bytes.copy(content, at);
  writeFileSync(file, content);
}

function fingerprints(directory: string): Record<string, string> {
  const files = readdirSync(directory).filter((file) => file !== "lock.db");
  return Object.fromEntries(
    files.map((file) => [file, sha256(readFileSync(join(directory, file), "latin1"))]),
  );
}

/** How the store refuses to open, after which all files are what they were. */
async function refusal(directory: string): Promise<[UnreadableReason, message: string]> {
  const before = fingerprints(directory);
  const error: unknown = await new SqliteStore({ directory }).open().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(fingerprints(directory)).toEqual(before);
  if (!(error instanceof StoreUnreadable)) throw new Error("expected StoreUnreadable", { cause: error });
  expect(error).toMatchObject({ retryable: false, nothingWritten: true });
  expect(error.message).toContain(join(directory, "rondo.db"));
  expect(error.message).toContain("nothing was changed. To go on: ");
  return [error.reason, error.message];
}

test("a file that is no database is refused", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "rondo.db"), "These are my notes. ".repeat(500));
  expect(await refusal(directory)).toEqual(["damaged", expect.stringMatching(/is no SQLite database/)]);
});

test("an empty file is refused: a store's file is never empty", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "rondo.db"), "");
  expect(await refusal(directory)).toEqual(["damaged", expect.stringMatching(/it is empty/)]);
});

test("a file whose end is missing is refused", async () => {
  const directory = await storeFiles("closed");
  truncateSync(join(directory, "rondo.db"), 5 * PAGE);
  expect(await refusal(directory)).toEqual([
    "damaged",
    expect.stringMatching(/it has 20480 bytes, but should have \d+/),
  ]);
});

test.each([
  ["its first page", 100, 500],
  ["a page in the middle", 6 * PAGE, PAGE],
])("a closed file with %s overwritten is refused", async (_where, at, length) => {
  const directory = await storeFiles("closed");
  overwrite(join(directory, "rondo.db"), at, Buffer.alloc(length, 0xa5));
  expect(await refusal(directory)).toEqual(["damaged", expect.stringMatching(/is damaged/)]);
});

test("a damaged file beside a full WAL is refused, and the WAL is not copied into it", async () => {
  const directory = await storeFiles("crashed");
  const file = join(directory, "rondo.db");
  // All but the first page: some of them are in the WAL again, and are well.
  overwrite(file, PAGE, Buffer.alloc(readFileSync(file).length - PAGE, 0xa5));
  expect(await refusal(directory)).toEqual(["damaged", expect.stringMatching(/is damaged/)]);
});

test("a WAL without its database is refused", async () => {
  const directory = await storeFiles("crashed");
  rmSync(join(directory, "rondo.db"));
  expect(await refusal(directory)).toEqual([
    "damaged",
    expect.stringMatching(/is missing, but its write-ahead log is there/),
  ]);
});

test("another program's database is refused", async () => {
  const directory = temporaryDirectory();
  const other = (await loadDriver()).open(join(directory, "rondo.db"));
  other.exec("CREATE TABLE photos (name TEXT); INSERT INTO photos VALUES ('one')");
  other.close();
  expect(await refusal(directory)).toEqual([
    "foreign",
    expect.stringMatching(/is a SQLite database of another program/),
  ]);
});

test.each(["closed", "crashed"] as const)("a newer Rondo's store, %s, is refused", async (state) => {
  const directory = await storeFiles(state);
  overwrite(join(directory, "rondo.db"), 60, Buffer.from([0, 0, 0, 99]));
  expect(await refusal(directory)).toEqual([
    "newer",
    expect.stringMatching(/newer Rondo \(store version 99, this one knows up to \d+\)/),
  ]);
});

test("the copies that these tests damage are readable as they are", async () => {
  for (const state of ["closed", "crashed"] as const) {
    const store = new SqliteStore({ directory: await storeFiles(state) });
    await store.open();
    expect(await store.listHeads({}, { before: null, max: 999 })).toHaveLength(200);
    await store.close({ clean: true });
  }
});

test("a path that is a file is refused as a directory", async () => {
  const file = join(temporaryDirectory(), "file");
  writeFileSync(file, "");
  await expect(new SqliteStore({ directory: file }).open()).rejects.toThrow(
    /the directory of the store cannot be used/,
  );
});
