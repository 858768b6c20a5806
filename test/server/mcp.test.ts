// The Model Context Protocol: the public client against a server, over HTTP, and messages of both eras by hand.
import { tmpdir } from "node:os";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { defineUpdate, flow, openRondo, type Rondo, workflow } from "rondo";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { answerMcp } from "../../src/mcp/mcp-server.ts";
import { cli } from "../fixtures/cli/cli-process-fixture.ts";

const double = workflow({ name: "double", input: z.object({ n: z.number() }) })
  .phase("twice", { process: ({ input }) => input.n * 2 })
  .returns(async ({ phases }) => ({ twice: await phases.twice.only() }));
const echo = workflow<string>({ name: "echo" }).phase("say", { process: ({ input }) => `hello ${input}` });
const approval = workflow<{ order: number }>({ name: "approval" })
  .waitFor("approved")
  .returns(({ phases }) => ({ by: phases.approved.value }));
const add = defineUpdate<string, number>("add");
const cart = flow("cart", async ({ updates, publish }) => {
  const items: string[] = [];
  for await (const { data, answer, refuse } of updates(add)) {
    if (data === "gold") {
      await refuse("sold out");
      continue;
    }
    items.push(data);
    publish({ items: items.length });
    await answer(items.length);
    if (items.length === 2) break;
  }
  return items;
});
const failing = workflow({ name: "failing" }).phase("a", {
  process() {
    throw new Error("no ink");
  },
  retry: { attempts: 1 },
});
/** Those of Rondo and the workflows. */
const TOOLS = 7 + 5;
const ADMIN = "a-token-of-some-length";

async function serve(): Promise<Rondo & { readonly url: string }> {
  const rondo = await openRondo({ store: "memory:", server: { port: 0, adminToken: ADMIN } });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  rondo.serve(double, echo, approval, cart, failing);
  await rondo.schedules.list();
  await expect.poll(async () => (await ask(rondo, "tools/list", {})).result.tools.length).toBe(TOOLS);
  return rondo as Rondo & { readonly url: string };
}

interface Task {
  readonly taskId: string;
  readonly status: string;
}

/** The fields of the results that are read here. */
interface Result extends Task {
  readonly tools: readonly unknown[];
  readonly task: Task;
  readonly tasks: readonly Task[];
  readonly inputRequests: Readonly<Record<string, unknown>>;
}

interface Answer {
  readonly result: Result;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** Sends a message to the route, with the token of an admin. */
async function ask(rondo: Rondo, method: string, params: object, token = ADMIN): Promise<Answer> {
  const response = await fetch(`${rondo.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  return (await response.json()) as Answer;
}

const modern = (params: object, hasTasks = true): object => ({
  ...params,
  _meta: {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
      extensions: hasTasks ? { "io.modelcontextprotocol/tasks": {} } : {},
    },
  },
});

async function connectClient(rondo: Rondo, token = ADMIN): Promise<Client> {
  const client = new Client({ name: "test", version: "1" });
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${rondo.url}/mcp`), { requestInit: { headers } }),
  );
  onTestFinished(() => client.close());
  return client;
}

test("the public client lists the workflows as tools and calls them", async () => {
  const rondo = await serve();
  const client = await connectClient(rondo);
  expect(client.getServerVersion()?.name).toBe("rondo");
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([
    ...[
      "rondo_list",
      "rondo_start",
      "rondo_get",
      "rondo_wait",
      "rondo_signal",
      "rondo_update",
      "rondo_cancel",
    ],
    ...["approval", "cart", "double", "echo", "failing"],
  ]);
  expect(tools.find(({ name }) => name === "double")?.inputSchema).toMatchObject({
    type: "object",
    properties: { n: { type: "number" } },
    required: ["n"],
  });
  expect(await client.callTool({ name: "double", arguments: { n: 21 } })).toMatchObject({
    structuredContent: { twice: 42 },
  });
  expect(await client.callTool({ name: "echo", arguments: { input: "ann" } })).toMatchObject({
    structuredContent: { output: "hello ann" },
  });
  const failed = await client.callTool({ name: "failing", arguments: {} });
  expect(failed.isError).toBe(true);
  expect(JSON.stringify(failed.content)).toContain("no ink");
  const wrong = await client.callTool({ name: "double", arguments: { n: "x" } });
  expect(wrong.isError).toBe(true);
  const start = { workflow: "approval", input: { order: 7 }, id: "order-7" };
  await client.callTool({ name: "rondo_start", arguments: start });
  expect(await client.callTool({ name: "rondo_get", arguments: { id: "order-7" } })).toMatchObject({
    structuredContent: { status: "running", awaits: ["approved"] },
  });
  await client.callTool({ name: "rondo_signal", arguments: { id: "order-7", name: "approved", data: "jo" } });
  expect(
    await client.callTool({ name: "rondo_wait", arguments: { id: "order-7", seconds: 10 } }),
  ).toMatchObject({
    structuredContent: { status: "done", output: { by: "jo" } },
  });
  const listed = await client.callTool({ name: "rondo_list", arguments: { workflow: "approval" } });
  expect(JSON.stringify(listed)).toContain("order-7");
});

