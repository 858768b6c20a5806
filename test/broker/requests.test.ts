// Requests over the broker: starts and changes of executions as messages, answered on a reply queue. They count once, also
// if they are delivered again, and refused ones are in the dead letters with the reason.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { Validator } from "@cfworker/json-schema";
import type { Channel, ChannelModel, Options } from "amqplib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openServer, type ServerOptions } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import type { TestBroker } from "../fixtures/broker/test-broker-fixture.ts";
import { until } from "../fixtures/until.ts";

interface Answer {
  readonly ok: boolean;
  readonly workflow_id?: string;
  readonly status?: string;
  readonly existed?: boolean;
  readonly state?: string;
  readonly error?: { readonly code: string; readonly message: string };
}

let broker: TestBroker;
let directory: string;
let connection: ChannelModel;
let channel: Channel;
let replies: string;
const servers: RondoServer[] = [];
const answers: { readonly id: string; readonly answer: Answer }[] = [];

beforeEach(async () => {
  broker = await openTestBroker();
  directory = mkdtempSync(join(tmpdir(), "rondo-requests-"));
  connection = await broker.connect();
  channel = await connection.createChannel();
  replies = (await channel.assertQueue("", { exclusive: true })).queue;
  await channel.consume(
    replies,
    (message) => {
      if (message === null) return;
      const answer = JSON.parse(message.content.toString()) as Answer;
      answers.push({ id: String(message.properties.correlationId), answer });
    },
    { noAck: true },
  );
}, 180_000);
afterEach(async () => {
  answers.length = 0;
  for (const server of servers.splice(0)) await server.close({ graceMs: 0 });
  await connection.close();
  await broker.remove();
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
});

async function open(options: ServerOptions = {}): Promise<RondoServer> {
  const server = await openServer({
    store: `file:${directory}`,
    port: 0,
    broker: broker.url,
    prefix: "distribot",
    brokerSettings: { broadcastMs: 300, lookMs: 200 },
    onFault: () => {},
    ...options,
  });
  servers.push(server);
  const queues = ["distribot.workflow.created", "distribot.workflow.control"];
  if (options.brokerRequests !== "off")
    await until("the queues are consumed", async () => {
      const found = await broker.queues();
      return queues.every((queue) => found.some(({ name }) => name === queue));
    });
  return server;
}

/** Stores a definition whose one phase waits for the signal `go`. */
async function define(server: RondoServer, name = "photos", more: object = {}): Promise<void> {
  const phases = [{ name: "wait", handlers: { go: { waitFor: "go" } } }];
  const answer = await fetch(`${server.url}/v1/workflows`, {
    method: "POST",
    headers: { "content-type": "application/json", ...TOKEN },
    body: JSON.stringify({ rondo: 2, name, phases, ...more }),
  });
  expect(answer.ok, await answer.clone().text()).toBe(true);
}

const TOKEN: Record<string, string> = {};
let sent = 0;

/** Publishes a message and returns the answer to it. */
async function ask(queue: string, body: unknown, options: Options.Publish = {}): Promise<Answer> {
  const correlationId = `c${++sent}`;
  publish(queue, body, { replyTo: replies, correlationId, ...options });
  await until(`the answer ${correlationId} is here`, () => answers.some(({ id }) => id === correlationId));
  return answers.find(({ id }) => id === correlationId)?.answer as Answer;
}

function publish(queue: string, body: unknown, options: Options.Publish = {}): void {
  const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  channel.sendToQueue(`distribot.workflow.${queue}`, content, { persistent: true, ...options });
}

/** The dead letters that are there now, with their reasons. */
async function deadLetters(): Promise<{ readonly queue: string; readonly reason: string }[]> {
  const found: { queue: string; reason: string }[] = [];
  for (let got = await channel.get("distribot.dead", { noAck: true }); got !== false; ) {
    const { queue, reason } = got.properties.headers as { queue: string; reason: string };
    found.push({ queue, reason });
    got = await channel.get("distribot.dead", { noAck: true });
  }
  return found;
}

