// An owner that has just begun, one that never listens, and one that is gone.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { awaitOwner } from "./find-server.ts";

function directory(owner?: object): string {
  const path = mkdtempSync(join(tmpdir(), "rondo-owner-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  if (owner !== undefined) writeFileSync(join(path, "owner.json"), JSON.stringify(owner));
  return path;
}

test("nobody is waited for where there is no owner, or none that lives", async () => {
  expect(await awaitOwner(directory())).toEqual({ silent: null });
  expect(await awaitOwner(directory({ pid: 2 ** 22 + 1, startedAt: 1 }))).toEqual({ silent: null });
  expect(await awaitOwner(directory({ pid: "none" }))).toEqual({ silent: null });
});

test("an owner that has just begun is waited for until it listens", async () => {
  const owner = { pid: process.pid, startedAt: 1 };
  const path = directory(owner);
  const waited = awaitOwner(path);
  writeFileSync(join(path, "owner.json"), JSON.stringify({ ...owner, listening: "unix:here" }));
  expect(await waited).toEqual({ silent: null });
});

test("an owner that does not listen is named after a while", async () => {
  expect(await awaitOwner(directory({ pid: process.pid, startedAt: 1 }))).toEqual({ silent: process.pid });
});