test("the public client updates an execution, and gets the answer of its code", async () => {
  const rondo = await serve();
  const client = await connectClient(rondo);
  const call = (name: string, given: object = {}) =>
    client.callTool({ name, arguments: { id: "cart-1", ...given } });
  await call("rondo_start", { workflow: "cart" });
  const tea = { name: "add", data: "tea", updateId: "add-1" };
  expect(await call("rondo_update", tea)).toMatchObject({
    structuredContent: { execution: "cart-1", update: "add", id: "add-1", answer: 1 },
  });
  const gold = await call("rondo_update", { name: "add", data: "gold" });
  expect(gold).toMatchObject({ isError: true, structuredContent: { error: { message: "sold out" } } });
  expect(await call("rondo_get")).toMatchObject({
    structuredContent: { status: "running", published: { items: 1 }, awaits: [] },
  });
  // The code takes no updates of this name, so the call ends without an answer and says how to go on.
  const late = await call("rondo_update", { name: "pay", updateId: "pay-1", seconds: 1 });
  expect(late.isError).toBe(true);
  expect(JSON.stringify(late.content)).toMatch(/timeout.*send it again with the id .*pay-1/);
  expect(await call("rondo_update", { name: "add", data: "cups" })).toMatchObject({
    structuredContent: { answer: 2 },
  });
  expect(await call("rondo_wait")).toMatchObject({ structuredContent: { output: ["tea", "cups"] } });
  expect(await call("rondo_update", tea)).toMatchObject({ structuredContent: { answer: 1 } });
  const ended = await call("rondo_update", { name: "add", data: "more" });
  expect(ended.isError).toBe(true);
  expect(JSON.stringify(ended.content)).toContain("gone");
});

describe("version 2025-11-25", () => {
  test("a call with a task answers at once, a wait needs input, the result comes later", async () => {
    const rondo = await serve();
    const opened = await ask(rondo, "initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: {},
    });
    expect(opened.result).toMatchObject({
      protocolVersion: "2025-11-25",
      capabilities: { tasks: { requests: { tools: { call: {} } } } },
    });
    const call = { name: "approval", arguments: { order: 1 }, task: { ttl: 60_000 } };
    const { task } = (await ask(rondo, "tools/call", call)).result;
    expect(task).toMatchObject({ status: "working", ttl: null, pollInterval: 1_000 });
    const { taskId } = task;
    await expect
      .poll(async () => (await ask(rondo, "tasks/get", { taskId })).result.status)
      .toBe("input_required");
    await rondo.execution(taskId).signal("approved", "jo");
    const { result } = await ask(rondo, "tasks/result", { taskId });
    expect(result).toMatchObject({
      structuredContent: { by: "jo" },
      _meta: { "io.modelcontextprotocol/related-task": { taskId } },
    });
    expect((await ask(rondo, "tasks/get", { taskId })).result.status).toBe("completed");
    const other = (await ask(rondo, "tools/call", call)).result.task.taskId;
    expect((await ask(rondo, "tasks/cancel", { taskId: other })).result.taskId).toBe(other);
    await expect
      .poll(async () => (await ask(rondo, "tasks/get", { taskId: other })).result.status)
      .toBe("cancelled");
    const { tasks } = (await ask(rondo, "tasks/list", {})).result;
    expect(tasks.map((one) => one.taskId)).toEqual([other, taskId]);
    expect((await ask(rondo, "tasks/get", { taskId: "nobody" })).error).toMatchObject({ code: -32_602 });
    expect((await ask(rondo, "nonsense", {})).error).toMatchObject({ code: -32_601 });
  });
});

