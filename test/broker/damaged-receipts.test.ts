// Receipts of an execution whose journal cannot be read, at a real broker: they are kept as dead letters.
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { until } from "../fixtures/until.ts";

test("a receipt of a damaged execution goes to the dead letters with the reason, others count", async () => {
  const bench = await AmqpFixture.make();
  onTestFinished(() => bench.close());
  const command = { command: { cmd_type: "ONE" }, topic: "A_CMD" };
  const flow = described("flow", [{ name: "one", handlers: { one: command } }]);
  const first = await bench.open();
  for (const id of ["broken", "fine"]) await first.start(flow, null as never, { id });
  await until("both are sent", async () => (await bench.ready("A_CMD")) === 2);
  await first.close();
  const database = (await loadDriver()).open(join(bench.place.store.replace("file:", ""), "rondo.db"));
  database.exec(
    "UPDATE journal SET body = substr(body, 1, 40) || 'X' || substr(body, 42) WHERE seq = 1 AND e = (SELECT e FROM executions WHERE id = 'broken')",
  );
  database.close();

  const second = await bench.open();
  const connection = await bench.broker.connect();
  onTestFinished(() => connection.close());
  const channel = await connection.createChannel();
  for (const { body } of await bench.messagesIn("A_CMD"))
    channel.sendToQueue("A_RECEIPT", Buffer.from(JSON.stringify({ ...(body as object), cmd_result: 1 })));
  await second.execution("fine").result({ timeout: 60_000 });
  await until("it is kept", async () => (await bench.ready("rondo.dead")) === 1);
  expect(await bench.messagesIn("rondo.dead")).toEqual([
    {
      body: expect.objectContaining({ cmd_result: 1 }),
      headers: expect.objectContaining({
        queue: "A_RECEIPT",
        reason:
          "the execution broken is damaged, so its receipt cannot be counted: restore the execution, then send the receipt again",
      }),
    },
  ]);
});
