// Topics as queues that others share: who else serves them, what is lost there, and what foreigners put into them.
import type { ChannelModel } from "amqplib";
import { topic } from "rondo";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
const connections: ChannelModel[] = [];
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.close();
  await fixture.close();
});

const step = (name: string, to: string, more: object = {}) => ({
  name,
  handlers: { [name]: { command: { cmd_type: name.toUpperCase(), cmd_data: {} }, topic: to, ...more } },
});

async function open() {
  const connection = await fixture.broker.connect();
  connections.push(connection);
  return connection.createChannel();
}

test("a command that waits at a topic without consumers goes to the worker that comes elsewhere", async () => {
  // Nothing is looked after: that a worker has come is enough.
  const rondo = await fixture.open({ brokerSettings: { lookMs: 600_000 } });
  const handle = await rondo.start(described("flow", [step("one", "A_CMD")]), null as never);
  await until("it is at the broker", async () => (await fixture.ready("A_CMD")) === 1);
  rondo.serve(topic("A_CMD", () => ({ here: true })));
  await handle.result({ timeout: 100_000 });
  expect(await fixture.ready("A_CMD")).toBe(0);
});

test("what others have put into a topic stays there when commands are taken back", async () => {
  const rondo = await fixture.open({ brokerSettings: { lookMs: 600_000 } });
  const handle = await rondo.start(described("flow", [step("one", "A_CMD")]), null as never);
  await until("it is at the broker", async () => (await fixture.ready("A_CMD")) === 1);
  const channel = await open();
  channel.sendToQueue("A_CMD", Buffer.from("{}"));
  await until("both are there", async () => (await fixture.ready("A_CMD")) === 2);
  rondo.serve(topic("A_CMD", () => ({ here: true })));
  await handle.result({ timeout: 100_000 });
  expect((await fixture.messagesIn("A_CMD")).map(({ body }) => body)).toContainEqual({});
});

test("of several commands of a handler each is looked after until its own receipt", async () => {
  const rondo = await fixture.open();
  const tasks = [{ n: 0 }, { n: 1 }, { n: 2 }];
  const flow = described("flow", [step("one", "A_CMD", { tasks })]);
  const handle = await rondo.start(flow, null as never);
  await until("all are at the broker", async () => (await fixture.ready("A_CMD")) === 3);
  const channel = await open();
  const first = await channel.get("A_CMD", { noAck: true });
  if (first === false) throw new Error("there is none");
  const command = JSON.parse(first.content.toString()) as object;
  channel.sendToQueue("A_RECEIPT", Buffer.from(JSON.stringify({ ...command, cmd_result: 1 })));
  await until("it counts", async () => (await handle.describe()).phases[0]?.handlers[0]?.done === 1);
  await channel.purgeQueue("A_CMD");
  await until("the others are there again", async () => (await fixture.ready("A_CMD")) === 2);
});

test("an engine that is opened anew looks after the commands that wait at topics", async () => {
  const first = await fixture.open();
  const { id } = await first.start(
    described("flow", [step("one", "A_CMD"), step("two", "B_CMD")]),
    null as never,
  );
  await until("it is at the broker", async () => (await fixture.ready("A_CMD")) === 1);
  await first.close();
  const second = await fixture.open();
  const channel = await open();
  await channel.purgeQueue("A_CMD");
  await until("it is there again", async () => (await fixture.ready("A_CMD")) === 1);
  await second.close();
  const third = await fixture.open();
  third.serve(
    topic("A_CMD", () => 1),
    topic("B_CMD", () => 2),
  );
  await third.execution(id).result({ timeout: 100_000 });
  await until("it is taken back", async () => (await fixture.ready("A_CMD")) === 0);
});

test("a topic that may not be used keeps nothing else from the broker, after a broken connection either", async () => {
  const { management, vhost } = fixture.broker;
  const { url, cut } = await fixture.broker.proxy();
  const user = `only-some-${vhost}`;
  await management.ask("PUT", `/users/${user}`, { password: "p", tags: "" });
  await management.ask("PUT", `/permissions/${vhost}/${user}`, {
    configure: "^(rondo|OPEN_).*",
    write: ".*",
    read: ".*",
  });
  try {
    const rondo = await fixture.open({
      broker: Object.assign(new URL(url), { username: user, password: "p" }).href,
    });
    const stuck = await rondo.start(described("shut", [step("one", "SHUT_CMD")]), null as never);
    const isRefused = () => fixture.faults.some(({ message }) => message.includes("SHUT_"));
    await until("it is refused", isRefused);
    cut();
    fixture.faults.length = 0;
    await until("it is refused again", isRefused);
    await rondo.start(described("open", [step("one", "OPEN_CMD")]), null as never);
    await until("the other one is there", async () => (await fixture.ready("OPEN_CMD")) === 1);
    // Somebody makes it: then it is sent.
    const channel = await open();
    for (const queue of ["SHUT_CMD", "SHUT_RECEIPT"]) await channel.assertQueue(queue, { durable: true });
    await until("it is there", async () => (await fixture.ready("SHUT_CMD")) === 1);
    await stuck.cancel();
  } finally {
    await management.ask("DELETE", `/users/${user}`);
  }
});
