// What a node takes from others: only what is signed with the cluster's secret, and only what it understands.
import { describe, expect, test } from "vitest";
import { digestOf, PeerKey } from "../../../src/cluster/peers/peer-key.ts";
import { BODIES, checkBody } from "../../../src/cluster/peers/peer-wire.ts";
import type { Request } from "../../../src/engine/io.ts";
import type {
  ControlMessage,
  Outcome,
  SignalMessage,
  StartMessage,
  TaskWait,
} from "../../../src/kernel/message.ts";
import { HttpConnection } from "../../../src/net/http-connection.ts";
import type { Report } from "../../../src/protocol/work.ts";
import {
  go,
  PARTITIONS,
  type PeerNode,
  PeerWorld,
  start,
} from "../../fixtures/cluster/peer-world-fixture.ts";

interface Raw {
  readonly name?: string;
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly signed?: string;
  readonly hops?: string;
  readonly key?: PeerKey;
}

/** A request as another program might send it. */
async function post(node: PeerNode, raw: Raw): Promise<{ status: number; code: string }> {
  const {
    name = "inspect",
    body = JSON.stringify({ v: 1, execution: "e1" }),
    signed = body,
    hops = "1",
  } = raw;
  const { key = new PeerKey(null, node.engine.info) } = raw;
  const path = `/peer/v1/${name}`;
  const [from, digest] = ["http://127.0.0.1:1", digestOf(signed)];
  const connection = new HttpConnection({ address: node.url });
  const answer = await connection.send({
    method: "POST",
    path,
    body,
    headers: {
      authorization: `Rondo-Peer ${key.sign({ path, from, digest })}`,
      "rondo-from": from,
      "rondo-digest": digest,
      "rondo-hops": hops,
      ...raw.headers,
    },
  });
  connection.close();
  return { status: answer.status, code: (JSON.parse(answer.text) as { code: string }).code };
}

async function one(): Promise<{ world: PeerWorld; node: PeerNode }> {
  const world = new PeerWorld();
  const node = await world.node("a");
  await node.take(...Array.from({ length: PARTITIONS }, (_, i) => i));
  return { world, node };
}

describe("a request without the secret", () => {
  test("is refused, whatever is wrong with its signature", async () => {
    const { node } = await one();
    const refused = { status: 401, code: "unauthorised" };
    const { generation, key } = node.engine.info;
    expect(await post(node, { headers: { authorization: "Bearer abc" } })).toEqual(refused);
    expect(await post(node, { headers: { authorization: "Rondo-Peer abc" } })).toEqual(refused);
    expect(await post(node, { headers: { "rondo-from": "http://127.0.0.1:2" } })).toEqual(refused);
    expect(await post(node, { signed: '{"v":1}' })).toEqual(refused);
    expect(await post(node, { key: new PeerKey("another", node.engine.info) })).toEqual(refused);
    expect(await post(node, { key: new PeerKey(null, { generation: "g2", key }) })).toEqual(refused);
    expect(await post(node, { key: new PeerKey(key, { generation, key: "" }) })).not.toEqual(refused);
  });

  test("of a node with another one is not repeated, and its node says why", async () => {
    const world = new PeerWorld();
    const a = await world.node("a", { secret: "one secret" });
    const b = await world.node("b", { secret: "another" });
    await b.take(3);
    await a.renew();
    const { answer } = await start(a, world.idIn(3));
    expect(answer).toMatchObject({ code: "not_ready", hint: expect.stringContaining("RONDO_SECRET") });
    expect(world.requests).toEqual(["b send 401"]);
    expect(world.faults).toMatchObject([
      { message: expect.stringContaining("refuses the signature of this node") },
    ]);
  });

  test("nodes with the same one understand each other", async () => {
    const world = new PeerWorld();
    const a = await world.node("a", { secret: "one secret" });
    const b = await world.node("b", { secret: "one secret" });
    await b.take(3);
    await a.renew();
    expect(await start(a, world.idIn(3))).toMatchObject({ answer: { kind: "applied" } });
  });
});

