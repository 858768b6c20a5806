// Large executions to their end: a map to a handler, graphs of tasks that wait for tasks, a crawler. Every task is counted once, and
// the heap of the process has a limit, so memory does not grow with the number of tasks beyond what a phase keeps of each.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test, vi } from "vitest";
import { effort } from "../fixtures/long.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

vi.setConfig({ testTimeout: effort({ usual: 120_000, long: 1_800_000 }) });

const PROGRAM = fileURLToPath(new URL("../fixtures/programs/large-run.mjs", import.meta.url));
const HEAP = effort({ usual: 64, long: 160 });

const RUNS = [
  ["map", effort({ usual: 5_000, long: 1_000_000 })],
  ["wide", effort({ usual: 3_000, long: 100_000 })],
  ["crawl", effort({ usual: 3_000, long: 100_000 })],
  ["deep", effort({ usual: 200, long: 100_000 })],
] as const;

const STORES = [
  ["a directory", () => `file:${temporaryDirectory()}`],
  ["PostgreSQL", async () => (await TestDatabase.make()).newDatabase()],
] as const;

describe.each(STORES)("over %s", (_, store) => {
  test.each(RUNS)("%s: %i tasks are done, each once", async (kind, count) => {
    const args = [`--max-old-space-size=${HEAP}`, PROGRAM, kind, String(count), await store()];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(JSON.parse(stdout)).toEqual({ count, failed: 0, sum: (count * (count - 1)) / 2 });
  });
});
