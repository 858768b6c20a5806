// Which receipt topics are consumed: those with open commands, be they only in the store, and no others.
import type { Rondo } from "rondo";
import { expect, test } from "vitest";
import { described } from "../fixtures/broker/described-workflow.ts";
import { TopicFixture } from "../fixtures/broker/topic-fixture.ts";
import { until } from "../fixtures/until.ts";

const topics = TopicFixture.forEach();

/** Executions whose commands the broker has confirmed leave memory at once. */
const SMALL = { heartbeatMs: 1_000, sentMax: 0, idleMax: 0 };

const step = (name: string, topic: string, more: object = {}) => ({
  name,
  handlers: { [name]: { command: { cmd_type: "ADD", cmd_data: {} }, topic, ...more } },
});
const flowOf = (topic: string) => described(topic.toLowerCase().replaceAll("_", "-"), [step("one", topic)]);
const start = (rondo: Rondo, topic: string) => rondo.start(flowOf(topic), null as never);

/** Takes the commands out of a topic, as soon as there are so many. */
async function take(topic: string, count: number): Promise<object[]> {
  await until(`${count} in ${topic}`, async () => (await topics.amqp.ready(topic)) === count);
  return (await topics.amqp.messagesIn(topic)).map(({ body }) => body as object);
}

test("after a restart a topic is consumed for commands that are only in the store, until the last has ended", async () => {
  const first = await topics.amqp.open({ settings: SMALL });
  const ended = await start(first, "OLD_CMD");
  const [old] = await take("OLD_CMD", 1);
  topics.say("OLD_RECEIPT", { ...old, cmd_result: 1 });
  await ended.result({ timeout: 60_000 });
  const open = [await start(first, "A_CMD"), await start(first, "A_CMD"), await start(first, "A_CMD")];
  const [quick, ...slow] = await take("A_CMD", 3);
  await first.close();
  // A message that nobody may take: none of OLD_CMD is open.
  await until("it is not consumed", async () => (await topics.consumers("OLD_RECEIPT")) === 0);
  topics.say("OLD_RECEIPT", { late: true });

  const second = await topics.amqp.open({ settings: SMALL });
  await until("it is consumed", async () => (await topics.consumers("A_RECEIPT")) === 1);
  topics.say("A_RECEIPT", { ...quick, cmd_result: 1 });
  await Promise.any(open.map(({ id }) => second.execution(id).result({ timeout: 60_000 })));
  expect(await topics.consumers("A_RECEIPT")).toBe(1);
  for (const command of slow) topics.say("A_RECEIPT", { ...command, cmd_result: 1 });
  await Promise.all(open.map(({ id }) => second.execution(id).result({ timeout: 60_000 })));
  await until("it is not consumed any more", async () => (await topics.consumers("A_RECEIPT")) === 0);
  expect(await topics.channel.checkQueue("OLD_RECEIPT")).toMatchObject({ messageCount: 1, consumerCount: 0 });
  expect(await topics.amqp.ready("A_CMD")).toBe(0);
});

test("a topic is not consumed any more when its last command has timed out, although its message is still there", async () => {
  const rondo = await topics.amqp.open();
  const more = { timeout: "100ms", retry: { attempts: 1 }, tolerate: 1 };
  const flow = described("tolerant", [step("one", "T_CMD", more), step("two", "U_CMD")]);
  await rondo.start(flow, null as never);
  await until("the next command is there", async () => (await topics.amqp.ready("U_CMD")) === 1);
  expect(await topics.amqp.ready("T_CMD")).toBe(1);
  await until("it is not consumed", async () => (await topics.consumers("T_RECEIPT")) === 0);
  expect(await topics.consumers("U_RECEIPT")).toBe(1);
});
