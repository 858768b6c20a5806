// A broadcast that was given up is a dead letter: it can be looked at, asked for again, or dropped.
import { expect, test } from "vitest";
import type { PostOpTask } from "../../src/engine/post-ops/post-ops.ts";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { type Attempt, NodeFixture } from "../fixtures/engine/node-fixture.ts";
import { command } from "../fixtures/kernel/kernel-run-fixture.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

/** A store with an execution whose only broadcast was given up. */
function givenUp(id: string): NodeFixture {
  const fixture = new NodeFixture();
  const once = { cmd_result_broadcasts: [{ url: "http://127.0.0.1:9/x", retry: { attempts: 1 } }] };
  fixture.join("w1", ["topic:CMD_A"]);
  fixture.start(fixture.plan([command("a", once)]), id);
  fixture.settle();
  fixture.receipt(fixture.attempts().at(-1) as Attempt, { payload: '{"n":1}' });
  fixture.settle();
  fixture.performed(fixture.postOps.at(-1) as PostOpTask, "gone");
  fixture.settle();
  fixture.tables.close(fixture.fence, { clean: true });
  return fixture;
}

test("it is listed with its target and error, and asked for again by its letter alone", async () => {
  const { tables } = givenUp("e1");
  const api = await serve({ store: new MemoryStore(tables) });
  const [letter] = (await api.get("/v1/dead-letters")).body["data"] as unknown as { id: number }[];
  expect(letter).toMatchObject({
    execution: "e1",
    phase: "a",
    handler: "a",
    count: 1,
    tasks: [{ n: 0, attempt: 1, reason: "broadcast", error: { message: "gone" } }],
    postOp: { step: 0, op: "broadcast", target: "http://127.0.0.1:9/x" },
  });
  const retried = await api.post(`/v1/dead-letters/${letter?.id}/retry`);
  expect(retried.status).toBe(200);
  expect(retried.body).toMatchObject({ id: "e1", status: "done" });
  const kinds = tables
    .readJournal({ execution: "e1", from: 1 })
    .flatMap(decodeEntry)
    .map(({ event }) => event.kind);
  expect(kinds).toContain("postop.retried");
  expect((await api.post(`/v1/dead-letters/${letter?.id}/retry`)).status).toBe(404);
});

test("it can be dropped", async () => {
  const { tables } = givenUp("e1");
  const api = await serve({ store: new MemoryStore(tables) });
  const [letter] = (await api.get("/v1/dead-letters")).body["data"] as unknown as { id: number }[];
  expect((await api.post(`/v1/dead-letters/${letter?.id}/drop`)).status).toBe(204);
  expect((await api.get("/v1/dead-letters")).body["data"]).toEqual([]);
});
