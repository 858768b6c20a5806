// The first example of the documents that commands come from, as it stands there, on a server without settings.
import { expect, onTestFinished, test } from "vitest";
import { documentOf, EXAMPLE, pathOf, read } from "../fixtures/broker/command-fixture.ts";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { folder, serve, until } from "../fixtures/server/api-fixture.ts";

const WORKFLOW_HASH = "3f2912a8b44767729b997a753ec6632b37949443befc03c53c622d8c6e9b030f";

test("a whole document is taken as it stands, its hashes are Rondo's, and a receipt completes it", async () => {
  const broker = await openTestBroker();
  onTestFinished(() => broker.remove());
  const api = await serve({ store: `file:${folder()}`, broker: broker.url });
  const document = { "project-x": { workflows: [{ workflow_hash: WORKFLOW_HASH, steps: [EXAMPLE] }] } };
  const got = await api.post(pathOf("project-x"), document);
  expect(got.status, got.text).toBe(201);
  const page = (got.body as unknown as Record<string, { workflows: { workflow_id: string }[] }>)["project-x"];
  const id = page?.workflows[0]?.workflow_id ?? "";

  const connection = await broker.connect();
  onTestFinished(() => connection.close());
  const channel = await connection.createChannel();
  await until(async () => (await broker.queues()).some(({ name }) => name === "LEXI_CMD_EMBED"));
  let message = await channel.get("LEXI_CMD_EMBED", { noAck: true });
  await until(async () => {
    if (message === false) message = await channel.get("LEXI_CMD_EMBED", { noAck: true });
    return message !== false;
  });
  if (message === false) throw new Error("there is no command");
  const command = JSON.parse(message.content.toString()) as Record<string, unknown>;
  expect(command).toMatchObject({
    cmd_type: "EMBED_REPO",
    cmd_metadata: {
      cmd_hash: "d071af74bb548a7eeda9a40aa64ca3456e5b199a4c6094f8f59b929f1c7dab49",
      workflow_hash: "e34997b0a1744a8f7429e7e25bcda24a914807659545ef336875de880246ce1b",
    },
  });
  expect((await read(api, "project-x", id)).steps[0]?.proc.proc_status).toMatch(/^(PENDING|RUNNING)$/);
  const receipt = { ...command, cmd_result: { vectors: 7 } };
  channel.sendToQueue("LEXI_RECEIPT_EMBED", Buffer.from(JSON.stringify(receipt)));
  await until(async () => {
    const { steps } = documentOf(await api.get(pathOf("project-x", id)));
    return steps[0]?.proc.proc_status === "COMPLETE";
  });
  const { steps, workflow_hash } = await read(api, "project-x", id);
  expect(workflow_hash).toBe("e34997b0a1744a8f7429e7e25bcda24a914807659545ef336875de880246ce1b");
  expect(steps[0]?.cmd.cmd_result).toEqual({ vectors: 7 });
});
