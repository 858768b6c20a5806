// Events on their way to the broker, with a channel whose confirmations the test gives.
import type { ConfirmChannel } from "amqplib";
import { expect, test } from "vitest";
import type { EnginePort } from "../engine/engine-port.ts";
import type { EventsOut } from "../engine/mailbox/outbox.ts";
import type { Recorded } from "../kernel/event.ts";
import { Publisher } from "../net/amqp/publisher.ts";
import { systemClock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";
import { EventPublisher } from "./event-publisher.ts";
import { brokerNames } from "./names.ts";

interface Sent {
  readonly id: string;
  readonly confirm: () => void;
}

function setUp() {
  const unconfirmed: Sent[] = [];
  const published: [string, number][] = [];
  let give: (out: EventsOut) => void = () => {};
  let onReturn: (message: unknown) => void = () => {};
  let scans = 0;
  const clock = systemClock();
  const publisher = new Publisher(clock);
  publisher.attach({
    on: (event: string, listener: typeof onReturn) => {
      if (event === "return") onReturn = listener;
    },
    publish: (...[, , , options, confirm]: Parameters<ConfirmChannel["publish"]>) =>
      unconfirmed.push({ id: String(options?.messageId), confirm: () => confirm?.(null, {}) }),
  } as never);
  const outbox = {
    scope: null,
    listen: (listener: typeof give) => {
      give = listener;
    },
    published: (execution: string, seq: number) => published.push([execution, seq]),
  };
  const events = new EventPublisher({
    engine: { outbox } as unknown as EnginePort,
    store: {
      scanTimers: async () => {
        scans++;
        return [];
      },
    } as unknown as Store,
    clock,
    names: brokerNames("rondo"),
    publisher,
    isUp: () => true,
    onFault: (fault) => {
      throw fault;
    },
  });
  const turn = () => new Promise<void>((resolve) => clock.soon(resolve));
  return {
    /** Gives out the start of a phase, and its end too if that is wanted. */
    giveOut: (
      execution = "e1",
      kinds: readonly ("phase.started" | "phase.finished")[] = ["phase.started"],
    ) => {
      const all = kinds.map((kind, i) => ({ seq: i + 1, at: 1, event: { kind, phase: "a", visit: 1 } }));
      give({ execution, from: 1, to: all.length, events: all as Recorded[], input: "{}", plan: {} as never });
    },
    /** Confirms the messages that were sent; returns their ids. */
    confirmAll: async ({ isBound }: { readonly isBound: boolean }) => {
      const sent = unconfirmed.splice(0);
      for (const { id, confirm } of sent) {
        if (!isBound) onReturn({ properties: { messageId: id } });
        confirm();
      }
      await turn();
      return sent.map(({ id }) => id);
    },
    events,
    published,
    unconfirmed,
    turn,
    scans: () => scans,
  };
}

test("an event that is given out again while it is under way holds up nothing", async () => {
  const at = setUp();
  at.giveOut();
  await at.turn();
  await at.confirmAll({ isBound: true });
  at.published.splice(0);
  at.giveOut();
  await at.turn();
  // The execution was evicted and loaded again, so its event is published a second time.
  at.giveOut();
  await at.turn();
  expect(at.unconfirmed).toHaveLength(2);
  await at.confirmAll({ isBound: true });
  expect(at.published).toEqual([
    ["e1", 1],
    ["e1", 1],
  ]);
  await at.turn();
  const before = at.scans();
  at.events.attach();
  await at.turn();
  expect(at.scans()).toBe(before + 1);
});

test("if no queue is bound for a kind of event, one event shows that for all that are committed already", async () => {
  const at = setUp();
  for (const execution of ["e1", "e2", "e3"]) at.giveOut(execution, ["phase.started", "phase.finished"]);
  await at.turn();
  expect(at.published).toEqual([]);
  expect(await at.confirmAll({ isBound: false })).toEqual(["e1/1", "e1/2"]);
  expect(at.unconfirmed).toEqual([]);
  expect(at.published).toEqual([
    ["e1", 2],
    ["e2", 2],
    ["e3", 2],
  ]);
});

test("an event that is committed after that is published: a queue may be bound by now", async () => {
  const at = setUp();
  at.giveOut("e1");
  await at.turn();
  // This one is committed while the first is on its way, so a queue may be bound before it and after the first.
  at.giveOut("e2");
  await at.turn();
  expect(await at.confirmAll({ isBound: false })).toEqual(["e1/1"]);
  expect(at.published).toEqual([["e1", 1]]);
  expect(await at.confirmAll({ isBound: true })).toEqual(["e2/1"]);
  expect(at.published).toEqual([
    ["e1", 1],
    ["e2", 1],
  ]);
});

test("a queue that is bound gets all events in order, without waits for confirmations", async () => {
  const at = setUp();
  const kinds = ["phase.started", "phase.started", "phase.finished", "phase.started"] as const;
  at.giveOut("e1", kinds);
  await at.turn();
  // The second event waits, so that no event overtakes it.
  expect(at.unconfirmed.map(({ id }) => id)).toEqual(["e1/1"]);
  expect(await at.confirmAll({ isBound: true })).toEqual(["e1/1"]);
  expect(await at.confirmAll({ isBound: true })).toEqual(["e1/2", "e1/3", "e1/4"]);
  at.giveOut("e2", kinds);
  await at.turn();
  expect(await at.confirmAll({ isBound: true })).toEqual(["e2/1", "e2/2", "e2/3", "e2/4"]);
  // The queue was deleted. The messages that are on their way are returned, and the next ones are left out.
  at.giveOut("e3", kinds);
  await at.turn();
  expect(await at.confirmAll({ isBound: false })).toHaveLength(4);
  for (const execution of ["e4", "e5"]) at.giveOut(execution, ["phase.started"]);
  await at.turn();
  expect(await at.confirmAll({ isBound: false })).toEqual(["e4/1"]);
  expect(at.published.at(-1)).toEqual(["e5", 1]);
});
