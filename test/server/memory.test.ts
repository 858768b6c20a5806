// What is started or read over the API does not stay in memory: residents are counted, not bytes.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { ended, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles, idle } from "../fixtures/server/api-workflows.ts";

const SETTINGS = { windowMax: 128, idleMax: 64 };
const BOUND = SETTINGS.windowMax + SETTINGS.idleMax;
const TOGETHER = 50;

/** Does something so many times, some at a time. */
async function times(count: number, run: (i: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < count; from += TOGETHER)
    await Promise.all(Array.from({ length: Math.min(TOGETHER, count - from) }, (_, i) => run(from + i)));
}

test("starts and reads of more executions than the window holds leave no more residents than it", async () => {
  const api = await serve({ settings: SETTINGS, limits: { requestsPerSecond: 1_000_000 } });
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const held = workflow({ name: "held" }).phase("work", { concurrency: 1, process: () => gate });
  api.rondo.serve(held, approval);
  await api.post("/v1/workflows", idle);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (3 as never));
  const { engine } = api.server;
  const count = BOUND * 4;
  const ids: string[] = [];
  let most = 0;
  const look = (): void => {
    most = Math.max(most, engine.residentCount);
  };
  await times(count, async (i) => {
    // Some that have work and a worker, some that wait for a signal, some that nobody serves.
    const workflows = ["held", "held", "approval", "idle"];
    const started = await fetch(`${api.url}/v1/executions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ workflow: workflows[i % 4], input: { bucket: "b" } }),
    });
    expect(started.status).toBe(201);
    ids.push(((await started.json()) as { id: string }).id);
    look();
  });
  await times(count, async (i) => {
    const read = await fetch(`${api.url}/v1/executions/${ids[i]}`);
    expect(((await read.json()) as { status: string }).status).toBe("running");
    look();
  });
  // Beside the window: those that are being answered.
  expect(most).toBeLessThanOrEqual(BOUND + TOGETHER);
  expect(engine.residentCount).toBeLessThanOrEqual(BOUND + 1);
  expect(engine.overview().working).toBeLessThanOrEqual(SETTINGS.windowMax + 1);
  release();
});

test("what has ended leaves memory, and reading it does not bring it back", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  const ids: string[] = [];
  for (let i = 0; i < 20; i++) {
    const { body } = await api.post("/v1/executions", { workflow: "doubles", input: {} });
    ids.push(textOf(body["id"]));
  }
  for (const id of ids) expect((await ended(api, id))["status"]).toBe("done");
  for (const id of ids) expect((await api.get(`/v1/executions/${id}/why`)).status).toBe(200);
  expect(api.server.engine.residentCount).toBe(0);
});