describe("version 2026-07-28", () => {
  test("is discovered, and other versions are refused with those that are known", async () => {
    const rondo = await serve();
    expect((await ask(rondo, "server/discover", modern({}))).result).toMatchObject({
      resultType: "complete",
      supportedVersions: expect.arrayContaining(["2026-07-28", "2025-11-25"]),
      capabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } },
    });
    const _meta = { "io.modelcontextprotocol/protocolVersion": "1900-01-01" };
    expect((await ask(rondo, "tools/list", { _meta })).error).toMatchObject({
      code: -32_022,
      data: { supported: expect.arrayContaining(["2026-07-28"]), requested: "1900-01-01" },
    });
    expect((await ask(rondo, "tools/list", modern({}))).result).toMatchObject({ cacheScope: "private" });
  });

  test("a short call is answered, a long one becomes a task whose wait is answered by the client", async () => {
    const rondo = await serve();
    const short = await ask(rondo, "tools/call", modern({ name: "double", arguments: { n: 1 } }));
    expect(short.result).toMatchObject({ resultType: "complete", structuredContent: { twice: 2 } });
    const call = modern({ name: "approval", arguments: { order: 2 } });
    const { result: task } = await ask(rondo, "tools/call", call);
    expect(task).toMatchObject({ resultType: "task", status: "working", ttlMs: null });
    const { taskId } = task;
    const { result: waiting } = await ask(rondo, "tasks/get", modern({ taskId }));
    expect(waiting).toMatchObject({ resultType: "complete", status: "input_required" });
    const [[key, request] = ["", null]] = Object.entries(waiting.inputRequests);
    expect(request).toMatchObject({ method: "elicitation/create", params: { mode: "form" } });
    const declined = { taskId, inputResponses: { [key]: { action: "decline" } } };
    await ask(rondo, "tasks/update", modern(declined));
    const accepted = {
      taskId,
      inputResponses: { [key]: { action: "accept", content: { data: '{ "by": "jo" }' } } },
    };
    expect((await ask(rondo, "tasks/update", modern(accepted))).result).toMatchObject({
      resultType: "complete",
    });
    await ask(rondo, "tasks/update", modern(accepted));
    await expect
      .poll(async () => (await ask(rondo, "tasks/get", modern({ taskId }))).result)
      .toMatchObject({ status: "completed", result: { structuredContent: { by: { by: "jo" } } } });
    expect((await ask(rondo, "tasks/result", modern({ taskId }))).error?.code).toBe(-32_601);
  }, 30_000);
});

