// A broker that is out of memory takes no messages (`connection.blocked`): engine and workers wait and say so, nothing
// is lost, and everything goes on when it takes messages again.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import { checkBroker } from "../../src/net/amqp/check-broker.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { RabbitServer } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { until } from "../fixtures/until.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function openEngine(broker: string) {
  const directory = mkdtempSync(join(tmpdir(), "rondo-amqp-"));
  ends.push(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  const server = await openServer({
    store: `file:${directory}`,
    port: 0,
    broker,
    brokerSettings: { broadcastMs: 300, lookMs: 300, silenceMs: 1_000, silencesMax: 2 },
    onFault: () => {},
  });
  ends.push(() => server.close({ graceMs: 0 }));
  const text = async (path: string) => (await fetch(`${server.url}${path}`)).text();
  const get = async (path: string) => JSON.parse(await text(path)) as never;
  const post = async (path: string, body: unknown) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(await answer.text());
  };
  return { text, get, post };
}

/** A worker that counts what it began; `gate` holds each task. */
async function hire(url: string, gate: () => Promise<void>) {
  const troubles: (string | null)[] = [];
  const begun: number[] = [];
  const process = async ({ number }: { readonly number: number }) => {
    begun.push(number);
    await gate();
    return number;
  };
  const worker = testWorker(url, [{ name: "flow", handlers: [{ use: "work", process }] }], {
    capacity: 20,
    onTrouble: (what) => troubles.push(what),
  });
  ends.push(() => worker.stop(0));
  await worker.start();
  return { troubles, begun };
}

test("a broker without memory: nothing is lost, it is said everywhere, and all goes on afterwards", async () => {
  const rabbit = await RabbitServer.make();
  ends.push(() => rabbit.remove());
  const { text, get, post } = await openEngine(rabbit.url);
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const { troubles, begun } = await hire(rabbit.url, () => opened);
  const handlers = { work: { use: "work", tasks: Array.from({ length: 200 }, (_, i) => i) } };
  await post("/v1/workflows", { rondo: 1, name: "flow", phases: [{ name: "work", handlers }] });
  const status = async (id: string) =>
    ((await get(`/v1/executions/${id}`)) as { status: string; phases: { handlers: object[] }[] }) ?? null;
  await post("/v1/executions", { workflow: "flow", id: "before", input: null });
  await until("the worker has some", () => begun.length === 20);

  await rabbit.control("set_vm_memory_high_watermark", "0.00000001");
  await post("/v1/executions", { workflow: "flow", id: "during", input: null });
  open();
  const brokerState = async () => ((await get("/readyz")) as { broker?: string }).broker;
  await until("the engine knows", async () => (await brokerState()) === "blocked");
  await until("the worker knows", () =>
    troubles.some((what) => what?.includes("takes no messages") === true),
  );
  const why = async (id: string) => JSON.stringify(await get(`/v1/executions/${id}/why`));
  expect(await why("during")).toMatch(/takes no messages/);
  await expect(checkBroker(rabbit.url)).rejects.toThrow(/takes no messages/);
  // Longer than silence may last otherwise.
  const blockedUntil = Date.now() + 4_000;
  await until("it has been so for a while", () => Date.now() > blockedUntil);
  expect(await brokerState()).toBe("blocked");

  await rabbit.control("set_vm_memory_high_watermark", "0.6");
  await until("the engine goes on", async () => (await brokerState()) === "up");
  for (const id of ["before", "during"]) {
    await until(`${id} is done`, async () => (await status(id)).status === "done");
    expect((await status(id)).phases[0]?.handlers[0]).toMatchObject({ total: 200, done: 200 });
  }
  expect(troubles.at(-1)).toBe(null);
  expect(await checkBroker(rabbit.url)).toContain("RabbitMQ");
  const figures = await text("/metrics");
  expect(figures).toContain("# TYPE rondo_broker_published_total counter");
  expect(figures).toMatch(/^rondo_broker_receipts_total 400$/m);
  expect(figures).toMatch(/^rondo_broker_up 1$/m);
  // Nothing was given out twice because of it.
  expect(begun).toHaveLength(400);
}, 240_000);

test("an engine and a worker end although the broker takes nothing", async () => {
  const rabbit = await RabbitServer.make();
  ends.push(() => rabbit.remove());
  const { get, post } = await openEngine(rabbit.url);
  await rabbit.control("set_vm_memory_high_watermark", "0.00000001");
  const handlers = { work: { use: "work", tasks: [1] } };
  await post("/v1/workflows", { rondo: 1, name: "flow", phases: [{ name: "work", handlers }] });
  await post("/v1/executions", { workflow: "flow", id: "one", input: null });
  await until(
    "the engine knows",
    async () => ((await get("/readyz")) as { broker?: string }).broker === "blocked",
  );
  const [removeStore, closeEngine] = [ends[1], ends[2]];
  ends.splice(1, 2);
  await closeEngine?.();
  await removeStore?.();
}, 240_000);
