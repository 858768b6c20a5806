// Compensations over a real broker: a raw worker, and one in TypeScript, serve the name in `compensate`.
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(() => fixture.close());

const flow = described("shop", [
  {
    name: "charge",
    handlers: { charge: { use: "shop.charge", tasks: ["a", "b"], compensate: { use: "shop.refund" } } },
  },
  {
    name: "pack",
    handlers: { pack: { use: "shop.pack", tasks: ["c"], compensate: { use: "shop.unpack" } } },
  },
  { name: "wait", handlers: { wait: { waitFor: "never" } } },
]);

test("workers over AMQP undo what was done, and no queue is left behind", async () => {
  const rondo = await fixture.open();
  const undone: unknown[] = [];
  const raw = await fixture.worker({
    "shop.charge": { process: () => "receipt" },
    "shop.refund": { process: () => null },
  });
  const worker = testWorker(fixture.broker.url, [
    {
      name: "shop",
      handlers: [
        { use: "shop.pack", process: () => ({ box: 7 }) },
        {
          use: "shop.unpack",
          process: ({ task, outcome, result, idempotencyKey }) =>
            void undone.push({ task, outcome, result, idempotencyKey }),
        },
      ],
    },
  ]);
  try {
    await worker.start();
    const execution = await rondo.start(flow, null as never, { id: "first" });
    await until("it waits", async () => (await execution.describe()).phase === "wait");
    await execution.cancel();
    await until("it has ended", async () => (await execution.status()) === "cancelled");
    expect(undone).toEqual([
      { task: "c", outcome: "done", result: { box: 7 }, idempotencyKey: "first/pack/1/pack/0" },
    ]);
    const refunds = raw.seen.map(({ body }) => body).filter(({ phase }) => phase === "charge~compensate");
    expect(refunds.map(({ data, outcome, result }) => [data, outcome, result])).toEqual([
      ["a", "done", "receipt"],
      ["b", "done", "receipt"],
    ]);
    await fixture.isTidy();
    expect(await fixture.ready("rondo.dead")).toBe(0);
    expect(fixture.faults).toEqual([]);
  } finally {
    await worker.stop(0);
  }
});
