// Commands on their way to topics, with a broker of which the test says what it does.
import type { ConfirmChannel } from "amqplib";
import { expect, test } from "vitest";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import { Publisher } from "../../net/amqp/publisher.ts";
import type { Grant } from "../../protocol/work.ts";
import { systemClock } from "../../std/clock.ts";
import { reject } from "../../std/rejection.ts";
import { brokerNames } from "../names.ts";
import { DEFAULT_BROKER_SETTINGS } from "../settings.ts";
import { Topics } from "./topics.ts";

const PLACE = { execution: "e1", phase: "a", visit: 1, handler: "a", round: 1, epoch: 1 };

const CANCELLED = [{ ...PLACE, attempts: [{ task: 0, attempt: 1, claim: 0 }] }];

/** Sends one command to an empty topic that has a consumer. */
async function setUp(silentMs: number, { grantsAgain = false } = {}) {
  const clock = systemClock();
  const publisher = new Publisher(clock);
  const released: unknown[] = [];
  /** Queues whose messages were counted before a search. */
  const counted: string[] = [];
  const counts = { ready: 0, consumers: 1 };
  const session = {
    counts: async (queue: string) => {
      counted.push(queue);
      return counts;
    },
    consume: async () => "tag",
    cancel: async () => {},
  };
  const topics = new Topics({
    worker: "broker",
    names: brokerNames("rondo"),
    engine: {
      info: { key: "k".repeat(32) },
      holderOf: () => ({ worker: "broker" }),
      isResident: () => true,
      isOwn: () => true,
      sent: () => {},
      usesServed: () => new Set(),
      openAttempts: () => [],
      release: (...[, beats]: Parameters<EnginePort["release"]>) => {
        released.push(...beats);
        if (grantsAgain) topics.send(grant);
      },
    } as unknown as EnginePort,
    publisher,
    repair: {
      open: (_: unknown, __: unknown, work: () => unknown) => work(),
      counts: async () => counts,
    } as never,
    queueRegistry: { putTopic: async () => {}, hasTopic: async () => true, topics: async () => [] } as never,
    store: {} as never,
    planOf: async () => null,
    topicRegistry: { claim: async () => null },
    receiptTopics: [],
    settings: DEFAULT_BROKER_SETTINGS,
    clock,
    silentMs: () => silentMs,
    inbox: {} as never,
    dead: {} as never,
    session: () => session as unknown as BrokerSession,
    findCommand: async () => reject("not_found", "there is none"),
    onFault: (fault) => {
      throw fault;
    },
  });
  const turn = () => new Promise<void>((resolve) => clock.soon(resolve));
  const grant = {
    ...PLACE,
    do: "command",
    command: { topic: "A_CMD", receiptTopic: "A_RECEIPT", step: 0 },
    items: [{ number: 0, attempt: 1, claim: 0, task: "{}", checkpoints: null }],
  } as unknown as Grant;
  topics.send(grant);
  await turn();
  return { topics, publisher, released, counted, turn };
}

test("a command that is cancelled before the broker has confirmed it is not sent over the next connection", async () => {
  const { topics, publisher, released, turn } = await setUp(0);
  expect(publisher.size).toBe(1);
  topics.cancel(CANCELLED, "A_CMD");
  await turn();
  // Only the notice of the cancel to workers is still unconfirmed.
  expect(publisher.size).toBe(1);
  publisher.forget(({ exchange }) => exchange === "rondo.cancel.consumer");
  expect(publisher.size).toBe(0);
  expect(released).toMatchObject([{ execution: "e1", attempts: [{ task: 0, attempt: 1 }] }]);
});

test("a command that is on its way to the broker when it is cancelled is searched for once it is there", async () => {
  const { topics, publisher, counted, turn } = await setUp(0);
  let confirm: ((error: null, ok: object) => void) | undefined;
  publisher.attach({
    on: () => {},
    publish: (...[, key, , , done]: Parameters<ConfirmChannel["publish"]>) => {
      if (key === "A_CMD") confirm = done as typeof confirm;
    },
  } as never);
  counted.length = 0;
  topics.cancel(CANCELLED, "A_CMD");
  await turn();
  expect(counted).toEqual([]);
  confirm?.(null, {});
  await turn();
  expect(counted).toEqual(["A_CMD"]);
});

test("a command without a receipt is sent again a few times, not for ever", async () => {
  const { silencesMax } = DEFAULT_BROKER_SETTINGS;
  const { topics, publisher, turn } = await setUp(Number.POSITIVE_INFINITY, { grantsAgain: true });
  publisher.attach({
    on: () => {},
    publish: (...[, , , , confirm]: Parameters<ConfirmChannel["publish"]>) => confirm?.(null, {}),
  } as never);
  expect(publisher.published).toBe(1);
  for (let checks = 0; checks < 3 * silencesMax; checks++) {
    topics.check();
    await turn();
  }
  expect(publisher.published).toBe(1 + silencesMax);
});
