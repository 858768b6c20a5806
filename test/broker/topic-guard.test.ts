// What a document names as topics, tried with a real broker: a command is done only by a receipt, and no queue of
// somebody else is touched.
import type { Rondo } from "rondo";
import { expect, test } from "vitest";
import { described } from "../fixtures/broker/described-workflow.ts";
import { TopicFixture } from "../fixtures/broker/topic-fixture.ts";
import { until } from "../fixtures/until.ts";

const topics = TopicFixture.forEach();

const step = (name: string, to: string, more: object = {}) => ({
  name,
  handlers: { [name]: { command: { cmd_type: name.toUpperCase(), cmd_data: {} }, topic: to, ...more } },
});

/** A workflow of one command. */
const one = (topic: string, more: object = {}) =>
  described(`flow-${topic.toLowerCase().replaceAll("_", "-")}`, [
    step("one", topic, { retry: { attempts: 1 }, ...more }),
  ]);

const dead = () => topics.amqp.ready("rondo.dead");

const start = (rondo: Rondo, flow: ReturnType<typeof one>, project = "default") =>
  rondo.start(flow, null as never, { project });

test("a command topic of one project is no receipt topic of another, and nothing is done that nobody did", async () => {
  const rondo = await topics.amqp.open();
  const victim = await start(rondo, one("PAYMENTS_CMD"), "victim");
  await expect(
    start(rondo, one("ATTACK", { receiptTopic: "PAYMENTS_CMD" }), "attacker"),
  ).rejects.toMatchObject({ code: "invalid_input", message: expect.stringContaining("is a command topic") });
  // Two projects share the command topic; receipts are matched by their tokens.
  const other = await start(rondo, one("PAYMENTS_CMD"), "other");
  // Others read receipts that counted, by either name.
  await topics.channel.assertExchange("rondo.receipts", "topic", { durable: true });
  for (const [reader, key] of [
    ["by-receipt", "PAYMENTS_RECEIPT"],
    ["by-command", "PAYMENTS_CMD"],
  ] as const) {
    await topics.channel.assertQueue(reader, { durable: true });
    await topics.channel.bindQueue(reader, "rondo.receipts", key);
  }
  const commands = [await topics.next("PAYMENTS_CMD"), await topics.next("PAYMENTS_CMD")];
  expect(await victim.status()).toBe("running");
  const marks = commands.map(({ cmd_metadata }) => cmd_metadata.rondo);
  const attempt_id = marks.find((mark) => mark["workflow_id"] === victim.id)?.["attempt"];
  for (const command of commands) topics.say("PAYMENTS_RECEIPT", { ...command, cmd_result: { paid: true } });
  await Promise.all([victim.result({ timeout: 60_000 }), other.result({ timeout: 60_000 })]);
  for (const reader of ["by-receipt", "by-command"]) {
    await until("both receipts are told", async () => (await topics.amqp.ready(reader)) === 2);
    const bodies = (await topics.amqp.messagesIn(reader)).map(({ body }) => body);
    expect(bodies).toContainEqual(
      expect.objectContaining({
        cmd_type: "ONE",
        cmd_result: { paid: true },
        proc_status: "COMPLETE",
        target_topic_name: "PAYMENTS_CMD",
        cmd_metadata: expect.objectContaining({
          rondo: { workflow_id: victim.id, step: 0, task: 0, attempt: 1, attempt_id },
        }),
      }),
    );
  }
});

test("why names the topic that nobody consumes, and the broker that is away", async () => {
  const rondo = await topics.amqp.open();
  const handle = await start(rondo, one("NOBODY_CMD"));
  await until("it is there", async () => (await topics.amqp.ready("NOBODY_CMD")) === 1);
  await until("it says so", async () =>
    (await handle.why()).includes(
      "No worker consumes the topic NOBODY_CMD at the broker; 1 message waits there.",
    ),
  );
  await rondo.close();
  const away = await topics.amqp.open({ broker: "amqp://127.0.0.1:1", store: "memory:" });
  const stuck = await start(away, one("A_CMD"));
  await until("it says what it waits for", async () =>
    /cannot be sent to the topic A_CMD: the broker is not available: ./.test(await stuck.why()),
  );
});

test("projects whose names cross are told so, whichever comes first", async () => {
  const rondo = await topics.amqp.open();
  await start(rondo, one("EMC"), "hon");
  await expect(start(rondo, one("EMC_RECEIPT"), "hon2")).rejects.toMatchObject({
    message: expect.stringContaining('"EMC_RECEIPT" is a receipt topic since its first use'),
  });
  await rondo.close();
  const again = await topics.amqp.open();
  await expect(start(again, one("EMC_RECEIPT"), "hon2")).rejects.toThrow("receipt topic");
});

