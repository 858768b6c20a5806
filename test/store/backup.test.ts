// Copies taken while the store runs, and stores made of them: new generation, new key, nothing else changed.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { RondoError } from "../../src/std/rejection.ts";
import { DirectoryStore } from "../../src/store/sqlite/directory-store.ts";
import { SqliteError } from "../../src/store/sqlite/driver.ts";
import { DirectoryOwned, StoreUnreadable } from "../../src/store/sqlite/faults.ts";
import { restoreBackup } from "../../src/store/sqlite/files/restore-backup.ts";
import { packWrites } from "../../src/store/sqlite/packed-commit.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { fenceOf, type Store } from "../../src/store/store.ts";
import { StoreChild } from "../fixtures/store/child-process-fixture.ts";
import { commit, logRow, start } from "../fixtures/store/example-writes.ts";
import { watchedDriver } from "../fixtures/store/watched-driver-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const FIXTURE = fileURLToPath(new URL("../fixtures/stores/v0.1.0/rondo.db", import.meta.url));
const FULL = 13;

const create = (n: number) =>
  start(`e${n}`, {
    mail: [{ id: `letter-${n}`, to: "e1", body: "{}" }],
    logs: [logRow([n])],
    deadLetters: [{ seq: 1, tasks: [n] }],
    timersSet: [{ timer: "t", due: n }],
  });

async function everything(store: Store, count: number): Promise<unknown> {
  const ids = Array.from({ length: count }, (_, i) => `e${i + 1}`);
  return {
    heads: await store.listHeads({}, { before: null, max: 99 }),
    loaded: await store.load(ids),
    letters: await store.scanMail({ after: 0, max: 99, partitions: null }),
    logs: await Promise.all(ids.map((execution) => store.readLogs({ execution, after: 0, rowsMax: 9 }))),
    dead: await store.listDeadLetters({}, { before: null, max: 99 }),
    timers: await store.scanTimers({ until: 99, max: 99, partitions: null }),
    documents: await store.listDocuments("token", { max: 9 }),
    definitions: await store.listDefinitions({ after: "", max: 9 }),
  };
}

/** A place with the backup of a store with one execution. */
async function oneBackup(): Promise<{ place: string; file: string; directory: string }> {
  const place = temporaryDirectory();
  const store = new SqliteStore({ directory: join(place, "origin") });
  await commit(store, await store.open(), [create(1)]);
  const file = join(place, "it's a backup");
  await store.backup(file);
  await store.close({ clean: true });
  return { place, file, directory: join(place, "restored") };
}

/** Without the seal, so that only what SQLite and the header say is left to judge it by. */
function unsealed(backup: Buffer): Buffer {
  return backup.subarray(0, backup.length - (backup.length % 512));
}

async function refusal(doing: Promise<unknown>): Promise<Error> {
  const error: unknown = await doing.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Error)) throw new Error("expected a refusal");
  return error;
}

test("a backup between commits holds all before it and none after it; its store goes on as another", async () => {
  const place = temporaryDirectory();
  const store = new SqliteStore({ directory: join(place, "origin") });
  const info = await store.open();
  await store.putDocument("token", "t", "secret");
  await store.putDefinition("orders", "h", "body");
  await commit(store, info, [create(1), create(2), create(3)]);
  await commit(store, info, [], ["letter-1", "letter-3"]);
  const before = await everything(store, 3);
  const file = join(place, "backup");
  const [, , after] = await Promise.all([
    store.backup(file),
    commit(store, info, [create(4)]),
    everything(store, 4),
  ]);
  expect(after).not.toEqual(before);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(place).toSorted()).toEqual(["backup", "origin"]);

  const directory = join(place, "deep", "restored");
  await restoreBackup({ file, directory });
  expect(readdirSync(directory).toSorted()).toEqual(["lock.db", "rondo.db"]);
  expect(statSync(join(directory, "rondo.db")).mode & 0o777).toBe(0o600);
  const restored = new SqliteStore({ directory });
  const renewed = await restored.open();
  expect(await everything(restored, 3)).toEqual(before);
  expect(renewed).toMatchObject({ owned: [{ epoch: 2, uncleanEpoch: 1 }] });
  expect(renewed.generation).not.toBe(info.generation);
  expect(renewed.key).not.toBe(info.key);
  expect(renewed.key).toHaveLength(info.key.length);
  const old = { ...fenceOf(renewed), generation: info.generation };
  expect(await restored.commit({ fence: old, writes: [create(4)] })).toMatchObject({
    kind: "fenced",
    why: expect.stringContaining("generation"),
  });
  await commit(restored, renewed, [create(4)]);
  expect((await restored.scanMail({ after: 0, max: 9, partitions: null })).map(({ order }) => order)).toEqual(
    [2, 4],
  );
  await restored.close({ clean: true });
  await store.close({ clean: true });
});