describe("a request that is not understood is refused", () => {
  const json = (body: unknown) => ({ body: JSON.stringify(body) });
  const cancel = { kind: "cancel", id: "c", by: "me", reason: null };
  const asStart = {
    kind: "start",
    execution: "e2",
    workflow: "w",
    hash: "h",
    project: "p",
    input: "1",
    tags: {},
  };
  test.each([
    ["one that was sent on", { hops: "2" }, 422, "invalid_input"],
    ["no JSON", { body: "{" }, 400, "invalid_json"],
    ["another version", json({ v: 2, execution: "e1" }), 422, "invalid_input"],
    ["a field too many", json({ v: 1, execution: "e1", x: 1 }), 422, "unknown_field"],
    [
      "a question about no attempt",
      json({ v: 1, execution: "e1", attempt: { task: 0 } }),
      422,
      "invalid_input",
    ],
    ["a name that nobody has", { name: "constructor" }, 404, "not_found"],
    [
      "a message of no kind",
      { name: "send", ...json({ v: 1, execution: "e1", message: { kind: "x" }, fresh: false }) },
      422,
      "invalid_input",
    ],
    [
      "a message with a field too many",
      { name: "send", ...json({ v: 1, execution: "e1", message: { ...cancel, x: 1 }, fresh: false }) },
      422,
      "unknown_field",
    ],
    [
      "a start for another execution",
      { name: "send", ...json({ v: 1, execution: "e1", message: asStart, fresh: false }) },
      422,
      "invalid_input",
    ],
    [
      "a start by an unknown definition",
      { name: "send", ...json({ v: 1, execution: "e2", message: asStart, fresh: false }) },
      503,
      "not_ready",
    ],
    [
      "a report of no kind",
      { name: "report", ...json({ v: 1, worker: "w", reports: [{ kind: "x" }] }) },
      422,
      "invalid_input",
    ],
  ] as const)("%s", async (_, raw, status, code) => {
    const { node } = await one();
    expect(await post(node, raw)).toEqual({ status, code });
  });

  test("a body that is too large", async () => {
    const world = new PeerWorld();
    const node = await world.node("a", { bodyBytesMax: 1_000 });
    const body = JSON.stringify({ v: 1, execution: "x".repeat(1_000) });
    expect(await post(node, { body })).toEqual({ status: 413, code: "too_large" });
    const larger = "x".repeat(33 * 1_048_576);
    expect(await node.client.call(node.url, "inspect", larger)).toMatchObject({
      kind: "refused",
      rejection: { code: "too_large" },
    });
  });
});

test("what is not this node's is answered 421, and what has stopped is not there", async () => {
  const { world, node } = await one();
  await node.release(3);
  const id = world.idIn(3);
  const body = JSON.stringify({ v: 1, execution: id });
  expect(await post(node, { body })).toEqual({ status: 421, code: "not_owner" });
  expect(await post(node, { name: "watch", body })).toEqual({ status: 421, code: "not_owner" });
  const sent = JSON.stringify({ v: 1, execution: id, message: go("m1"), fresh: false });
  expect(await post(node, { name: "send", body: sent })).toEqual({ status: 421, code: "not_owner" });
  await world.passing(node.engine.close());
  expect(await post(node, {})).toEqual({ status: 503, code: "not_ready" });
});

test("hooks get what was sent and who sent it; their rejections are refusals", async () => {
  const world = new PeerWorld();
  const heard: unknown[] = [];
  const a = await world.node("a");
  const b = await world.node("b", {
    hooks: {
      token: (body, from) => void heard.push([body, from]),
      state: () => ({ asOf: 1 }),
      permits: () => {
        throw new Error("broken");
      },
      "timer-due": () => ({ kind: "rejection", code: "not_owner", message: "no" }),
    },
  });
  expect(await a.client.call(b.url, "token", { number: 1 })).toEqual({ kind: "answered", value: {} });
  expect(heard).toEqual([[{ number: 1 }, a.url]]);
  expect(await a.client.call(b.url, "state", {})).toEqual({ kind: "answered", value: { asOf: 1 } });
  expect(await a.client.call(b.url, "timer-due", {})).toEqual({ kind: "not-owner" });
  expect(await a.client.call(b.url, "permits", {})).toMatchObject({ kind: "unreached" });
  expect(world.faults).toMatchObject([{ message: "broken" }]);
});

