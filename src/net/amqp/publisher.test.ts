// A publisher over channels whose confirms and returns the test gives.
import type { ConfirmChannel } from "amqplib";
import { expect, test } from "vitest";
import type { Clock } from "../../std/clock.ts";
import { type Outgoing, Publisher } from "./publisher.ts";

type Confirm = (error: Error | null, ok: object) => void;

function setUp() {
  const waits: number[] = [];
  const timers: (() => void)[] = [];
  const clock: Clock = {
    now: () => 0,
    after: (ms, run) => {
      waits.push(ms);
      timers.push(run);
      return () => {};
    },
    soon: (run) => run(),
  };
  const publisher = new Publisher(clock);
  /** A channel, and what it was given: ids with their confirms. */
  const connect = () => {
    const sent: { readonly id: string; readonly confirm: Confirm }[] = [];
    let onReturn: (message: object) => void = () => {};
    const channel = {
      on: (_: string, listener: typeof onReturn) => {
        onReturn = listener;
      },
      publish: (...[, , , options, confirm]: Parameters<ConfirmChannel["publish"]>) =>
        sent.push({ id: String(options?.messageId), confirm: confirm as Confirm }),
    };
    publisher.attach(channel as never);
    const unrouted = (): void => {
      const last = sent.at(-1);
      onReturn({ properties: { messageId: last?.id } });
      last?.confirm(null, {});
    };
    return { sent, unrouted, ids: () => sent.map(({ id }) => id) };
  };
  const ends: string[] = [];
  const publish = (id: string, more: Partial<Outgoing> = {}): void =>
    publisher.publish({
      key: "queue",
      id,
      body: Buffer.from("{}"),
      done: (isRouted) => ends.push(`${id} ${isRouted}`),
      ...more,
    });
  const fire = (): void => {
    for (const run of timers.splice(0)) run();
  };
  return { publisher, connect, publish, ends, waits, fire };
}

test("unconfirmed messages go over the next connection in their order, unless their sender repeats them", () => {
  const { publisher, connect, publish, ends } = setUp();
  const first = connect();
  publish("a");
  publish("b", { isRepeated: true });
  publish("c");
  first.sent[2]?.confirm(null, {});
  publisher.detach();
  publish("d");
  const second = connect();
  expect(second.ids()).toEqual(["a", "d"]);
  // A confirm of the earlier connection is ignored.
  first.sent[0]?.confirm(null, {});
  expect(ends).toEqual(["c true"]);
  for (const { confirm } of second.sent) confirm(null, {});
  expect([ends, publisher.size, publisher.published]).toEqual([["c true", "a true", "d true"], 0, 3]);
});

test("a message that no queue took ends as such, at once or after a few more tries", () => {
  const { connect, publish, ends, waits, fire } = setUp();
  const { sent, unrouted } = connect();
  publish("once", { mandatory: true });
  unrouted();
  expect([ends, sent.length]).toEqual([["once false"], 1]);
  publish("often", { mandatory: true, retryUnrouted: true });
  for (let i = 0; i < 6; i++) {
    unrouted();
    expect(ends).toHaveLength(1);
    fire();
  }
  unrouted();
  expect([ends, sent.length]).toEqual([["once false", "often false"], 8]);
  expect(waits).toEqual([200, 400, 800, 1_600, 3_200, 6_400]);
});

test("a message that the broker refuses is published again", () => {
  const { connect, publish, ends, fire } = setUp();
  const { sent } = connect();
  publish("a");
  sent[0]?.confirm(new Error("nack"), {});
  fire();
  sent[1]?.confirm(null, {});
  expect([ends, sent.length]).toEqual([["a true"], 2]);
});

test("a withdrawn message is reported as gone once it cannot arrive any more", () => {
  const { publisher, connect, publish, ends } = setUp();
  const gone: string[] = [];
  const withdraw = (id: string): void => publisher.withdraw(id, () => gone.push(id));
  const { sent } = connect();
  for (const id of ["a", "b"]) publish(id);
  withdraw("a");
  withdraw("b");
  withdraw("unknown");
  expect(gone).toEqual(["unknown"]);
  sent[0]?.confirm(null, {});
  expect(gone).toEqual(["unknown", "a"]);
  publisher.detach();
  expect([gone, ends, publisher.size]).toEqual([["unknown", "a", "b"], [], 0]);
});

test("a message with a key or property that AMQP cannot send is accepted by no queue, and others are published", () => {
  const { publish, connect, ends } = setUp();
  const { ids } = connect();
  const long = "\uFFFD".repeat(86);
  publish("a", { key: long });
  publish("b", { replyTo: long });
  publish("c", { correlationId: long });
  publish("d", { key: "\uFFFD".repeat(85) });
  expect(ends).toEqual(["a false", "b false", "c false"]);
  expect(ids()).toEqual(["d"]);
});
