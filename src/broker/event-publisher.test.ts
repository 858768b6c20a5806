// Events on their way to the broker, with a channel whose confirmations the test gives.
import type { ConfirmChannel } from "amqplib";
import { expect, test } from "vitest";
import type { EnginePort } from "../engine/engine-port.ts";
import type { EventsOut } from "../engine/mailbox/outbox.ts";
import { encodeEntries } from "../kernel/journal/journal-entry.ts";
import { Publisher } from "../net/amqp/publisher.ts";
import { systemClock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";
import { EventPublisher } from "./event-publisher.ts";
import { brokerNames } from "./names.ts";

function setUp() {
  const unconfirmed: (() => void)[] = [];
  const published: [string, number][] = [];
  let give: (out: EventsOut) => void = () => {};
  let scans = 0;
  const clock = systemClock();
  const publisher = new Publisher(clock);
  publisher.attach({
    on: () => {},
    publish: (...[, , , , confirm]: Parameters<ConfirmChannel["publish"]>) =>
      unconfirmed.push(() => confirm?.(null, {})),
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
  const rows = encodeEntries(
    [{ seq: 1, at: 1, event: { kind: "phase.started", phase: "a", visit: 1 } }],
    "e1",
  );
  return {
    giveOut: () => give({ execution: "e1", from: 1, to: 1, rows, plan: {} as never }),
    confirmAll: () => {
      for (const confirm of unconfirmed.splice(0)) confirm();
    },
    events,
    published,
    unconfirmed,
    turn: () => new Promise<void>((resolve) => clock.soon(resolve)),
    scans: () => scans,
  };
}

test("an event that is given out again while it is under way holds up nothing", async () => {
  const at = setUp();
  at.giveOut();
  await at.turn();
  // The execution was loaded anew meanwhile.
  at.giveOut();
  await at.turn();
  expect(at.unconfirmed).toHaveLength(2);
  at.confirmAll();
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
