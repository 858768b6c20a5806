// kill -9 of a process around the moments at which an execution ends and the next one of its id begins.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { effort } from "../fixtures/long.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

vi.setConfig({ testTimeout: effort({ usual: 120_000, long: 1_200_000 }) });

const PROGRAM = fileURLToPath(new URL("../fixtures/programs/entity-run.mjs", import.meta.url));
const COUNT = effort({ usual: 16, long: 160 });

/** Runs the program, and kills it when it has printed this number; returns its last line. */
async function run(store: string, killAt: number): Promise<string> {
  const child = spawn(process.execPath, [PROGRAM, store, String(COUNT)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let last = "";
  for await (const line of createInterface({ input: child.stdout })) {
    last = line;
    if (line === String(killAt)) child.kill("SIGKILL");
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return last;
}

const STORES = [
  ["a directory", effort({ usual: 4, long: 60 }), () => `file:${temporaryDirectory()}`],
  // A new process waits for the end of the lease of the one before.
  ["PostgreSQL", effort({ usual: 1, long: 10 }), async () => (await TestDatabase.make()).newDatabase()],
] as const;

test.each(STORES)(
  "over %s, each number is added once, and each execution continues once",
  async (_, kills, make) => {
    const store = await make();
    for (let kill = 1; kill <= kills; kill++) await run(store, Math.floor((COUNT * kill) / kills) - 1);
    const sum = (COUNT * (COUNT + 1)) / 2;
    expect(JSON.parse(await run(store, 0))).toEqual({ sum, id: `ann~${COUNT + 1}` });
  },
);
