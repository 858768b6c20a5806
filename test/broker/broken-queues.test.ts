// Queues that have a name and nothing more, as a RabbitMQ leaves them that is killed at the wrong moment: consuming such
// a quorum queue ends the connection, a classic one answers nothing. Here they are made so by hand.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "amqplib";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openInProcess } from "../../src/compose/compose.ts";
import type { HostedPart } from "../../src/worker/handler-code.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { described } from "../fixtures/broker/described-workflow.ts";
import { RabbitServer } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { until } from "../fixtures/until.ts";

let server: RabbitServer;
const ends: (() => unknown)[] = [];
beforeAll(async () => {
  server = await RabbitServer.make();
}, 180_000);
afterAll(() => server.remove());
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

const QUORUM = { durable: true, arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 } };

/** Declares queues and takes away what is behind their names. */
async function breakQueues(
  { url }: RabbitServer,
  queues: { readonly quorum?: readonly string[]; readonly classic?: readonly string[] },
): Promise<void> {
  const { quorum = [], classic = [] } = queues;
  const connection = await connect(url);
  connection.on("error", () => {});
  const channel = await connection.createChannel();
  for (const queue of quorum) await channel.assertQueue(queue, QUORUM);
  for (const queue of classic) await channel.assertQueue(queue, { durable: true });
  await connection.close();
  const steps = [
    ...quorum.map((queue) => `ra:force_delete_server(quorum_queues, {list_to_atom("%2F_${queue}"), node()})`),
    ...classic.map((queue) => `Kill(Kill, <<"${queue}">>, 60)`),
  ];
  const kill =
    "Kill = fun (_, _, 0) -> ok; (Again, Name, N) -> " +
    '{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, Name)), ' +
    "exit(amqqueue:get_pid(Q), kill), timer:sleep(30), Again(Again, Name, N - 1) end";
  await server.control("eval", `${[kill, ...steps].join(", ")}.`);
}

async function openEngine({ url }: RabbitServer) {
  const directory = mkdtempSync(join(tmpdir(), "rondo-amqp-"));
  ends.push(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  const rondo = await openInProcess({
    store: `file:${directory}`,
    broker: url,
    brokerSettings: { broadcastMs: 300, lookMs: 300, silenceMs: 60_000, answerMs: 2_000 },
    onFault: () => {},
  });
  ends.push(() => rondo.close({ graceMs: 0 }));
  return rondo;
}

async function hire({ url }: RabbitServer, workflows: readonly HostedPart[], notes: string[] = []) {
  const worker = testWorker(url, workflows, { answerMs: 2_000, onNote: (what) => notes.push(what) });
  ends.push(() => worker.stop(0));
  void worker.start();
}

const step = (name: string, topic: string) => ({
  name,
  handlers: { [name]: { command: { cmd_type: name.toUpperCase() }, topic } },
});
const serving = (topic: string): HostedPart => ({
  name: "topics",
  handlers: [{ use: `topic:${topic}`, process: ({ number }) => ({ number }) }],
});

test("a command topic and its receipt topic are made anew by the engine and by workers", async () => {
  await breakQueues(server, { quorum: ["A_CMD", "A_RECEIPT"] });
  const rondo = await openEngine(server);
  const handle = await rondo.start(described("flow", [step("one", "A_CMD")]), null as never);
  await hire(server, [serving("A_CMD")]);
  await handle.result({ timeout: 100_000 });
  expect(await handle.status()).toBe("done");
}, 180_000);

test("a command topic is made anew by a worker alone, which serves its other topics meanwhile", async () => {
  await breakQueues(server, { quorum: ["B_CMD"] });
  const notes: string[] = [];
  await hire(server, [serving("B_CMD"), serving("C_CMD")], notes);
  const connection = await connect(server.url);
  connection.on("error", () => {});
  ends.push(() => connection.close());
  const channel = await connection.createChannel();
  // Asked for one that is not there, a channel is closed.
  channel.on("error", () => {});
  await until("both are consumed", async () => {
    const queues = await server.management.queues("/");
    return ["B_CMD", "C_CMD"].every((name) => queues.some((one) => one.name === name && one.consumers === 1));
  });
  expect(notes.join()).toContain("B_CMD could not be used");
}, 180_000);

test("a command topic that only the engine uses is made anew, and what was sent there is sent again", async () => {
  await breakQueues(server, { quorum: ["D_CMD"] });
  const rondo = await openEngine(server);
  const handle = await rondo.start(described("flow", [step("one", "D_CMD")]), null as never);
  const there = async () => (await server.management.queues("/")).find(({ name }) => name === "D_CMD");
  // What was refused is sent again as well, so it may be there twice.
  await until("the command is there", async () => ((await there())?.messages ?? 0) > 0, {
    limitMs: 90_000,
    state: there,
  });
  await handle.cancel();
}, 180_000);

test("the queues of enumerations and of their ends are made anew", async () => {
  const classic = ["rondo.workflow.handler.work.enumerate", "rondo.workflow.handler.enumerated"];
  await breakQueues(server, { classic });
  const rondo = await openEngine(server);
  const enumerated = { work: { use: "work", enumerate: { use: "work" } } };
  const handle = await rondo.start(
    described("flow", [{ name: "work", handlers: enumerated }]),
    null as never,
  );
  const code = { use: "work", enumerate: () => [1, 2, 3], process: () => null };
  await hire(server, [{ name: "flow", handlers: [code] }]);
  await handle.result({ timeout: 100_000 });
  expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 3, done: 3 });
}, 180_000);
