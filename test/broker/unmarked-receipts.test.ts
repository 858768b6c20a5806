// Receipts without a mark, or with one that is not Rondo's, at a real broker: none of them completes a command that it
// may not be of.
import type { Rondo } from "rondo";
import { beforeEach, expect, test } from "vitest";
import { submissionName } from "../../src/commands/submission-definition.ts";
import type { Definition } from "../../src/kernel/definition/definition.ts";
import { compilePlan } from "../../src/kernel/definition/plan.ts";
import { described } from "../fixtures/broker/described-workflow.ts";
import { type Command, TopicFixture } from "../fixtures/broker/topic-fixture.ts";
import { until } from "../fixtures/until.ts";

const topics = TopicFixture.forEach();
let rondo: Rondo;
beforeEach(async () => {
  rondo = await topics.amqp.open();
});

/** Starts a workflow of one command, named as one that was handed in as a document: topics are not in its hash. */
function start(topic: string, name?: string) {
  const phases = [{ name: "one", handlers: { one: { command: { cmd_type: "ONE" }, topic } } }];
  const flow = described("flow", phases) as unknown as { definition: Definition };
  const [first] = compilePlan(flow.definition).commands;
  const named = name ?? submissionName(first?.command.workflowHash ?? "");
  return rondo.start(described(named, phases), null as never);
}

/** The receipt of a command with another mark, or without one. */
function receipt({ cmd_metadata, ...command }: Command, mark?: unknown): object {
  const { rondo: _, ...metadata } = cmd_metadata;
  return {
    ...command,
    cmd_metadata: { ...metadata, ...(mark === undefined ? {} : { rondo: mark }) },
    cmd_result: { ok: true },
  };
}

/** The reasons of all dead letters, once there are so many. */
async function reasons(count: number): Promise<string[]> {
  await until(`${count} dead letters`, async () => (await topics.amqp.ready("rondo.dead")) === count);
  return (await topics.amqp.messagesIn("rondo.dead")).map(({ headers }) => String(headers["reason"]));
}

test("it counts only on the receipt topic of its command", async () => {
  const mine = await start("B_CMD");
  const other = await start("C_CMD");
  const command = await topics.next("B_CMD");
  await topics.next("C_CMD");
  // Both commands have the same hashes. Whoever may write to one topic only says nothing about the other.
  topics.say("C_RECEIPT", receipt(command));
  await other.result({ timeout: 60_000 });
  expect(await mine.status()).toBe("running");
  await start("C_CMD");
  await topics.next("C_CMD");
  topics.say("B_RECEIPT", receipt(command));
  await mine.result({ timeout: 60_000 });
  expect(await topics.amqp.ready("rondo.dead")).toBe(0);
});

test("a mark that is no mark of Rondo's never counts by its hashes", async () => {
  const handle = await start("B_CMD");
  const command = await topics.next("B_CMD");
  const mark = command.cmd_metadata.rondo;
  const wrong = ["changed", "", [], [mark], 0, 7, false, true, {}, { ...mark, token: "x".repeat(43) }];
  for (const each of wrong) topics.say("B_RECEIPT", receipt(command, each));
  const found = await reasons(wrong.length);
  const isNoObject =
    "`cmd_metadata.rondo` is not an object: the receipt must repeat the value of the command unchanged";
  expect(found.filter((reason) => reason === isNoObject)).toHaveLength(8);
  expect(await handle.status()).toBe("running");
  topics.say("B_RECEIPT", receipt(command, null));
  await handle.result({ timeout: 60_000 });
});

test("a duplicate without a mark does not complete an equal command that was open at the same time", async () => {
  const handles = [await start("B_CMD"), await start("B_CMD")];
  const [first, second] = [await topics.next("B_CMD"), await topics.next("B_CMD")];
  topics.say("B_RECEIPT", { ...first, cmd_result: { ok: true } });
  const isDone = async () =>
    (await Promise.all(handles.map((handle) => handle.status()))).filter((one) => one === "done");
  await until("one of them is done", async () => (await isDone()).length === 1);
  topics.say("B_RECEIPT", receipt(first));
  expect(await reasons(1)).toEqual([
    "`cmd_metadata.rondo` is missing, and several commands with the hashes of the receipt were open at the same time, and the receipt may belong to any of them",
  ]);
  expect(await isDone()).toHaveLength(1);
  topics.say("B_RECEIPT", { ...second, cmd_result: { ok: true } });
  await until("both are done", async () => (await isDone()).length === 2);
  // One that is sent after all others have ended is told by its hashes.
  const third = await start("B_CMD");
  topics.say("B_RECEIPT", receipt(await topics.next("B_CMD")));
  await third.result({ timeout: 60_000 });
});

test("it counts for a workflow that has a name of its own, in a process that serves no API", async () => {
  const handle = await start("B_CMD", "bill-customers");
  topics.say("B_RECEIPT", receipt(await topics.next("B_CMD")));
  await handle.result({ timeout: 20_000 });
  expect(await topics.amqp.ready("rondo.dead")).toBe(0);
});