/** Waits until the broker has as many dead letters. */
async function untilDead(count: number): Promise<{ readonly queue: string; readonly reason: string }[]> {
  const found: { queue: string; reason: string }[] = [];
  await until(`${count} dead letters`, async () => {
    found.push(...(await deadLetters()));
    return found.length >= count;
  });
  return found;
}

/** Replaces a long run of the letter R by bytes that are not UTF-8. */
function withoutUtf8(chunk: Buffer): Buffer {
  const from = chunk.indexOf("R".repeat(200));
  if (from < 0) return chunk;
  const changed = Buffer.from(chunk);
  for (let i = from; changed[i] === 0x52; i++) changed[i] = 0xff;
  return withoutUtf8(changed);
}

async function events(server: RondoServer, id: string): Promise<string[]> {
  const kinds: string[] = [];
  const { revision } = await server.rondo.execution(id).describe();
  for await (const { kind, seq } of server.rondo.execution(id).events()) {
    kinds.push(kind);
    if (seq >= revision) break;
  }
  return kinds;
}

describe("workflow.created", () => {
  test("starts an execution with its id, workflow, input and options, and is answered after the commit", async () => {
    const server = await open();
    await define(server);
    const answer = await ask("created", {
      workflow_id: "ex-1",
      workflow: "photos",
      input: { bucket: "b" },
      project: "acme",
      tags: { team: "ops" },
      deadline: "2999-01-01T00:00:00Z",
    });
    expect(answer).toEqual({ ok: true, workflow_id: "ex-1", status: "running", existed: false });
    expect(await server.rondo.execution("ex-1").describe()).toMatchObject({
      workflow: "photos",
      project: "acme",
      tags: { team: "ops" },
      input: { bucket: "b" },
    });
  });

  test("in the shape of seed 000, with `workflow_id` alone, starts the workflow of that name", async () => {
    const server = await open();
    await define(server, "nightly-17");
    publish("created", { workflow_id: "nightly-17" });
    await until("it runs", async () => (await server.rondo.list()).data.length === 1);
    expect(await server.rondo.execution("nightly-17").describe()).toMatchObject({
      id: "nightly-17",
      workflow: "nightly-17",
      input: null,
      status: "running",
    });
  });

  test("delivered again changes nothing; another start under the id is a conflict", async () => {
    const server = await open();
    await define(server);
    const start = { workflow_id: "ex-1", workflow: "photos", input: 1 };
    expect(await ask("created", start)).toMatchObject({ ok: true, existed: false });
    const before = await events(server, "ex-1");
    expect(await ask("created", start)).toMatchObject({ ok: true, existed: true, status: "running" });
    expect(await ask("created", { ...start, input: 2 })).toMatchObject({
      ok: false,
      workflow_id: "ex-1",
      error: { code: "conflict" },
    });
    expect(await events(server, "ex-1")).toEqual(before);
    const [dead] = await untilDead(1);
    expect(dead?.queue).toBe("distribot.workflow.created");
    expect(dead?.reason).toMatch(/^conflict: /);
  });

  test("without `workflow_id` is deduplicated by its `message_id`", async () => {
    const server = await open();
    await define(server);
    const first = await ask("created", { workflow: "photos" }, { messageId: "m1" });
    const again = await ask("created", { workflow: "photos" }, { messageId: "m1" });
    const other = await ask("created", { workflow: "photos" }, { messageId: "m2" });
    expect(again).toEqual({ ...first, existed: true });
    expect(other.workflow_id).not.toBe(first.workflow_id);
    expect((await server.rondo.list()).data).toHaveLength(2);
  });

  test("that the engine has not answered when it ends is carried out by the next engine, once", async () => {
    const first = await open();
    await define(first);
    await first.close({ graceMs: 0 });
    for (let n = 0; n < 20; n++) publish("created", { workflow_id: `ex-${n}`, workflow: "photos" });
    publish("created", { workflow_id: "ex-0", workflow: "photos" });
    const second = await open();
    await until("all are started", async () => (await second.rondo.list({ limit: 100 })).data.length === 20);
    await until(
      "the queue is empty",
      async () => (await channel.checkQueue("distribot.workflow.created")).messageCount === 0,
    );
    expect(await deadLetters()).toEqual([]);
  });

  test("is refused by the guard of topics, as over HTTP", async () => {
    const server = await open({ projects: { acme: { topics: ["ACME_CMD"] } } });
    await define(server, "commands", {
      phases: [
        {
          name: "send",
          handlers: { send: { command: { cmd_type: "SEND", cmd_data: {} }, topic: "OTHER_CMD" } },
        },
      ],
    });
    const answer = await ask("created", { workflow_id: "ex-1", workflow: "commands", project: "acme" });
    expect(answer).toMatchObject({ ok: false, error: { code: "forbidden" } });
    expect((await untilDead(1))[0]?.reason).toMatch(/^forbidden: /);
  });

  test("that cannot be read is a dead letter with the reason, and answered", async () => {
    await open();
    const bad: readonly (readonly [unknown, RegExp])[] = [
      [Buffer.from([0xff, 0xfe]), /not UTF-8/],
      [Buffer.from("{"), /not JSON/],
      [[1], /not a JSON object/],
      [{ workflow: "photos" }, /neither `workflow_id` nor `message_id`/],
      [{ workflow_id: 5 }, /workflow_id/],
      [{ workflow_id: "a", inputs: 1 }, /inputs/],
      [{ workflow_id: "a~b", workflow: "photos" }, /~/],
      [{ workflow_id: "nowhere" }, /there is no workflow "nowhere"/],
    ];
    for (const [body, why] of bad) {
      expect((await ask("created", body)).error?.message, String(why)).toMatch(why);
    }
    const dead = await untilDead(bad.length);
    for (const [i, [, why]] of bad.entries()) expect(dead[i]?.reason).toMatch(why);
  });

  test("with a property that is not UTF-8 is a dead letter, and later messages are carried out", async () => {
    const server = await open();
    await define(server);
    const body = { workflow_id: "ex-1", workflow: "photos" };
    const filler = "R".repeat(255);
    const cases: readonly Options.Publish[] = [
      { replyTo: filler },
      { replyTo: replies, correlationId: filler },
      { replyTo: replies, messageId: filler },
    ];
    for (const options of cases) {
      const raw = await broker.connect();
      // The client encodes valid UTF-8 only, so the bytes are replaced on their way to the socket.
      const { stream } = (raw as unknown as { connection: { stream: Writable } }).connection;
      const write = stream.write.bind(stream) as (chunk: Buffer) => boolean;
      stream.write = ((chunk: Buffer) => write(withoutUtf8(chunk))) as never;
      const confirmed = await raw.createConfirmChannel();
      confirmed.sendToQueue("distribot.workflow.created", Buffer.from(JSON.stringify(body)), options);
      confirmed.sendToQueue("distribot.workflow.control", Buffer.from("garbage"), options);
      await confirmed.waitForConfirms();
      await raw.close();
    }
    const dead = await untilDead(6);
    expect(dead.filter(({ reason }) => reason.includes("is not valid UTF-8"))).toHaveLength(6);
    expect(await ask("created", body)).toMatchObject({ ok: true });
  });

  test("answers are never published to a queue of the engine", async () => {
    const server = await open();
    await define(server);
    publish(
      "created",
      { workflow_id: "ex-1", workflow: "photos" },
      { replyTo: "distribot.workflow.control" },
    );
    const [dead] = await untilDead(1);
    expect(dead?.reason).toMatch(/`reply_to` names a queue of the engine itself/);
    expect((await server.rondo.list()).data).toEqual([]);
  });
});

