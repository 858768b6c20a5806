// A debounce with real processes: several clients signal executions that end all the time, on both stores. Every item that was
// sent is taken by exactly one execution.
import { fileURLToPath } from "node:url";
import { connect } from "rondo/client";
import { afterAll, expect, test, vi } from "vitest";
import { CliProcess, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";
import { effort } from "../fixtures/long.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

vi.setConfig({ testTimeout: effort({ usual: 120_000, long: 1_800_000 }) });

const CLIENT = "test/fixtures/server/debounce-client.mjs";
const CLIENTS = 3;
const NAMES = 4;
const ITEMS = effort({ usual: 100, long: 10_000 });
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DEBOUNCE = {
  rondo: 2,
  name: "debounce",
  phases: [
    { name: "collect", handlers: { collect: { waitFor: "item" } }, maxVisits: 10_000 },
    { name: "send", handlers: { send: { sleep: "2ms" } }, maxVisits: 10_000 },
  ],
  unread: { item: "collect" },
};

let database: TestDatabase | null = null;
afterAll(() => database?.remove());

test.each(["embedded", "postgres"])("no item is lost or taken twice: %s", async (kind) => {
  const cwd = folder();
  database ??= kind === "postgres" ? await TestDatabase.make() : null;
  const args = database === null ? [] : ["--store", await database.newDatabase()];
  const { url } = await startServer({ cwd, args });
  const put = await fetch(`${url}/v1/workflows`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(DEBOUNCE),
  });
  expect(put.ok).toBe(true);
  const each = Math.ceil(ITEMS / CLIENTS);
  const clients = Array.from({ length: CLIENTS }, (_, i) => {
    const given = [url, String(i * each), String(each), String(NAMES)];
    return new CliProcess(CLIENT, given, { cwd: ROOT }).ended;
  });
  const executions = new Set<string>();
  let started = 0;
  for (const { code, stdout, stderr } of await Promise.all(clients)) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const said = JSON.parse(stdout) as { started: number; executions: string[] };
    started += said.started;
    for (const id of said.executions) executions.add(id);
  }
  expect(executions.size).toBe(started);
  const client = connect({ url });
  const taken: number[] = [];
  for (const id of executions) {
    // The bare id means the newest execution of the name, and `~1` the first.
    const handle = client.execution(id.includes("~") ? id : `${id}~1`);
    await handle.result();
    for await (const event of handle.events({ detail: "full" })) {
      if (event.kind === "workflow.finished") break;
      if (event.kind !== "workflow.tasks.settled" || event["phase"] !== "collect") continue;
      for (const { result } of event["tasks"] as { result: number }[]) taken.push(result);
    }
  }
  await client.close();
  taken.sort((a, b) => a - b);
  expect(taken).toEqual(Array.from({ length: CLIENTS * each }, (_, i) => i));
  // The clients wait for ends in the middle, so later items start further executions.
  expect(started).toBeGreaterThan(NAMES);
  if (process.env["RONDO_TEST_LONG"] === "1")
    process.stdout.write(`${kind}: ${taken.length} items, ${started} executions\n`);
});
