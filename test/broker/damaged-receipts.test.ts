// Receipts of an execution whose journal cannot be read, at a real broker: they are kept as dead letters.
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { until } from "../fixtures/until.ts";

test("a receipt of a damaged execution goes to the dead letters with the reason, others count", async () => {
  const fixture = await AmqpFixture.make();
  onTestFinished(() => fixture.close());
  const command = { command: { cmd_type: "ONE" }, topic: "A_CMD" };
  const flow = described("flow", [{ name: "one", handlers: { one: command } }]);
  const first = await fixture.open();
  for (const id of ["broken", "fine"]) await first.start(flow, null as never, { id });
  await until("both are sent", async () => (await fixture.ready("A_CMD")) === 2);
  await first.close();
  const database = (await loadDriver()).open(join(fixture.place.store.replace("file:", ""), "rondo.db"));
  database.exec(
    "UPDATE journal SET body = substr(body, 1, 40) || 'X' || substr(body, 42) WHERE seq = 1 AND e = (SELECT e FROM executions WHERE id = 'broken')",
  );
  database.close();

  const second = await fixture.open();
  const connection = await fixture.broker.connect();
  onTestFinished(() => connection.close());
  const channel = await connection.createChannel();
  for (const { body } of await fixture.messagesIn("A_CMD"))
    channel.sendToQueue("A_RECEIPT", Buffer.from(JSON.stringify({ ...(body as object), cmd_result: 1 })));
  await second.execution("fine").result({ timeout: 60_000 });
  await until("it is kept", async () => (await fixture.ready("rondo.dead")) === 1);
  expect(await fixture.messagesIn("rondo.dead")).toEqual([
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
