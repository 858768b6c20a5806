// Commands on topics and their receipts over a real broker, as the document of commands describes them.
import type { Channel, ChannelModel } from "amqplib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { all } from "../fixtures/sdk/open-rondo-fixture.ts";
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

interface Command {
  readonly cmd_type: string;
  readonly cmd_data: Record<string, unknown>;
  readonly cmd_metadata: Record<string, unknown> & { rondo?: Record<string, unknown> };
}

/** Serves a topic: what `answer` gives is added to the command, which goes back as its receipt; null: no receipt. */
async function serve(
  topic: string,
  receiptTopic: string,
  answer: (command: Command) => object | null,
): Promise<{ seen: Command[]; channel: Channel }> {
  const connection = await fixture.broker.connect();
  connections.push(connection);
  const channel = await connection.createChannel();
  const quorum = { durable: true, arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 } };
  for (const queue of [topic, receiptTopic]) await channel.assertQueue(queue, quorum);
  const seen: Command[] = [];
  await channel.consume(topic, (message) => {
    if (message === null) return;
    const command = JSON.parse(message.content.toString()) as Command;
    seen.push(command);
    const more = answer(command);
    if (more !== null)
      channel.sendToQueue(receiptTopic, Buffer.from(JSON.stringify({ ...command, ...more })), {
        persistent: true,
      });
    channel.ack(message);
  });
  return { seen, channel };
}

const step = (name: string, topic: string, more: object = {}) => ({
  name,
  handlers: { [name]: { command: { cmd_type: name.toUpperCase(), cmd_data: { of: name } }, topic, ...more } },
});