test("each restored store is another one, and one closed cleanly is unclean once it is restored", async () => {
  const { place, directory } = await oneBackup();
  const file = join(place, "origin", "rondo.db");
  const infos = [];
  for (const name of ["one", "two"]) {
    await restoreBackup({ file, directory: join(directory, name) });
    const store = new SqliteStore({ directory: join(directory, name) });
    infos.push(await store.open());
    await store.close({ clean: true });
  }
  expect(infos[0]?.generation).not.toBe(infos[1]?.generation);
  expect(infos[0]?.key).not.toBe(infos[1]?.key);
  expect(infos.map(({ owned }) => owned[0]?.uncleanEpoch)).toEqual([1, 1]);
});

test("a backup of the first version is restored, and grows up when it is opened", async () => {
  const directory = join(temporaryDirectory(), "restored");
  await restoreBackup({ file: FIXTURE, directory });
  expect(readFileSync(join(directory, "rondo.db")).readUInt32BE(60)).toBe(1);
  const store = new SqliteStore({ directory });
  await commit(store, await store.open(), [create(1)]);
  await store.close({ clean: true });
});

test("a backup with any byte flipped, cut off or added is refused, and nothing is left behind", async () => {
  const { place, file, directory } = await oneBackup();
  const whole = readFileSync(file);
  const sealAt = unsealed(whole).length;
  // What users stored, which SQLite's own check does not look at; the pages' structure; the seal itself.
  const places = [whole.indexOf("e1"), whole.indexOf("{}"), 5_000, whole.length / 2, sealAt, sealAt + 40];
  const damaged = [
    ...places.map((at) => {
      const bytes = Buffer.from(whole);
      bytes[Math.floor(at)] = (bytes[Math.floor(at)] ?? 0) ^ 1;
      return bytes;
    }),
    whole.subarray(0, whole.length - 1),
    Buffer.concat([whole, Buffer.from("\n")]),
    Buffer.concat([whole.subarray(0, sealAt), Buffer.alloc(40)]),
  ];
  for (const bytes of damaged) {
    writeFileSync(file, bytes);
    const error = await refusal(restoreBackup({ file, directory }));
    expect(error).toBeInstanceOf(StoreUnreadable);
    expect(error.message).toContain("its checksum differs");
    expect(readdirSync(place).toSorted()).toEqual(["it's a backup", "origin"]);
  }
  writeFileSync(file, whole);
  await restoreBackup({ file, directory });
});

test("a backup that has no seal, as those of before, is checked as far as can be", async () => {
  const { file, directory } = await oneBackup();
  writeFileSync(file, unsealed(readFileSync(file)));
  await restoreBackup({ file, directory });
  const store = new SqliteStore({ directory });
  await store.open();
  expect((await store.load(["e1"])).map((loaded) => loaded !== null)).toEqual([true]);
  await store.close({ clean: true });
});

test("a backup never overwrites, and says where it cannot be written", async () => {
  const place = temporaryDirectory();
  const store = new SqliteStore({ directory: join(place, "origin") });
  const info = await store.open();
  const file = join(place, "there");
  writeFileSync(file, "mine");
  const exists = await refusal(store.backup(file));
  expect(exists).toBeInstanceOf(RondoError);
  expect(exists).toMatchObject({ code: "conflict", hint: expect.stringContaining("choose another name") });
  expect(readFileSync(file, "utf8")).toBe("mine");
  expect(await refusal(store.backup(join(place, "origin", "rondo.db")))).toMatchObject({ code: "conflict" });
  const nowhere = await refusal(store.backup(join(place, "no", "where")));
  expect(nowhere).toMatchObject({ code: "invalid_input", message: expect.stringContaining("ENOENT") });
  await commit(store, info, [create(1)]);
  await store.close({ clean: true });
  expect(readdirSync(place).toSorted()).toEqual(["origin", "there"]);
});

test("a backup that fails on its way leaves no file, and the store goes on", async () => {
  const place = temporaryDirectory();
  const { driver, watched } = await watchedDriver();
  mkdirSync(join(place, "origin"));
  const store = new DirectoryStore(join(place, "origin"), driver);
  const fence = fenceOf(store.open({ pid: 1, startedAt: 1 }));
  const file = join(place, "backup");
  for (const code of [FULL, 778]) {
    watched.beforeExec = (sql) => {
      if (sql.startsWith("VACUUM")) throw new SqliteError("no luck", code);
    };
    expect(() => store.backup(file)).toThrow(
      /backup to .* failed \(no luck\); the store itself is not affected/,
    );
    expect(readdirSync(place)).toEqual(["origin"]);
  }
  watched.beforeExec = () => {};
  const writes = packWrites([create(1)]);
  expect(store.commit(fence, writes)).toEqual({ kind: "ok", exists: [], fenced: [] });
  store.backup(file);
  store.close({ clean: true });
  await restoreBackup({ file, directory: join(place, "restored") });
});

