// After an unclean end, tasks of remote workers are left alone for a while; where there were none, nothing waits.
import { describe, expect, test } from "vitest";
import { openInProcess } from "../../src/compose/compose.ts";
import { openServer } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { type Api, serve, textOf } from "../fixtures/server/api-fixture.ts";
import { idle } from "../fixtures/server/api-workflows.ts";

/** A server that another one takes the store from, without being told. */
async function abandoned(tables: MemoryTables, join: boolean): Promise<RondoServer> {
  const server = await openServer({
    port: 0,
    store: new MemoryStore(tables),
    onFault: () => {},
    onStop: () => {},
  });
  const post = async (path: string, body: unknown): Promise<Record<string, unknown>> => {
    const response = await fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.status).toBeLessThan(300);
    return (await response.json()) as Record<string, unknown>;
  };
  await post("/v1/workflows", idle);
  await post("/v1/executions", { workflow: "idle", input: { bucket: "b" }, id: "one" });
  if (!join) return server;
  const { worker } = await post("/v1/workers", { name: "w", handlers: [{ use: "idle.work" }], capacity: 5 });
  const { work } = (await post(`/v1/workers/${String(worker)}/claim`, { max: 1, waitMs: 60_000 })) as {
    work: unknown[];
  };
  expect(work).toHaveLength(1);
  return server;
}

const why = async (api: Api): Promise<string> =>
  textOf((await api.get("/v1/executions/one/why")).body["why"]);

describe("after an unclean end", () => {
  test("attempts of remote workers may still run: their tasks wait", async () => {
    const tables = new MemoryTables();
    const first = await abandoned(tables, true);
    const api = await serve({ store: new MemoryStore(tables) });
    expect(await why(api)).toContain("for attempts that may still run since before the restart");
    await first.close({ graceMs: 0 });
  });

  test("also if the owner after it ends uncleanly before anything is known", async () => {
    const tables = new MemoryTables();
    const first = await abandoned(tables, true);
    const second = await openServer({
      port: 0,
      store: new MemoryStore(tables),
      onFault: () => {},
      onStop: () => {},
    });
    const api = await serve({ store: new MemoryStore(tables) });
    expect(await why(api)).toContain("for attempts that may still run since before the restart");
    await first.close({ graceMs: 0 });
    await second.close({ graceMs: 0 });
  });

  test("also if the next owner is embedded in another program", async () => {
    const tables = new MemoryTables();
    const first = await abandoned(tables, true);
    const embedded = await openInProcess({
      store: new MemoryStore(tables),
      onFault: () => {},
      onStop: () => {},
    });
    expect(await embedded.execution("one").why()).toContain(
      "for attempts that may still run since before the restart",
    );
    await embedded.close({ graceMs: 0 });
    await first.close({ graceMs: 0 });
  });

  test("without any remote worker nothing waits", async () => {
    const tables = new MemoryTables();
    const first = await abandoned(tables, false);
    const api = await serve({ store: new MemoryStore(tables) });
    expect(await why(api)).toContain('none serves "idle.work"');
    await first.close({ graceMs: 0 });
  });
});