describe("workflow.control", () => {
  test("pauses, resumes, signals and cancels; each message counts once by its id", async () => {
    const server = await open();
    await define(server);
    await ask("created", { workflow_id: "ex-1", workflow: "photos" });
    const change = (action: string, more: object = {}) =>
      ask("control", { workflow_id: "ex-1", action, ...more }, { messageId: `${action}-1` });
    expect(await change("pause", { reason: "maintenance", by: "jo" })).toMatchObject({
      ok: true,
      status: "paused",
    });
    expect(await change("resume")).toMatchObject({ ok: true, status: "running" });
    // Delivered again: it stays resumed.
    expect(await change("pause")).toMatchObject({ ok: true, status: "running" });
    expect(await change("cancel")).toMatchObject({ ok: true, workflow_id: "ex-1" });
    await until("it is over", async () => (await server.rondo.execution("ex-1").status()) === "cancelled");
    const kinds = await events(server, "ex-1");
    expect(kinds.filter((kind) => /paused|resumed|cancel/.test(kind))).toEqual([
      "workflow.paused",
      "workflow.resumed",
      "workflow.cancelling",
    ]);
  });

  test("a signal that is delivered twice is there once", async () => {
    const server = await open();
    await define(server);
    await ask("created", { workflow_id: "ex-1", workflow: "photos" });
    const signal = { workflow_id: "ex-1", action: "signal", id: "s1", signal: "go", data: { by: "jo" } };
    expect(await ask("control", signal)).toMatchObject({ ok: true });
    await until("it is over", async () => (await server.rondo.execution("ex-1").status()) === "done");
    expect(await ask("control", signal)).toMatchObject({ ok: true, status: "done" });
    const kinds = await events(server, "ex-1");
    expect(kinds.filter((kind) => kind.includes("signal"))).toHaveLength(1);
  });

  test("a signal with a start: it starts the execution, reaches an open one, and a new one after the end, each once", async () => {
    const server = await open();
    await define(server);
    const send = (id: string, more: object = {}) =>
      ask("control", {
        workflow_id: "inbox",
        action: "signal",
        id,
        signal: "go",
        data: { id },
        project: "acme",
        start: {
          workflow: "photos",
          input: { bucket: "b" },
          tags: { team: "ops" },
          if_exists: "new",
          ...more,
        },
      });
    const pause = { workflow_id: "inbox", action: "pause", id: "p1" };
    const started = await send("s1");
    expect(started).toEqual({
      ok: true,
      workflow_id: "inbox",
      status: "done",
      existed: false,
      state: "delivered",
    });
    expect(await server.rondo.execution("inbox").describe()).toMatchObject({
      project: "acme",
      tags: { team: "ops" },
      input: { bucket: "b" },
      status: "done",
    });
    // Delivered again: nothing is started, though the execution is over.
    expect(await send("s1")).toEqual({ ...started, existed: true });
    expect(await send("s2", { if_exists: "signal" })).toMatchObject({ ok: false, error: { code: "gone" } });
    expect(await send("s3")).toMatchObject({ ok: true, workflow_id: "inbox~2", existed: false });
    expect(await send("s3")).toMatchObject({ ok: true, workflow_id: "inbox~2", existed: true });
    expect((await server.rondo.list()).data.map(({ id }) => id).sort()).toEqual(["inbox", "inbox~2"]);
    for (const id of ["inbox", "inbox~2"])
      expect((await events(server, id)).filter((kind) => kind.includes("signal"))).toHaveLength(1);
    expect(await ask("control", pause)).toMatchObject({ error: { code: "wrong_status" } });
    expect((await ask("control", { ...pause, start: { workflow: "photos" } })).error?.message).toMatch(
      /`start` belongs to the action "signal"/,
    );
    expect(await untilDead(3)).toHaveLength(3);
  });

  test("a signal with a start that reaches an open execution is kept there", async () => {
    const server = await open();
    await define(server);
    await ask("created", { workflow_id: "ex-1", workflow: "photos" });
    const signal = { workflow_id: "ex-1", action: "signal", id: "s1", signal: "later" };
    const answer = await ask("control", { ...signal, start: { workflow: "photos" } });
    expect(answer).toEqual({
      ok: true,
      workflow_id: "ex-1",
      status: "running",
      existed: true,
      state: "kept",
    });
    expect((await server.rondo.execution("ex-1").describe()).unread).toEqual([{ signal: "later", count: 1 }]);
  });

  test("a cancel with force leaves out the rest of a clean-up, once by its id", async () => {
    const server = await open();
    await define(server, "photos", {
      phases: [
        { name: "wait", handlers: { go: { waitFor: "go" } } },
        { name: "undo", handlers: { undone: { waitFor: "undone" } } },
      ],
      onCancel: "undo",
    });
    await ask("created", { workflow_id: "ex-1", workflow: "photos" });
    const cancel = (id: string, more: object = {}) =>
      ask("control", { workflow_id: "ex-1", action: "cancel", id, ...more });
    const status = () => server.rondo.execution("ex-1").status();
    expect(await cancel("c1")).toMatchObject({ ok: true });
    await until("it cleans up", async () => (await status()) === "cleaning");
    expect(await cancel("c2")).toMatchObject({ ok: true, status: "cleaning" });
    expect(await cancel("c3", { force: true })).toMatchObject({ ok: true });
    await until("it is over", async () => (await status()) === "cancelled");
    expect(await cancel("c3", { force: true })).toMatchObject({ ok: true, status: "cancelled" });
    const kinds = await events(server, "ex-1");
    expect(kinds.filter((kind) => kind.endsWith("cancelling"))).toHaveLength(2);
    expect(
      (await ask("control", { workflow_id: "ex-1", action: "pause", id: "p1", force: true })).error?.message,
    ).toMatch(/`force` belongs to the action "cancel"/);
  });

  test("of an execution that is not there, or in another project, is refused", async () => {
    const server = await open();
    await define(server);
    await ask("created", { workflow_id: "ex-1", workflow: "photos", project: "acme" });
    const pause = { action: "pause", id: "p1" };
    expect(await ask("control", { ...pause, workflow_id: "nowhere" })).toMatchObject({
      ok: false,
      workflow_id: "nowhere",
      error: { code: "not_found" },
    });
    expect(await ask("control", { ...pause, workflow_id: "ex-1", project: "other" })).toMatchObject({
      error: { code: "not_found" },
    });
    expect(await ask("control", { ...pause, workflow_id: "ex-1", project: "acme" })).toMatchObject({
      ok: true,
      status: "paused",
    });
    expect((await ask("control", { workflow_id: "ex-1", action: "pause" })).error?.message).toMatch(
      /neither `id` nor `message_id`/,
    );
    expect((await ask("control", { ...pause, workflow_id: "ex-1", action: "stop" })).error?.message).toMatch(
      /action/,
    );
    expect(await untilDead(4)).toHaveLength(4);
  });

  test("names a command workflow by `workflow_hash` and `cmd_hash`", async () => {
    const server = await open();
    const submit = async (id: string) => {
      const step = { cmd: { cmd_type: "EMBED" }, proc: { target_topic_name: "EMBED_CMD" } };
      const answer = await fetch(`${server.url}/v1/projects/acme/workflows`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ workflow_id: id, steps: [step] }),
      });
      return (await answer.json()) as {
        workflow_hash: string;
        steps: [{ cmd: { cmd_metadata: { cmd_hash: string } } }];
      };
    };
    const { workflow_hash, steps } = await submit("w-1");
    const { cmd_hash } = steps[0].cmd.cmd_metadata;
    const change = (action: string, more: object = {}) =>
      ask("control", { workflow_hash, action, ...more }, { messageId: `${action}-${JSON.stringify(more)}` });
    expect(await change("pause")).toEqual({ ok: true, workflow_id: "w-1", status: "paused" });
    expect(await change("resume", { cmd_hash })).toMatchObject({ ok: true, workflow_id: "w-1" });
    expect((await change("pause", { cmd_hash: workflow_hash })).error?.code).toBe("not_found");
    expect((await change("pause", { project: "other" })).error?.code).toBe("not_found");
    await submit("w-2");
    expect((await change("cancel")).error?.code).toBe("conflict");
    await server.rondo.execution("w-1").cancel();
    await until("it is over", async () => (await server.rondo.execution("w-1").status()) === "cancelled");
    expect(await change("cancel")).toMatchObject({ ok: true, workflow_id: "w-2" });
    expect((await ask("control", { action: "pause", id: "p" })).error?.message).toMatch(/exactly one of/);
    expect(await untilDead(4)).toHaveLength(4);
  });

  test("changes are in the audit log with the broker as their caller", async () => {
    const server = await open();
    await define(server);
    await ask(
      "created",
      { workflow_id: "ex-1", workflow: "photos" },
      { userId: new URL(broker.url).username || "guest" },
    );
    await until("it is noted", async () => {
      const log = (await (await fetch(`${server.url}/v1/audit-log`)).json()) as {
        data: { who: string; action: string }[];
      };
      return log.data.some(({ who, action }) => who.startsWith("broker:") && action === "execution.start");
    });
  });
});

