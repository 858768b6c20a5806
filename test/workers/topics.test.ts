// Topics over HTTP: a worker that registers for them gets commands with what their receipts would have to repeat.
import { topic } from "rondo";
import { expect, onTestFinished, test } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { command } from "../fixtures/kernel/kernel-run-fixture.ts";
import { startRemoteWorker } from "../fixtures/workers/remote-worker-fixture.ts";
import { SessionFixture } from "../fixtures/workers/session-fixture.ts";

test("a command is claimed by its topic, marked with workflow, step, attempt and token, and done by its receipt", async () => {
  const fixture = await SessionFixture.open();
  unwrap(
    fixture.sessions.register(
      { name: "test", worker: "one", handlers: [], topics: ["CMD_A"], capacity: 5 },
      "127.0.0.1",
    ),
  );
  await fixture.start("e1", [command("a"), command("b")]);
  const { work } = await fixture.claim("one");
  const [item] = work;
  expect(item).toMatchObject({
    do: "command",
    use: "topic:CMD_A",
    task: {
      cmd_type: "A",
      cmd_metadata: {
        cmd_hash: expect.any(String),
        workflow_hash: expect.any(String),
        rondo: { workflow_id: "e1", step: 0, attempt: item?.attempt, token: item?.token },
      },
    },
  });
  if (item === undefined) return;
  const { verdicts } = await fixture.tell("one", [
    item,
    1,
    { kind: "receipt", status: "done", result: { n: 1 } },
  ]);
  expect(verdicts).toEqual({ [item.attempt]: "accepted" });
  expect(await fixture.events("e1", "command.receipted")).toMatchObject([
    { result: '{"n":1}', attempt: 1, attemptId: item.attempt },
  ]);
  expect(fixture.sessions.list().map(({ handlers, topics }) => ({ handlers, topics }))).toEqual([
    { handlers: [], topics: ["CMD_A"] },
  ]);
});

test("a remote worker serves topics beside handlers", async () => {
  const server = await openServer({ store: "memory:", port: 0, onStop: () => {} });
  onTestFinished(() => server.close({ graceMs: 0 }));
  const seen: unknown[] = [];
  await startRemoteWorker({
    addresses: [server.url],
    capacity: 4,
    workflows: [
      topic("CMD_A", ({ cmd, attempt }) => {
        seen.push([cmd.cmd_type, attempt, Object.hasOwn(cmd.cmd_metadata, "rondo")]);
        return { ok: true };
      }),
    ],
  });
  const post = async (path: string, body: unknown) => {
    const response = await fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as { id: string } };
  };
  expect((await post("/v1/workflows", { name: "w", phases: [command("a")] })).status).toBeLessThan(300);
  const { body } = await post("/v1/executions", { workflow: "w", input: null });
  const lines = await (
    await fetch(`${server.url}/v1/executions/${body.id}/events`, { headers: { accept: "text/event-stream" } })
  ).text();
  expect(lines).toContain("workflow.finished");
  expect(seen).toEqual([["A", 1, true]]);
});
