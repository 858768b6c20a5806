// Messages that a worker cannot read: each goes to the dead-letter queue, from every place that the worker consumes.
import type { Channel } from "amqplib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testWorker } from "../../fixtures/broker/amqp-worker-fixture.ts";
import { attempt, StandIn } from "../../fixtures/broker/engine-stand-in-fixture.ts";
import { openTestBroker } from "../../fixtures/broker/rabbitmq-server-fixture.ts";
import type { TestBroker } from "../../fixtures/broker/test-broker-fixture.ts";
import { until } from "../../fixtures/until.ts";

const USE = "flow.work";
const TOPIC = "SUM_CMD";
const ENUMERATE = "rondo.workflow.handler.flow.work.enumerate";
const PROCESS = "rondo.workflow.handler.flow.work.process";
const CANCEL = "rondo.cancel.consumer";

const ends: (() => Promise<unknown>)[] = [];
let broker: TestBroker;
let engine: StandIn;
let channel: Channel;
beforeAll(async () => {
  broker = await openTestBroker();
  ends.push(() => broker.remove());
  engine = await StandIn.open(broker.url, USE);
  ends.push(() => engine.close());
  const connection = await broker.connect();
  ends.push(() => connection.close());
  channel = await connection.createChannel();
  const process = () => "fine";
  const worker = testWorker(broker.url, [
    { name: "flow", handlers: [{ use: USE, enumerate: () => [1, 2], process }] },
    { name: "topic", handlers: [{ use: `topic:${TOPIC}`, process }] },
  ]);
  ends.push(() => worker.stop(0));
  await worker.start();
  await engine.process();
});
afterAll(async () => {
  for (const end of ends.toReversed()) await end();
});

const place = { workflow_id: "ex_1", phase: "work", handler: "work" };
const queues = { task_queue: "some.tasks", finished_queue: "some.finished" };

/** A message of each place that could be read, with the fields by which it is spoiled. */
const PLACES = {
  enumerate: {
    from: () => ENUMERATE,
    good: { ...place, ...queues, attempt: attempt(-1, 1), token: "t", input: null },
    text: "token",
    open: "input",
  },
  task: {
    from: () => engine.taskQueue,
    good: { ...place, ...queues, task: 1, attempt: attempt(1, 1), token: "t", data: null },
    text: "token",
    open: "data",
  },
  command: { from: () => TOPIC, good: { cmd_type: "ADD", cmd_data: {} }, text: "cmd_type", open: "cmd_data" },
  process: {
    from: () => PROCESS,
    good: { ...place, ...queues, input: null },
    text: "task_queue",
    open: "input",
  },
  cancel: { from: () => CANCEL, good: queues, text: "task_queue", open: "more" },
} as const;

const DEEP = 200_000;

/** Fourteen messages that cannot be read as `good` can. */
function spoilt(kind: keyof typeof PLACES): readonly Buffer[] {
  const { good, text, open } = PLACES[kind];
  const without = Object.fromEntries(Object.entries(good).filter(([name]) => name !== text));
  const whole = JSON.stringify(good);
  const nested = `${"[".repeat(DEEP)}${"]".repeat(DEEP)}`;
  const utf8 = Buffer.concat([
    Buffer.from(`${whole.slice(0, -1)},"more":"`),
    Buffer.from([0xff, 0xfe, 0xc0]),
    Buffer.from('"}'),
  ]);
  const bodies: (string | Buffer)[] = [
    '{"order":17}',
    "{not json",
    "",
    `[${whole}]`,
    "null",
    "17",
    JSON.stringify({ ...good, [text]: 17 }),
    JSON.stringify(without),
    JSON.stringify({ ...good, [text]: { a: 1 } }),
    utf8,
    nested,
    `{"__proto__":${whole},"constructor":{"prototype":{}}}`,
    whole.slice(0, -1),
    Buffer.alloc(5_000_000, 0x61),
  ];
  // A fanout's unknown field is ignored however deep it is.
  if (kind !== "cancel") bodies.push(`${JSON.stringify({ ...good, [open]: 0 }).slice(0, -2)}${nested}}`);
  if (kind === "command")
    for (const rondo of [5, { attempt: 5 }, { attempt: "of nobody" }])
      bodies.push(JSON.stringify({ ...good, cmd_metadata: { rondo } }));
  if (kind === "cancel")
    for (const commands of [5, ["of nobody"], [attempt(1, 1), null], { 0: attempt(1, 1) }])
      bodies.push(JSON.stringify({ ...good, commands }));
  if (kind === "process")
    for (const more of [
      { prefetch: "x" },
      { batch: -1 },
      { timeout_ms: [] },
      { task_queue: "x".repeat(300) },
    ])
      bodies.push(JSON.stringify({ ...good, ...more }));
  if (kind === "enumerate")
    bodies.push(JSON.stringify({ ...good, resume: 5 }), JSON.stringify({ ...good, attempt: "x" }));
  if (kind === "task")
    bodies.push(JSON.stringify({ ...good, finished_queue: "" }), JSON.stringify({ ...good, task: -1.5 }));
  return bodies.map((body) => Buffer.from(body as string));
}

test.each(["enumerate", "task", "command", "process", "cancel"] as const)(
  "what cannot be read of %s is a dead letter with its queue and the reason, and the rest is done",
  async (kind) => {
    const from = PLACES[kind].from();
    const isFanout = kind === "process" || kind === "cancel";
    const bodies = spoilt(kind);
    for (const body of bodies) {
      if (isFanout) channel.publish(from, "", body);
      else channel.sendToQueue(from, body);
    }
    const dead: { body: Buffer; queue: unknown; reason: unknown }[] = [];
    await until(
      "all are dead letters",
      async () => {
        for (
          let got = await channel.get("rondo.dead");
          got !== false;
          got = await channel.get("rondo.dead")
        ) {
          const { queue, reason } = got.properties.headers ?? {};
          dead.push({ body: got.content, queue, reason });
          channel.ack(got);
        }
        return dead.length >= bodies.length;
      },
      { state: () => dead.map(({ body, reason }) => [body.toString("latin1", 0, 60), reason]) },
    );
    const texts = (all: readonly Buffer[]) => all.map((body) => body.toString("latin1")).sort();
    expect(texts(dead.map(({ body }) => body))).toEqual(texts(bodies));
    expect(new Set(dead.map(({ queue }) => queue))).toEqual(new Set([from]));
    for (const { reason } of dead) expect(reason).toMatch(/./);
  },
);

test("after all of that the worker does what it is asked", async () => {
  const receipts = await engine.listen("SUM_RECEIPT");
  await engine.send(TOPIC, { cmd_type: "ADD", cmd_data: {} });
  await engine.enumerate();
  await engine.task(7);
  await until("all is answered", () => {
    const { enumerated, finished } = engine;
    return receipts.length === 1 && enumerated.length === 1 && finished.some(({ task }) => task === 7);
  });
  for (const from of [ENUMERATE, engine.taskQueue, TOPIC])
    await until("nothing is left unacknowledged", async () => (await engine.messagesIn(from)) === 0);
});

test("a dead-letter queue that somebody deleted is declared again before anything is acknowledged", async () => {
  await channel.deleteQueue("rondo.dead");
  await engine.send(TOPIC, Buffer.from("not json"));
  await until("it is there again", async () => {
    const shown = (await broker.queues()).find(({ name }) => name === "rondo.dead");
    return shown !== undefined && (await engine.messagesIn("rondo.dead")) === 1;
  });
});