describe("the setting `brokerRequests`", () => {
  test("`token`: only messages with the token of an operator count, within its project", async () => {
    const adminToken = "0123456789abcdef0123456789abcdef";
    TOKEN["authorization"] = `Bearer ${adminToken}`;
    const server = await open({ brokerRequests: "token", adminToken });
    await define(server);
    const make = async (body: object) =>
      (
        (await (
          await fetch(`${server.url}/v1/tokens`, {
            method: "POST",
            headers: { "content-type": "application/json", ...TOKEN },
            body: JSON.stringify(body),
          })
        ).json()) as { token: string }
      ).token;
    const operator = await make({ name: "acme-ops", role: "operator", project: "acme" });
    const viewer = await make({ name: "eyes", role: "viewer" });
    delete TOKEN["authorization"];
    const start = { workflow_id: "ex-1", workflow: "photos" };
    const refusals = [
      await ask("created", start),
      await ask("created", start, { headers: { token: "rondo_x_y" } }),
      await ask("created", start, { headers: { token: viewer } }),
      await ask("created", { ...start, project: "other" }, { headers: { token: operator } }),
    ];
    expect(refusals.map(({ error }) => error?.code)).toEqual([
      "unauthorised",
      "unauthorised",
      "forbidden",
      "forbidden",
    ]);
    expect(await ask("created", start, { headers: { token: operator } })).toMatchObject({ ok: true });
    expect((await server.rondo.execution("ex-1").describe()).project).toBe("acme");
    expect(await untilDead(4)).toHaveLength(4);
  });

  test("`off`: the queues are not declared", async () => {
    const server = await open({ brokerRequests: "off" });
    await until("it is connected", async () =>
      (await broker.queues()).some(({ name }) => name === "distribot.dead"),
    );
    expect((await broker.queues()).map(({ name }) => name)).not.toContain("distribot.workflow.created");
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  });
});

