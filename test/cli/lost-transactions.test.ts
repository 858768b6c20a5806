// A write-ahead log that is damaged before its end: doctor says what is lost before and after the store is opened, and
// so does /readyz.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lostInWal } from "../../src/store/sqlite/files/wal-losses.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { cli, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";
import { commit, start } from "../fixtures/store/example-writes.ts";

/** A data directory as a crash leaves it, with one byte of its log changed. */
async function damagedLog(): Promise<{ cwd: string; lost: number }> {
  const cwd = folder();
  const [origin, copy] = [join(cwd, "origin"), join(cwd, ".rondo")];
  mkdirSync(copy, { mode: 0o700 });
  const store = new SqliteStore({ directory: origin });
  const info = await store.open();
  for (let i = 0; i < 9; i++) await commit(store, info, [start(`e${i}`)]);
  for (const name of ["rondo.db", "rondo.db-wal"]) copyFileSync(join(origin, name), join(copy, name));
  await store.close({ clean: true });
  const wal = join(copy, "rondo.db-wal");
  const bytes = readFileSync(wal);
  const at = Math.floor(bytes.length / 2);
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(wal, bytes);
  return { cwd, lost: lostInWal(wal) };
}

test("lost transactions are told by doctor, and by /readyz of the server that opened the store", async () => {
  const { cwd, lost } = await damagedLog();
  expect(lost).toBeGreaterThan(1);
  const says = `its write-ahead log is damaged or missing, and it has lost at least ${lost} transactions; compare with a backup`;
  const before = await cli(["doctor"], { cwd });
  expect(before).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`✗ store      file:.rondo: ${says}`),
  });
  const server = await startServer({ cwd });
  const ready = await fetch(`${server.url}/readyz`);
  expect([ready.status, await ready.json()]).toEqual([200, { status: "ready", lostTransactions: lost }]);
  const running = await cli(["doctor"], { cwd });
  expect(running).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`✗ server     file:.rondo opened its store: ${says}`),
  });
  expect(running.stdout).toMatch(/^✓ store /m);
  server.process.kill("SIGTERM");
  await server.process.ended;
  expect((await cli(["doctor"], { cwd })).code).toBe(0);
});