test("a command to a receipt topic that was started all the same ends as failed, with the reason", async () => {
  const rondo = await topics.amqp.open();
  await start(rondo, one("EMC"));
  // A child is started without being asked at the edge.
  const child = one("EMC_RECEIPT");
  const parent = described("parent", [
    { name: "child", handlers: { child: { workflow: "flow-emc-receipt", retry: { attempts: 1 } } } },
  ]);
  rondo.serve(child);
  const handle = await start(rondo, parent);
  await until("it has failed", async () => (await handle.status()) === "failed");
  expect((await handle.describe()).error?.message).toContain('"EMC_RECEIPT" is a receipt topic');
});

test("a queue of others with messages or consumers stays untouched; listed by the operator, it is consumed", async () => {
  const rondo = await topics.amqp.open();
  await topics.channel.assertQueue("orders-of-others", { durable: true });
  for (let n = 0; n < 20; n++) topics.say("orders-of-others", { order: n });
  await until("all are there", async () => (await topics.amqp.ready("orders-of-others")) === 20);
  // Without a connection nobody can tell, and the command is judged when it is sent.
  await until("the engine is at the broker", async () =>
    (await topics.amqp.broker.queues()).some(({ name }) => name === "rondo.workflow.handler.enumerated"),
  );
  const flow = one("ORD_CMD", { receiptTopic: "orders-of-others" });
  await expect(start(rondo, flow)).rejects.toMatchObject({
    message: expect.stringContaining("20 messages"),
    hint: expect.stringContaining('list "orders-of-others" under receiptTopics'),
  });
  await topics.channel.purgeQueue("orders-of-others");
  await topics.channel.consume("orders-of-others", () => {});
  await expect(start(rondo, flow)).rejects.toThrow("1 consumers of other applications");
  await rondo.close();
  const allowed = await topics.amqp.open({ receiptTopics: ["orders-*"] });
  await start(allowed, flow);
  await until("it is consumed", async () => (await topics.consumers("orders-of-others")) === 2);
});

test("a queue that others fill before the command is sent stays untouched, and the command ends with the reason", async () => {
  const rondo = await topics.amqp.open();
  await topics.channel.assertQueue("LATE_RECEIPT", { durable: true });
  const flow = described("late", [step("one", "A_CMD"), step("two", "LATE_CMD", { retry: { attempts: 1 } })]);
  const handle = await start(rondo, flow);
  const command = await topics.next("A_CMD");
  topics.say("LATE_RECEIPT", { order: 1 });
  await until("it is there", async () => (await topics.amqp.ready("LATE_RECEIPT")) === 1);
  topics.say("A_RECEIPT", { ...command, cmd_result: {} });
  await until("it has failed", async () => (await handle.status()) === "failed");
  expect((await handle.describe()).error?.message).toContain('list "LATE_RECEIPT" under receiptTopics');
  expect(await topics.amqp.ready("LATE_RECEIPT")).toBe(1);
  expect(await dead()).toBe(0);
  // Once the operator has listed it, the command goes out again.
  await rondo.close();
  const allowed = await topics.amqp.open({ receiptTopics: ["LATE_RECEIPT"] });
  await allowed.execution(handle.id).retry();
  await topics.next("LATE_CMD");
});

test("names of Rondo's own queues are refused, also with another prefix", async () => {
  const rondo = await topics.amqp.open({ prefix: "distribot" });
  for (const name of ["distribot.dead", "distribot.workflow.handler.x.enumerate"])
    await expect(start(rondo, one("A_CMD", { receiptTopic: name }))).rejects.toThrow("cannot be a topic");
  for (const name of ["rondo.dead", "amq.direct", "rondo.workflow.handler.x.enumerate"])
    expect(() => one("A_CMD", { receiptTopic: name })).toThrow(/not a topic|cannot be a topic/);
});

test("messages that are no receipt of the command go to the dead letters, and the command stays open", async () => {
  const rondo = await topics.amqp.open();
  const handle = await start(rondo, one("A_CMD"));
  const command = await topics.next("A_CMD");
  const { rondo: mark, ...metadata } = command.cmd_metadata;
  const marked = (more: object) => ({ cmd_metadata: { ...metadata, rondo: { ...mark, ...more } } });
  const broken = [
    command,
    { ...command, proc_err: null },
    { ...command, ...marked({ step: 1 }), cmd_result: {} },
    { ...command, ...marked({ step: "0" }), cmd_result: {} },
    { ...command, ...marked({ token: "x".repeat(43) }), cmd_result: {} },
    { order: 17 },
  ];
  for (const body of broken) topics.say("A_RECEIPT", body);
  topics.channel.sendToQueue("A_RECEIPT", Buffer.from("{not json"));
  await until("all are dead letters", async () => (await dead()) === broken.length + 1);
  expect(await handle.status()).toBe("running");
  const reasons = (await topics.amqp.messagesIn("rondo.dead")).map(({ headers }) => headers["reason"]);
  expect(reasons).toContain("the message is not a receipt: it has neither `cmd_result` nor `proc_err`");
  expect(reasons).toContain(
    "`rondo.step` differs from the step of the command's attempt: the receipt must repeat `rondo` unchanged",
  );
  for (let n = 0; n < 2; n++) topics.say("A_RECEIPT", { ...command, cmd_result: { n } });
  await handle.result({ timeout: 60_000 });
});