describe("commands over topics", () => {
  test("L3 three commands on three topics go one after another, each after the receipt of the one before", async () => {
    const rondo = await fixture.open();
    const order: string[] = [];
    for (const [topic, receipt] of [
      ["A_CMD", "A_RECEIPT"],
      ["LEXI_CMD_B", "LEXI_RECEIPT_B"],
      ["C", "C_RECEIPT"],
    ] as const)
      await serve(topic, receipt, ({ cmd_type }) => {
        order.push(cmd_type);
        return { cmd_result: { of: cmd_type } };
      });
    const flow = described("flow", [step("one", "A_CMD"), step("two", "LEXI_CMD_B"), step("three", "C")]);
    const handle = await rondo.start(flow, null as never);
    await handle.result({ timeout: 100_000 });
    expect(order).toEqual(["ONE", "TWO", "THREE"]);
    const receipted = (await all(handle.events())).filter(
      ({ kind }) => kind === "workflow.command.receipted",
    );
    expect(receipted).toHaveLength(3);
  });

  test("L4 L10 a receipt that comes twice counts once; one of nobody goes to the dead letters", async () => {
    const rondo = await fixture.open();
    const { channel } = await serve("A_CMD", "A_RECEIPT", (command) => {
      const twice = Buffer.from(JSON.stringify({ ...command, cmd_result: { n: 1 } }));
      channel.sendToQueue("A_RECEIPT", twice);
      const { rondo: mark, ...metadata } = command.cmd_metadata;
      const forged = { ...mark, token: "x".repeat(43) };
      channel.sendToQueue(
        "A_RECEIPT",
        Buffer.from(JSON.stringify({ ...command, cmd_metadata: { ...metadata, rondo: forged } })),
      );
      return { cmd_result: { n: 1 } };
    });
    const other = await serve("B_CMD", "B_RECEIPT", () => ({ cmd_result: {} }));
    const handle = await rondo.start(
      described("flow", [step("one", "A_CMD"), step("two", "B_CMD")]),
      null as never,
    );
    await handle.result({ timeout: 100_000 });
    expect(other.seen).toHaveLength(1);
    await until("the forged one is there", async () => (await fixture.ready("rondo.dead")) === 1);
    expect((await fixture.messagesIn("rondo.dead"))[0]?.headers).toMatchObject({ queue: "A_RECEIPT" });
  });

  test("L5 an error is tried again by the policy; then the execution fails, and the next command is not sent", async () => {
    const rondo = await fixture.open();
    const first = await serve("A_CMD", "A_RECEIPT", () => ({ proc_err: "no such repo" }));
    const second = await serve("B_CMD", "B_RECEIPT", () => ({}));
    const retry = { attempts: 2, min: 1, max: 1 };
    const flow = described("flow", [step("one", "A_CMD", { retry }), step("two", "B_CMD")]);
    const handle = await rondo.start(flow, null as never);
    await until("it has failed", async () => (await handle.status()) === "failed");
    expect((await handle.describe()).error?.message).toContain("no such repo");
    expect(first.seen).toHaveLength(2);
    expect(second.seen).toHaveLength(0);
  });

  test("a command without a receipt is sent again after its timeout, then it has failed", async () => {
    const rondo = await fixture.open({ settings: { heartbeatMs: 1_000, sweepMs: 100 } });
    const { seen } = await serve("A_CMD", "A_RECEIPT", () => null);
    const retry = { attempts: 2, min: 1, max: 1 };
    const flow = described("flow", [step("one", "A_CMD", { retry, timeout: 500 })]);
    const handle = await rondo.start(flow, null as never);
    await until("it has failed", async () => (await handle.status()) === "failed");
    expect(seen).toHaveLength(2);
  });

  test("a cancelled command is given up: nobody waits for its receipt", async () => {
    const rondo = await fixture.open();
    const { seen } = await serve("A_CMD", "A_RECEIPT", () => null);
    const handle = await rondo.start(described("flow", [step("one", "A_CMD")]), null as never);
    await until("it is sent", () => seen.length === 1);
    await handle.cancel();
    await until("it is cancelled", async () => (await handle.status()) === "cancelled");
  });

  test("a receipt that comes after the engine was opened anew still counts", async () => {
    const first = await fixture.open();
    const { seen, channel } = await serve("A_CMD", "A_RECEIPT", () => null);
    const { id } = await first.start(described("flow", [step("one", "A_CMD")]), null as never);
    await until("it is sent", () => seen.length === 1);
    await first.close();
    channel.sendToQueue("A_RECEIPT", Buffer.from(JSON.stringify({ ...seen[0], cmd_result: { late: true } })));
    const second = await fixture.open();
    await second.execution(id).result({ timeout: 100_000 });
    expect(seen).toHaveLength(1);
  });

  test("a receipt without a mark counts if exactly one open command has its hashes", async () => {
    const rondo = await fixture.open();
    const unmarked = ({ cmd_metadata: { rondo: _, ...cmd_metadata } }: Command) => ({ cmd_metadata });
    const { seen, channel } = await serve("A_CMD", "A_RECEIPT", () => null);
    const { compilePlan } = await import("../../src/kernel/definition/plan.ts");
    const { submissionName } = await import("../../src/commands/submission-definition.ts");
    const phases = [step("one", "A_CMD")];
    const plan = compilePlan((described("flow", phases) as unknown as { definition: never }).definition);
    const flow = described(submissionName(plan.phases[0]?.handlers[0]?.command?.workflowHash ?? ""), phases);
    const first = await rondo.start(flow, null as never);
    await until("it is sent", () => seen.length === 1);
    const say = (command: Command | undefined) =>
      channel.sendToQueue(
        "A_RECEIPT",
        Buffer.from(JSON.stringify({ ...command, ...unmarked(command as Command), cmd_result: {} })),
      );
    say(seen[0]);
    await first.result({ timeout: 100_000 });
    await rondo.start(flow, null as never);
    await rondo.start(flow, null as never);
    await until("both are sent", () => seen.length === 3);
    say(seen[1]);
    await until("nobody can tell", async () => (await fixture.ready("rondo.dead")) === 1);
  });
});