test("requests of every kind are understood", () => {
  const { id, by, reason } = { id: "m", by: "ann", reason: null };
  const place = { phase: "p", visit: 1, handler: "h" };
  // Every field that a request can have is there. Mail has others, and does not go over this wire by itself.
  const signal: Omit<Required<SignalMessage>, "project" | "from"> = {
    ...{ kind: "signal", id, signal: "s", data: "1" },
  };
  const start: Omit<Required<StartMessage>, "gate" | "notifies" | "kept" | "cancel" | "signal"> = {
    ...{
      kind: "start",
      execution: "e~2",
      workflow: "w",
      hash: "h",
      project: "p",
      input: "1",
      tags: { a: "b" },
    },
    parent: { ...place, execution: "x", task: 0, name: "n", depth: 1, since: 5 },
    ...{ again: true, startAt: 1, deadline: 2, trace: "t" },
    relays: { messages: [{ to: "x", message: signal }], output: "1" },
    succession: { first: "e", number: 2, after: "e", seen: ["m"] },
  };
  const tasks = { ...place, numbers: [1], dryRun: true };
  const control: Required<ControlMessage> = {
    ...{ kind: "retry", id, by, reason, fromParent: true, force: true, tasks },
  };
  const operation = { ...place, task: 0, step: 0, op: "broadcast", index: 0, receipt: 1 } as const;
  const requests: readonly Request[] = [
    { ...start, signal },
    control,
    signal,
    { kind: "move", id, by, reason, definition: "{}", dryRun: true },
    { kind: "postop.retry", id, by, op: operation },
  ];
  for (const message of requests) {
    const body = { v: 1, execution: "e", message, fresh: true };
    expect(checkBody(BODIES.send, body)).toEqual(body);
  }
});

test("reports of every kind are understood", () => {
  const place = { execution: "e", phase: "p", visit: 1, handler: "h", round: 1, epoch: 1 };
  const attempt = { task: 0, attempt: 1, claim: 1 };
  const one = { ...place, ...attempt };
  const stats = { durationMs: 1, memoryBytes: 2 };
  const wait: Required<TaskWait> = {
    ...{ name: "w", signal: "s", anyOf: ["a", "b"], match: "{}", untilMs: 1, forMs: 1, timeoutMs: 5 },
    ...{ retry: true, child: true },
  };
  const items = { tasks: ["1"], keys: null, identities: null, afters: null };
  const outcome: Required<Outcome> = {
    ...{ status: "done", payload: "null", fatal: false, retryAfterMs: 1, total: 1, wait, waits: [wait] },
    ...{ adds: items, continueAs: "1" },
  };
  // Every field is there, so a field that the schemas do not know fails this test.
  const reports: { readonly [Kind in Report["kind"]]: Required<Extract<Report, { kind: Kind }>> } = {
    accepted: { kind: "accepted", ...place, attempts: [attempt] },
    started: { kind: "started", ...place, attempts: [{ ...attempt, ms: 7 }] },
    receipts: { kind: "receipts", ...place, receipts: [{ ...attempt, ms: 1, outcome }] },
    page: { kind: "page", ...place, attempt: 1, claim: 1, from: 0, ...items },
    enumeration: {
      ...{ kind: "enumeration", ...place, attempt: 1, claim: 1, ms: 1 },
      outcome: { status: "done", payload: "null", total: 1 },
    },
    step: { kind: "step", ...one, name: "s", result: "1", map: "{}", answers: "u" },
    "step.retrying": { kind: "step.retrying", ...one, name: "s", tries: 1, error: "{}", forMs: 5 },
    "step.failed": { kind: "step.failed", ...one, name: "s", tries: 2, error: "{}" },
    child: { kind: "child", ...one, name: "c", workflow: "w", input: "1", detached: true, mapped: true },
    noted: { kind: "noted", ...one, times: { "#1": 5 }, failures: ["s"] },
    published: { kind: "published", ...one, values: { percent: 40, list: [{ a: null }] } },
    run: { kind: "run", ...one, name: "r", index: null, state: "{}", oversized: false, stats },
    "run.started": { kind: "run.started", ...one, name: "r", index: 0 },
    "run.crashed": { kind: "run.crashed", ...one, name: "r", index: null, message: "m", stats: null },
    logs: {
      kind: "logs",
      ...one,
      lines: [{ n: 1, at: 1, level: "info", text: "t", run: "r", fields: "{}" }],
    },
  };
  const body = { v: 1, worker: "w", reports: Object.values(reports) };
  expect(checkBody(BODIES.report, body)).toEqual(body);
});
