// Ids and names that do not fit into a queue's name as they are, with a real broker: the longest, and those of other characters.
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(() => fixture.close());

const IDS = ["a/b", "a.b", "100%", "%2F", "?#&*", "ä ö", "日本語", "🚀", "語".repeat(66), "x".repeat(200)];
const PHASE = "p".repeat(40);
const HANDLER = "h".repeat(40);
const USE = `u${".long".repeat(29)}`;
const TOPIC = `CMD_${"T".repeat(196)}`;

const command = (topic: string) => ({ command: { cmd_type: "ADD", cmd_data: { n: 1 } }, topic });
const flow = described("odd", [
  { name: PHASE, handlers: { [HANDLER]: { use: USE, enumerate: { use: USE } } } },
  { name: "command", handlers: { command: command(TOPIC) } },
]);

test("executions of any id are enumerated, done and end over the broker, also by the next process", async () => {
  const first = await fixture.open();
  for (const id of IDS) await first.start(flow, null as never, { id });
  const queue = `rondo.workflow.handler.${USE}.enumerate`;
  await until("all enumerations are there", async () => (await fixture.ready(queue)) === IDS.length);
  await first.close();

  const second = await fixture.open();
  const tasks: string[] = [];
  const worker = testWorker(fixture.broker.url, [
    {
      name: "odd",
      handlers: [
        {
          use: USE,
          enumerate: () => [1, 2, 3, 4],
          process: ({ execution }) => void tasks.push(execution),
        },
      ],
    },
    { name: "topic", handlers: [{ use: `topic:${TOPIC}`, process: () => ({ added: 1 }) }] },
  ]);
  try {
    await worker.start();
    const raw = await fixture.worker({ [USE]: { enumerate: () => [1, 2, 3, 4], process: () => "raw" } });
    await Promise.all(IDS.map((id) => second.execution(id).result({ timeout: 100_000 })));
    expect(tasks.length + raw.seen.length).toBe(4 * IDS.length);
    const seen = new Set([...tasks, ...raw.seen.map(({ body }) => String(body["workflow_id"]))]);
    expect([...seen].sort()).toEqual([...IDS].sort());
    for (const id of IDS)
      expect((await second.execution(id).describe()).phases.map(({ handlers }) => handlers[0]?.done)).toEqual(
        [4, 1],
      );
    await fixture.isTidy();
    expect(await fixture.ready("rondo.dead")).toBe(0);
    expect(fixture.faults).toEqual([]);
  } finally {
    await worker.stop(0);
  }
});

test("commands of any id are found in their topic when they are cancelled, and their receipts by what they repeat", async () => {
  const rondo = await fixture.open();
  const waiting = described("waiting", [{ name: "command", handlers: { command: command("ODD_CMD") } }]);
  for (const id of IDS) await rondo.start(waiting, null as never, { id });
  await until("all are there", async () => (await fixture.ready("ODD_CMD")) === IDS.length);
  const [cancelled, done] = [IDS.slice(5), IDS.slice(0, 5)];
  await Promise.all(cancelled.map((id) => rondo.execution(id).cancel()));
  await until("the cancelled ones are gone", async () => (await fixture.ready("ODD_CMD")) === done.length);
  const connection = await fixture.broker.connect();
  const channel = await connection.createChannel();
  for (const { body } of await fixture.messagesIn("ODD_CMD"))
    channel.sendToQueue("ODD_RECEIPT", Buffer.from(JSON.stringify({ ...(body as object), cmd_result: 1 })));
  await Promise.all(done.map((id) => rondo.execution(id).result({ timeout: 60_000 })));
  for (const id of cancelled)
    await until("it is cancelled", async () => (await rondo.execution(id).status()) === "cancelled");
  expect(await fixture.ready("rondo.dead")).toBe(0);
  await connection.close();
});
