// Events on the topic exchange: all of them, at least once, in order, and through the end of the engine or the broker.
import { fork } from "node:child_process";
import { once } from "node:events";
import type { ChannelModel } from "amqplib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { all } from "../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
const connections: ChannelModel[] = [];
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.close();
  await fixture.close();
});

interface Heard {
  readonly key: string;
  readonly id: string;
  readonly event: Record<string, unknown>;
}

/** Hears what is published, from now on, through a durable queue. */
async function listen(pattern = "rondo.#"): Promise<Heard[]> {
  const connection = await fixture.broker.connect();
  connections.push(connection);
  const channel = await connection.createChannel();
  await channel.assertExchange("rondo.events", "topic", { durable: true });
  const { queue } = await channel.assertQueue("heard", { durable: true });
  await channel.bindQueue(queue, "rondo.events", pattern);
  const heard: Heard[] = [];
  await channel.consume(
    queue,
    (message) => {
      if (message === null) return;
      const event = JSON.parse(message.content.toString()) as Record<string, unknown>;
      heard.push({ key: message.fields.routingKey, id: String(message.properties.messageId), event });
    },
    { noAck: true },
  );
  return heard;
}

const PHASES = [{ name: "work", handlers: { work: { use: "work", tasks: [1, 2, 3] } } }];
const seqs = (heard: readonly Heard[], id: string) =>
  heard.filter(({ event }) => event["execution"] === id).map(({ event }) => Number(event["seq"]));

test("every event comes, in order, by its kind, in summary, with the id of its place in the journal", async () => {
  const heard = await listen();
  const rondo = await fixture.open();
  await fixture.worker({ work: { process: ({ data }) => data } });
  const handle = await rondo.start(described("flow", PHASES), { a: 1 } as never);
  await handle.result({ timeout: 100_000 });
  const events = await all(handle.events());
  const once = () => heard.filter(({ id }, i) => heard.findIndex((other) => other.id === id) === i);
  await until("all have come", () => once().length >= events.length);
  const withId = events.map((event) => ({ ...event, workflow_id: handle.id }));
  expect(once().map(({ event }) => event)).toEqual(JSON.parse(JSON.stringify(withId)));
  for (const { key, id, event } of heard) {
    expect(key).toBe(`rondo.${String(event["kind"])}`);
    expect(id).toBe(`${handle.id}/${String(event["seq"])}`);
  }
});

test("a queue that is bound after events were left out gets every later one, in order", async () => {
  const rondo = await fixture.open();
  await fixture.worker({ work: { process: ({ data }) => data } });
  // Nobody gets these.
  for (let i = 0; i < 3; i++)
    await rondo.run(described("flow", PHASES), null as never, { id: `unheard-${i}` });
  const heard = await listen();
  const handles = await Promise.all(
    [1, 2, 3].map(() => rondo.start(described("flow", PHASES), null as never)),
  );
  for (const handle of handles) {
    await handle.result({ timeout: 100_000 });
    const events = await all(handle.events());
    await until("all have come", () => new Set(seqs(heard, handle.id)).size === events.length);
    const first = [...new Set(seqs(heard, handle.id))];
    expect(first).toEqual(events.map(({ seq }) => seq));
  }
});

test("the end of an execution comes to the queue of its own, if there is one", async () => {
  const rondo = await fixture.open();
  const connection = await fixture.broker.connect();
  connections.push(connection);
  const channel = await connection.createChannel();
  await channel.assertQueue("rondo.workflow.mine.finished", { durable: true });
  await fixture.worker({ work: { process: ({ data }) => data } });
  await rondo.run(described("flow", PHASES), null as never, { id: "mine" });
  await until("it came", async () => (await fixture.ready("mine.finished")) >= 1);
  const [message] = await fixture.messagesIn("rondo.workflow.mine.finished");
  expect(message?.body).toEqual({ workflow_id: "mine", status: "done" });
});

test("what is committed while the broker is away is published later, also after the execution is over", async () => {
  const { workflow } = await import("rondo");
  const flow = workflow({ name: "local" }).phase("work", { process: () => 1 });
  const { url, proxy } = await fixture.broker.proxy();
  proxy.life = () => ({ up: 1, down: 1 });
  const rondo = await fixture.open({ broker: url });
  rondo.serve(flow);
  const ids: string[] = [];
  for (let i = 0; i < 20; i++) {
    const handle = await rondo.start(flow, null);
    await handle.result({ timeout: 100_000 });
    ids.push(handle.id);
  }
  const heard = await listen("rondo.workflow.finished");
  proxy.cut({ heal: true });
  await until("all have come", () => new Set(heard.map(({ event }) => event["execution"])).size === 20);
  expect(new Set(heard.map(({ event }) => event["execution"]))).toEqual(new Set(ids));
});

test("an engine that is killed before it has published: the next one does", async () => {
  const { proxy, url } = await fixture.broker.proxy();
  proxy.life = () => ({ up: 1, down: 1 });
  const place = { ...fixture.place, broker: url, phases: PHASES };
  const child = fork(new URL("../fixtures/broker/engine-process.mjs", import.meta.url).pathname, [
    JSON.stringify(place),
  ]);
  const [said] = (await once(child, "message")) as [{ id: string }];
  child.kill("SIGKILL");
  await once(child, "exit");
  const heard = await listen();
  const rondo = await fixture.open();
  await fixture.worker({ work: { process: ({ data }) => data } });
  const handle = rondo.execution(said.id);
  await handle.result({ timeout: 100_000 });
  const events = await all(handle.events());
  await until("all have come", () => new Set(seqs(heard, said.id)).size === events.length);
  const first = [...new Set(seqs(heard, said.id))];
  expect(first).toEqual(first.toSorted((a, b) => a - b));
});