test("an empty proc_err is an error, and the next command is not sent", async () => {
  const rondo = await topics.amqp.open();
  const flow = described("flow", [step("one", "A_CMD", { retry: { attempts: 1 } }), step("two", "B_CMD")]);
  const handle = await start(rondo, flow);
  topics.say("A_RECEIPT", { ...(await topics.next("A_CMD")), proc_err: "" });
  await until("it has failed", async () => (await handle.status()) === "failed");
  expect((await topics.amqp.broker.queues()).map(({ name }) => name)).not.toContain("B_CMD");
});

test("a receipt topic is consumed while commands are open there: not after a cancel, nor after a restart", async () => {
  const rondo = await topics.amqp.open();
  const handle = await start(rondo, one("A_CMD"));
  await topics.next("A_CMD");
  await until("it is consumed", async () => (await topics.consumers("A_RECEIPT")) === 1);
  await handle.cancel();
  await until("it is not consumed any more", async () => (await topics.consumers("A_RECEIPT")) === 0);
  // It was consumed before: what is in it does not matter.
  topics.say("A_RECEIPT", { late: true });
  const again = await start(rondo, one("A_CMD"));
  await until("it is consumed again", async () => (await topics.consumers("A_RECEIPT")) === 1);
  const command = await topics.next("A_CMD");
  await rondo.close();
  const second = await topics.amqp.open();
  await until("after a restart too", async () => (await topics.consumers("A_RECEIPT")) === 1);
  await topics.channel.deleteQueue("A_RECEIPT");
  await until("it is made again", async () =>
    (await topics.amqp.broker.queues()).some(({ name }) => name === "A_RECEIPT"),
  );
  await until("and consumed", async () => (await topics.consumers("A_RECEIPT")) === 1);
  topics.say("A_RECEIPT", { ...command, cmd_result: {} });
  await second.execution(again.id).result({ timeout: 60_000 });
  await second.close();
  await topics.amqp.open();
  await until("nothing is open", async () => (await topics.consumers("A_RECEIPT")) === 0);
});

test("a project with listed topics sends to those only, children and all", async () => {
  const rondo = await topics.amqp.open({ projects: { lexi: { topics: ["LEXI_*"] } } });
  await start(rondo, one("LEXI_CMD"), "lexi");
  await topics.next("LEXI_CMD");
  await expect(start(rondo, one("PAYMENTS_CMD"), "lexi")).rejects.toMatchObject({
    code: "forbidden",
    hint: expect.stringContaining("projects.lexi.topics"),
  });
  rondo.serve(one("PAYMENTS_CMD"));
  const parent = described("parent", [
    { name: "child", handlers: { child: { workflow: "flow-payments-cmd", retry: { attempts: 1 } } } },
  ]);
  const handle = await start(rondo, parent, "lexi");
  await until("it has failed", async () => (await handle.status()) === "failed");
  expect((await handle.describe()).error?.message).toContain('may not use the topic "PAYMENTS_CMD"');
});

test("a cancelled command is taken out of its topic, and what others have put there stays, however often", async () => {
  const rondo = await topics.amqp.open();
  await start(rondo, one("A_CMD"));
  await until("the first is there", async () => (await topics.amqp.ready("A_CMD")) === 1);
  topics.say("A_CMD", { foreign: 1 });
  await until("a foreign one too", async () => (await topics.amqp.ready("A_CMD")) === 2);
  const ready = async () => (await topics.channel.checkQueue("A_CMD")).messageCount;
  for (let n = 0; n < 2; n++) {
    const handle = await start(rondo, one("A_CMD"));
    await until("it is there", async () => (await ready()) === 3);
    await handle.cancel();
    await until("it is gone", async () => (await ready()) === 2);
  }
  // Behind messages that were looked through before, one is not searched for: none of those is lost by it.
  for (let n = 0; n < 8; n++) {
    const handle = await start(rondo, one("A_CMD"));
    await until("it is there", async () => (await ready()) >= 3);
    await handle.cancel();
    await until("it is cancelled", async () => (await handle.status()) === "cancelled");
  }
  await rondo.close();
  const bodies = (await topics.amqp.messagesIn("A_CMD")).map(({ body }) => body);
  expect(bodies).toContainEqual({ foreign: 1 });
  expect(bodies).toContainEqual(expect.objectContaining({ cmd_type: "ONE" }));
});
