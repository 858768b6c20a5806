// Chosen tasks are retried over HTTP: by number, by their error, by their dead letter, or by its group.
import { connect } from "rondo/client";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { type Attempt, NodeFixture } from "../fixtures/engine/node-fixture.ts";
import { phase } from "../fixtures/kernel/kernel-run-fixture.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

/** A store with an execution that is done; tasks 1 and 2 of 3 failed, each in an event of its own. */
function doneWithFailures(): NodeFixture {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a", "w.b"], { capacity: 10 });
  fixture.start(fixture.plan([phase("a", { tasks: [0, 1, 2], tolerate: 2 }), phase("b")]), "e1");
  fixture.settle();
  const fatal = { status: "failed", payload: '{"name":"Error","message":"boom"}', fatal: true } as const;
  for (const [i, attempt] of fixture.attempts().entries()) {
    fixture.receipt(attempt, i === 0 ? { payload: "1" } : fatal);
    fixture.settle();
  }
  fixture.receipt(fixture.attempts().at(-1) as Attempt, { payload: "2" });
  fixture.settle();
  fixture.tables.close(fixture.fence, { clean: true });
  return fixture;
}

test("they are counted, retried and taken from the dead letters; the others stay there", async () => {
  const { tables } = doneWithFailures();
  const api = await serve({ store: new MemoryStore(tables) });
  const letters = async () => (await api.get("/v1/dead-letters")).body["data"] as unknown as { id: number }[];
  expect(await letters()).toHaveLength(2);
  const path = "/v1/executions/e1/tasks/retry";
  const counted = await api.post(path, { phase: "a", dryRun: true });
  expect(counted.body).toEqual({ tasks: 2, skipped: ["b"] });
  expect((await api.post(path, { phase: "a", numbers: [0] })).body).toMatchObject({ code: "wrong_status" });
  const handle = connect({ url: api.url }).execution("e1");
  expect(await handle.retryTasks({ phase: "a", numbers: [1] })).toEqual({ tasks: 1, skipped: ["b"] });
  expect(await handle.status()).toBe("running");
  const [left, ...others] = await letters();
  expect(others).toEqual([]);
  expect((await api.post(`/v1/dead-letters/${left?.id}/retry`)).body).toMatchObject({ status: "running" });
  expect(await letters()).toEqual([]);
});

test("they are chosen by their error, and a group of dead letters retries only its own tasks", async () => {
  const { tables } = doneWithFailures();
  const api = await serve({ store: new MemoryStore(tables) });
  const groups = async () =>
    (await api.get("/v1/dead-letter-groups")).body["data"] as unknown as { id: string; tasks: number }[];
  const [group] = await groups();
  expect(group).toMatchObject({ tasks: 2 });
  const handle = connect({ url: api.url }).execution("e1");
  expect(await handle.retryTasks({ error: group?.id ?? "" }, { dryRun: true })).toMatchObject({ tasks: 2 });
  expect(await handle.retryTasks({ error: "Error" }, { dryRun: true })).toMatchObject({ tasks: 2 });
  const path = "/v1/executions/e1/tasks/retry";
  expect((await api.post(path, { error: "Other" })).status).toBe(404);
  expect((await api.post(path, {})).body).toMatchObject({ code: "invalid_input", path: "phase" });
  expect((await api.post(`/v1/dead-letter-groups/${group?.id}/retry`)).body).toEqual({
    changed: 1,
    tasks: 2,
    refused: [],
  });
  expect(await handle.status()).toBe("running");
  expect(await groups()).toEqual([]);
  const [a] = (await handle.describe()).phases.filter(({ name }) => name === "a");
  expect(a?.handlers[0]).toMatchObject({ done: 1, failed: 0, pending: 2 });
});