test("a failed backup gives its name back", async () => {
  const place = temporaryDirectory();
  const store = new SqliteStore({ directory: join(place, "origin") });
  await store.open();
  const file = join(place, "backup");
  // A directory in the way of the unfinished copy.
  mkdirSync(join(`${file}.new`, "x"), { recursive: true });
  expect(await refusal(store.backup(file))).toMatchObject({ name: "StoreFault", retryable: true });
  expect(existsSync(file)).toBe(false);
  await store.close({ clean: true });
});

test("a directory that has a store, or is owned, gets no other", async () => {
  const { place, file } = await oneBackup();
  const origin = join(place, "origin");
  const there = await refusal(restoreBackup({ file, directory: origin }));
  expect(there).toMatchObject({
    code: "conflict",
    hint: expect.stringContaining("choose an empty directory"),
  });
  const store = new SqliteStore({ directory: origin });
  await store.open();
  expect(await refusal(restoreBackup({ file, directory: origin }))).toBeInstanceOf(DirectoryOwned);
  const live = join(origin, "rondo.db");
  const other = join(place, "other");
  expect(await refusal(restoreBackup({ file: live, directory: other }))).toBeInstanceOf(DirectoryOwned);
  expect(await store.listHeads({}, { before: null, max: 9 })).toHaveLength(1);
  await store.close({ clean: true });
  const owned = join(place, "owned");
  const child = StoreChild.run("hold", owned);
  expect(await child.line()).toBe("open");
  expect(await refusal(restoreBackup({ file, directory: owned }))).toMatchObject({
    name: "DirectoryOwned",
    owner: { pid: child.pid },
  });
  expect(await refusal(restoreBackup({ file: join(owned, "rondo.db"), directory: other }))).toMatchObject({
    code: "conflict",
    message: expect.stringContaining("rondo.db-wal"),
  });
  expect(await child.end()).toBe(0);
});

test("a file that is no whole backup is refused, and the directory stays without a store", async () => {
  const { place, file, directory } = await oneBackup();
  const whole = unsealed(readFileSync(file));
  const spoilt = (change: (bytes: Buffer) => void, end = whole.length) => {
    const bytes = Buffer.from(whole.subarray(0, end));
    change(bytes);
    return bytes;
  };
  const cases: [what: RegExp, advice: RegExp, bytes: Buffer][] = [
    [/is no SQLite database/, /restore another backup/, Buffer.from("notes ".repeat(999))],
    [/it is empty/, /restore another backup/, Buffer.alloc(0)],
    [/is damaged/, /restore another backup/, spoilt(() => {}, whole.length - 4_096)],
    [/is damaged/, /restore another backup/, spoilt((bytes) => bytes.fill(0xa5, 5 * 4_096, 6 * 4_096))],
    [/another program/, /rondo backup/, spoilt((bytes) => bytes.writeUInt32BE(1, 68))],
    [/newer Rondo/, /the newer Rondo/, spoilt((bytes) => bytes.writeUInt32BE(99, 60))],
  ];
  for (const [what, advice, bytes] of cases) {
    const bad = join(place, "bad");
    writeFileSync(bad, bytes);
    const error = await refusal(restoreBackup({ file: bad, directory }));
    expect(error).toBeInstanceOf(StoreUnreadable);
    expect(error.message).toMatch(what);
    expect(error.message).toMatch(advice);
    expect(error.message).toContain(bad);
    expect(readFileSync(bad).equals(bytes)).toBe(true);
    expect(readdirSync(directory)).toEqual(["lock.db"]);
  }
  const missing = await refusal(restoreBackup({ file: join(place, "none"), directory }));
  expect(missing).toMatchObject({ code: "not_found", hint: expect.stringContaining("rondo backup") });
  expect(await refusal(restoreBackup({ file: place, directory }))).toMatchObject({ code: "not_found" });
  await restoreBackup({ file, directory });
});

test("an index that disagrees with its table is found before the copy is used", async () => {
  const { place, file, directory } = await oneBackup();
  const bad = join(place, "bad");
  const declared = (text: string) =>
    text.replaceAll("journal_seq ON journal (e, seq)", "journal_seq ON journal (e,  at)");
  writeFileSync(bad, declared(unsealed(readFileSync(file)).toString("latin1")), "latin1");
  expect(await refusal(restoreBackup({ file: bad, directory }))).toBeInstanceOf(StoreUnreadable);
  expect(existsSync(join(directory, "rondo.db"))).toBe(false);
});
