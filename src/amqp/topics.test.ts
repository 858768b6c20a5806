// Commands on their way to topics, with a broker that has said nothing yet.
import { expect, test } from "vitest";
import type { EnginePort } from "../engine/engine-port.ts";
import type { Grant } from "../protocol/work.ts";
import { systemClock } from "../std/clock.ts";
import type { BrokerSession } from "./broker-link.ts";
import { Publisher } from "./publisher.ts";
import { DEFAULT_BROKER_SETTINGS } from "./settings.ts";
import { Topics } from "./topics.ts";

const PLACE = { execution: "e1", phase: "a", visit: 1, handler: "a", round: 1, epoch: 1 };

test("a command that is given up before the broker has confirmed it is not sent over the next connection", async () => {
  const clock = systemClock();
  const publisher = new Publisher(clock);
  const released: unknown[] = [];
  const session = { look: async () => ({ ready: 0, consumers: 0 }), take: async () => "tag" };
  const topics = new Topics({
    worker: "broker",
    engine: {
      info: { key: "k".repeat(32) },
      release: (...[, beats]: Parameters<EnginePort["release"]>) => released.push(...beats),
    } as unknown as EnginePort,
    publisher,
    mender: { open: (_: unknown, __: unknown, work: () => unknown) => work() } as never,
    book: { putTopic: async () => {} } as never,
    settings: DEFAULT_BROKER_SETTINGS,
    clock,
    silentMs: () => 0,
    words: {} as never,
    session: () => session as unknown as BrokerSession,
    findCommand: async () => null,
    onFault: (fault) => {
      throw fault;
    },
  });
  topics.send({
    ...PLACE,
    do: "command",
    command: { topic: "A_CMD", receiptTopic: "A_RECEIPT", step: 0 },
    items: [{ number: 0, attempt: 1, claim: 0, task: "{}", checkpoints: null }],
  } as unknown as Grant);
  await new Promise<void>((resolve) => clock.soon(resolve));
  expect(publisher.size).toBe(1);
  topics.giveUp(PLACE);
  expect(publisher.size).toBe(0);
  expect(released).toMatchObject([{ execution: "e1", attempts: [{ task: 0, attempt: 1 }] }]);
});