test("the rights are those of the token", async () => {
  const rondo = await serve();
  const made = await fetch(`${rondo.url}/v1/tokens`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${ADMIN}` },
    body: JSON.stringify({ name: "reader", role: "viewer" }),
  });
  const { token } = (await made.json()) as { token: string };
  expect((await ask(rondo, "tools/list", {}, token)).result.tools).toHaveLength(TOOLS);
  const refused = await ask(rondo, "tools/call", { name: "double", arguments: { n: 1 } }, token);
  expect(refused.result).toMatchObject({ isError: true });
  expect(JSON.stringify(refused.result)).toContain("needs the role operator");
  const update = { name: "rondo_update", arguments: { id: "cart-1", name: "add" } };
  expect(JSON.stringify((await ask(rondo, "tools/call", update, token)).result)).toContain(
    "needs the role operator",
  );
  const nobody = await fetch(`${rondo.url}/mcp`, { method: "POST", body: "{}" });
  expect(nobody.status).toBe(401);
});

test("notifications and responses have no answer, and what is no message is refused", async () => {
  const options = { api: { json: () => Promise.reject(new Error("nothing is asked")) }, version: "1" };
  expect(await answerMcp({ jsonrpc: "2.0", method: "notifications/initialized" }, options)).toBe(null);
  expect(await answerMcp({ jsonrpc: "2.0", id: 3, result: {} }, options)).toBe(null);
  expect(await answerMcp("x", options)).toMatchObject({ id: null, error: { code: -32_600 } });
  expect(await answerMcp({ jsonrpc: "2.0", id: 4, method: "ping" }, options)).toEqual({
    jsonrpc: "2.0",
    id: 4,
    result: {},
  });
  const rondo = await serve();
  const told = await fetch(`${rondo.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${ADMIN}` },
    body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }),
  });
  expect([told.status, await told.text()]).toEqual([202, ""]);
});

test("hostile names are refused, and a workflow cannot take the name of a tool", async () => {
  const rondo = await serve();
  const waits = workflow({ name: "rondo_cancel" }).waitFor("never");
  const other = workflow<{ n: number }>({ name: "rondo_other" }).phase("a", {
    process: ({ task }) => task.n,
  });
  rondo.serve(waits, other);
  const names = async (): Promise<unknown[]> =>
    (await ask(rondo, "tools/list", {})).result.tools.map((tool) => (tool as { name: string }).name);
  await expect.poll(async () => (await names()).includes("rondo_other")).toBe(true);
  expect((await names()).filter((name) => name === "rondo_cancel")).toHaveLength(1);
  const called = await ask(rondo, "tools/call", { name: "rondo_other", arguments: { input: { n: 7 } } });
  expect(JSON.stringify(called.result)).toContain("7");
  for (const name of ["rondo_constructor", "rondo___proto__", "rondo_toString"])
    expect((await ask(rondo, "tools/call", { name })).result).toMatchObject({ isError: true });
  for (const id of ["\ud800", ".", "..", ""]) {
    const got = await ask(rondo, "tools/call", { name: "rondo_cancel", arguments: { id } });
    expect(got.error).toMatchObject({ code: -32_602 });
    expect((await ask(rondo, "tasks/get", { taskId: id })).error).toMatchObject({ code: -32_602 });
  }
  for (const name of ["\ud800", ".", "..", "", undefined]) {
    const update = { name: "rondo_update", arguments: { id: "cart-1", name } };
    expect((await ask(rondo, "tools/call", update)).error).toMatchObject({ code: -32_602 });
  }
  expect((await ask(rondo, "tools/call", { name: "\udfff" })).error).toMatchObject({ code: -32_602 });
});

test("a token of a project sees and changes only its executions", async () => {
  const rondo = await serve();
  const send = (path: string, body: object) =>
    fetch(`${rondo.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${ADMIN}` },
      body: JSON.stringify(body),
    });
  const made = await send("/v1/tokens", { name: "theirs", role: "operator", project: "theirs" });
  const { token } = (await made.json()) as { token: string };
  await send("/v1/executions", { workflow: "approval", input: { order: 1 }, id: "ours-1" });
  for (const [name, more] of [
    ["rondo_get", {}],
    ["rondo_cancel", {}],
    ["rondo_wait", { seconds: 1 }],
    ["rondo_signal", { name: "approved" }],
    ["rondo_update", { name: "approved" }],
  ] as const) {
    const got = await ask(rondo, "tools/call", { name, arguments: { id: "ours-1", ...more } }, token);
    expect(JSON.stringify(got.result)).toContain("not_found");
  }
  expect((await ask(rondo, "tasks/get", { taskId: "ours-1" }, token)).error?.data).toMatchObject({
    code: "not_found",
  });
  expect((await ask(rondo, "tasks/list", {}, token)).result.tasks).toEqual([]);
});

test("rondo mcp answers what can be answered among lines of garbage", async () => {
  const rondo = await serve();
  const lines = [
    "garbage",
    "[]",
    "null",
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rondo_constructor"}}',
    '{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"\\ud800"}}',
    '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rondo_list","arguments":{"search":"\\ud800"}}}',
    '{"jsonrpc":"2.0","id":4,"method":"ping"}',
  ];
  const options = { cwd: tmpdir(), stdin: `${lines.join("\n")}\n` };
  const { code, stdout } = await cli(["mcp", "--url", rondo.url, "--token", ADMIN], options);
  const answers = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Answer & { id: number | null });
  expect(code).toBe(0);
  expect(answers.filter(({ id }) => id === null).map(({ error }) => error?.code)).toEqual([
    -32_700, -32_600, -32_600,
  ]);
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  expect(byId.get(1)?.result).toMatchObject({ isError: true });
  expect(byId.get(2)?.error?.code).toBe(-32_602);
  expect(byId.get(3)?.result).toMatchObject({ isError: true });
  expect(byId.get(4)).toEqual({ jsonrpc: "2.0", id: 4, result: {} });
});
