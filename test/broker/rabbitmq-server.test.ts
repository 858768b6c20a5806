import { connect } from "amqplib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import type { TestBroker } from "../fixtures/broker/test-broker-fixture.ts";

let broker: TestBroker;
beforeAll(async () => {
  broker = await openTestBroker();
}, 180_000);
afterAll(() => broker.remove());

test("a vhost of its own is empty, keeps what it is given, and its connections can be cut", async () => {
  expect(await broker.queues()).toEqual([]);
  const { url, cut } = await broker.proxy();
  const connection = await connect(url);
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("q", { durable: true, arguments: { "x-queue-type": "quorum" } });
  channel.sendToQueue("q", Buffer.from("1"), { persistent: true });
  await channel.waitForConfirms();
  connection.on("error", () => {
    // It is cut on purpose: the close that follows is what is waited for.
  });
  const closed = new Promise((resolve) => connection.on("close", resolve));
  cut();
  await closed;
  const again = await broker.connect();
  const reader = await again.createChannel();
  const message = await reader.get("q", { noAck: true });
  expect(message === false ? null : message.content.toString()).toBe("1");
  await again.close();
  expect((await broker.queues()).map(({ name }) => name)).toEqual(["q"]);
});
