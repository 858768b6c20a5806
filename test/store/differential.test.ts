// The same random operations through the memory store (the oracle) and through SQLite.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { effort } from "../fixtures/long.ts";
import { expectEqualAnswers } from "./suites/differential.ts";

test("memory and sqlite give equal answers to any sequence of operations", async () => {
  const makePlace = async () => {
    const directory = mkdtempSync(join(tmpdir(), "rondo-differential-"));
    return {
      makeStore: () => new SqliteStore({ directory }),
      remove: async () => rmSync(directory, { recursive: true }),
    };
  };
  await expectEqualAnswers({
    makePlace,
    runs: effort({ usual: 12, long: 300 }),
    partitions: 1,
    cluster: false,
  });
}, 600_000);