test("the schemas in docs/protocol.md describe the messages that are accepted", () => {
  const page = readFileSync(new URL("../../docs/protocol.md", import.meta.url), "utf8");
  const blocks = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(
    ([, text]) => JSON.parse(text as string) as object,
  );
  const schemas = blocks.filter((block) => "$id" in block) as { $id: string }[];
  const schemaOf = (name: string) => new Validator(schemas.find(({ $id }) => $id === name) as object);
  const created = schemaOf("workflow.created");
  const control = schemaOf("workflow.control");
  const answer = schemaOf("answer");
  expect(created.validate({ workflow_id: "nightly-17" }).valid).toBe(true);
  expect(
    created.validate({ workflow_id: "ex-1", workflow: "photos", input: [1], tags: { a: "b" } }).valid,
  ).toBe(true);
  expect(created.validate({ workflow_id: "ex-1", inputs: 1 }).valid).toBe(false);
  expect(control.validate({ workflow_id: "ex-1", action: "pause", id: "p1" }).valid).toBe(true);
  expect(control.validate({ workflow_id: "ex-1", action: "signal", signal: "go", data: 1 }).valid).toBe(true);
  expect(control.validate({ workflow_id: "ex-1", action: "signal" }).valid).toBe(false);
  expect(control.validate({ workflow_id: "ex-1", action: "stop" }).valid).toBe(false);
  expect(control.validate({ workflow_hash: "a".repeat(64), action: "pause" }).valid).toBe(true);
  expect(control.validate({ action: "pause" }).valid).toBe(false);
  expect(answer.validate({ ok: true, workflow_id: "ex-1", status: "running", existed: false }).valid).toBe(
    true,
  );
  expect(answer.validate({ ok: false, error: { code: "conflict", message: "taken" } }).valid).toBe(true);
});
