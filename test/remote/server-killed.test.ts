// kill -9 of the server while a worker process is at work: claims, events and receipts are cut off in the middle.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { decodeEntry } from "../../src/kernel/journal-entry.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { CliProcess, cli, folder } from "../cli/cli-process.ts";

const FLOW = `
import { workflow } from "rondo";
export const w = workflow({ name: "w" }).phase("a", {
  enumerate: ({ input }) => Array.from({ length: input.tasks }, (_, i) => i),
  process: async ({ task, log }) => {
    await new Promise((resolve) => setImmediate(resolve));
    if (task % 500 === 0) log("at " + task);
    return task;
  },
});
`;
const TASKS = 6_000;

async function startServer(cwd: string, port: string): Promise<{ server: CliProcess; url: string }> {
  const server = new CliProcess("bin/rondo.js", ["start", "--port", port, "--json"], { cwd });
  const line = await server.line(/^\{"url"/);
  return { server, url: (JSON.parse(line) as { url: string }).url };
}

test("it goes on with the next server on the same directory; every task is counted once", async () => {
  const cwd = folder({ "flow.mjs": FLOW });
  let { server, url } = await startServer(cwd, "0");
  const { port } = new URL(url);
  const worker = new CliProcess("bin/rondo.js", ["worker", "flow.mjs", "--url", url, "--capacity", "300"], {
    cwd,
  });
  await worker.line(/^worker .* serves /);
  const started = await cli(
    ["run", "w", "-i", JSON.stringify({ tasks: TASKS }), "--id", "big", "--url", url],
    { cwd },
  );
  expect(started.code).toBe(0);
  // Killed in the middle of the work, told by a line that a task logs.
  await worker.line(/at 2000$/);
  server.kill("SIGKILL");
  await server.ended;
  ({ server, url } = await startServer(cwd, port));
  const waited = await cli(["wait", "big", "--url", url], { cwd });
  expect(waited.code).toBe(0);
  worker.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
  server.kill("SIGTERM");
  await server.ended;
  expect(await settled(cwd)).toEqual(Array(TASKS).fill(1));
  rmSync(join(cwd, ".rondo"), { recursive: true, force: true });
}, 120_000);

/** How often each task of the execution was settled as done. */
async function settled(cwd: string): Promise<number[]> {
  const store = openSqliteStore({ directory: join(cwd, ".rondo") });
  await store.open();
  const counts = Array(TASKS).fill(0) as number[];
  for (let from = 1; ; ) {
    const entries = await store.readJournal({ execution: "big", from, rowsMax: 100 });
    if (entries.length === 0) break;
    for (const entry of entries) {
      from = entry.seq + entry.count;
      for (const { event } of decodeEntry(entry))
        if (event.kind === "tasks.settled")
          for (const task of event.tasks) counts[task] = (counts[task] ?? 0) + 1;
    }
  }
  await store.close({ clean: true });
  return counts;
}
