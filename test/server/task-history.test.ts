// The history of a task: every attempt with its own error, also after it was retried by a person; and groups of errors inside
// one execution.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { serve } from "../fixtures/server/api-fixture.ts";

const flow = workflow({ name: "flow" }).phase("call", {
  enumerate: () => [{ n: 0 }, { n: 1 }],
  tolerate: 2,
  retry: { attempts: 2, min: "1ms", max: "1ms" },
  process: async ({ task, attempt, step }) => {
    await step("open", () => task.n);
    if (task.n === 0 && attempt < 3) throw new TypeError(`attempt ${attempt} was refused`);
    if (task.n === 1) throw new RangeError("too far");
    return attempt;
  },
});

test("a task has all its attempts, steps and retries; errors are grouped in its execution", async () => {
  const api = await serve();
  api.rondo.serve(flow);
  await (await api.rondo.start(flow, {}, { id: "e1" })).result();
  const path = "/v1/executions/e1";
  const groups = async () =>
    (await api.get(`/v1/dead-letter-groups?execution=e1`)).body["data"] as unknown as {
      id: string;
      name: string;
      tasks: number;
    }[];
  const found = await groups();
  expect(found.map(({ name, tasks }) => [name, tasks])).toEqual(
    expect.arrayContaining([
      ["RangeError", 1],
      ["TypeError", 1],
    ]),
  );
  expect(found).toHaveLength(2);
  const type = found.find(({ name }) => name === "TypeError")?.id ?? "";
  const letters = (await api.get(`/v1/dead-letters?group=${type}`)).body["data"] as unknown as {
    tasks: { n: number }[];
  }[];
  expect(letters.flatMap(({ tasks }) => tasks.map(({ n }) => n))).toEqual([0]);
  const dry = await api.post(`/v1/dead-letter-groups/${type}/retry`, { dryRun: true });
  expect(dry.body).toEqual({ changed: 0, tasks: 1, refused: [] });
  expect((await api.post(`/v1/dead-letter-groups/${type}/retry`)).body).toMatchObject({
    changed: 1,
    tasks: 1,
  });
  await api.rondo.execution("e1").result();
  const { body } = await api.get(`${path}/tasks/0/history`);
  expect(body).toMatchObject({
    phase: "call",
    handler: "call",
    isKept: true,
    more: 0,
    task: { n: 0, status: "done", attempts: 3 },
  });
  const events = body["events"] as unknown as {
    kind: string;
    attempt: number;
    error?: { message: string };
    by?: string;
  }[];
  const of = (kind: string) => events.filter((event) => event.kind === `workflow.${kind}`);
  expect(of("tasks.retrying").map(({ attempt, error }) => [attempt, error?.message])).toEqual([
    [1, "attempt 1 was refused"],
  ]);
  expect(of("tasks.settled").map(({ attempt, error }) => [attempt, error?.message])).toEqual([
    [2, "attempt 2 was refused"],
    [3, undefined],
  ]);
  expect(of("tasks.retried")).toHaveLength(1);
  expect(of("task.step").length).toBeGreaterThan(0);
  expect((await api.get(`${path}/tasks/7/history`)).status).toBe(404);
});

test("a reason is in the audit log: from the body, or from a header", async () => {
  const api = await serve();
  await api.post("/v1/workflows", {
    rondo: 2,
    name: "nap",
    phases: [{ name: "nap", handlers: { nap: { sleep: "1h" } } }],
  });
  await api.post("/v1/executions", { workflow: "nap", id: "n1" });
  await api.post("/v1/executions/n1/pause", { reason: "a fire" });
  await fetch(`${api.url}/v1/executions/n1/resume`, {
    method: "POST",
    headers: { "rondo-reason": encodeURIComponent("it is über") },
  });
  const { body } = await api.get("/v1/audit-log");
  const log = body["data"] as unknown as { action: string; reason?: string }[];
  expect(
    log.filter(({ reason }) => reason !== undefined).map(({ action, reason }) => [action, reason]),
  ).toEqual([
    ["execution.resume", "it is über"],
    ["execution.pause", "a fire"],
  ]);
  expect((await api.get("/v1/executions/n1/why")).body).toMatchObject({ waits: "sleep", signals: [] });
});
