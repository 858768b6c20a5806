// Receipts on their way to an engine whose verdicts the test gives.
import { expect, test } from "vitest";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import type { Clock } from "../../std/clock.ts";
import { reject } from "../../std/rejection.ts";
import { ReceiptInbox } from "./receipt-inbox.ts";

const AT = {
  ...{ execution: "e1", phase: "a", visit: 1, handler: "a", round: 1, epoch: 1 },
  ...{ task: 0, attempt: 1, claim: 0 },
};

function setUp(verdicts: string[], inspections: readonly object[] = []) {
  const found = [...inspections];
  const later: (() => void)[] = [];
  const did: string[] = [];
  let isOpen = true;
  const delivery = {
    ack: () => did.push("ack"),
    nack: () => did.push("nack"),
    get isOpen() {
      return isOpen;
    },
  } as unknown as Delivery;
  const clock: Clock = {
    now: () => 0,
    after: (_, run) => {
      later.push(run);
      return () => {};
    },
    soon: (run) => setImmediate(run),
  };
  const engine = {
    hasStopped: false,
    report: async () => [[verdicts.shift() ?? "duplicate"]],
    inspect: async () => found.shift() ?? reject("not_found", "there is none"),
  };
  const inbox = new ReceiptInbox({
    worker: "broker",
    engine: engine as unknown as EnginePort,
    clock,
    dead: {
      put: (one: Delivery, reason: string) => {
        did.push(reason);
        one.ack();
      },
    } as never,
    settings: { shortMessages: false },
    mayCount: () => true,
    onEnumerated: () => {},
    onFault: (fault) => {
      throw fault;
    },
  });
  const turn = async () => {
    await new Promise((next) => setImmediate(next));
    await new Promise((next) => setImmediate(next));
  };
  return {
    accept: async (isShared: boolean) => {
      inbox.accept({ at: AT, ms: 0, outcome: { status: "done", payload: "1" } }, delivery, isShared);
      await turn();
    },
    wait: async () => {
      for (const run of later.splice(0)) run();
      await turn();
    },
    breakOff: () => {
      isOpen = false;
    },
    did,
    verdicts,
  };
}

test("a receipt without an owner is returned to a queue that only its node consumes", async () => {
  const at = setUp(["elsewhere"]);
  await at.accept(false);
  expect(at.did).toEqual(["nack"]);
});

test("a receipt out of a queue that all nodes consume is reported again until an owner has it, without another delivery", async () => {
  const at = setUp([
    "elsewhere",
    "elsewhere",
    "elsewhere",
    "elsewhere",
    "elsewhere",
    "elsewhere",
    "accepted",
  ]);
  await at.accept(true);
  for (let i = 0; i < 5; i++) await at.wait();
  expect(at.did).toEqual([]);
  await at.wait();
  expect(at.did).toEqual(["ack"]);
});

test("a receipt is not reported again after its connection is gone: the broker delivers it again", async () => {
  const at = setUp(["elsewhere", "accepted"]);
  await at.accept(true);
  at.breakOff();
  await at.wait();
  expect([at.did, at.verdicts]).toEqual([[], ["accepted"]]);
});

test("a receipt that a damaged execution does not take is a dead letter; one that is late is not", async () => {
  const damaged = setUp(["stale"], [{ view: { status: "damaged" } }]);
  await damaged.accept(true);
  expect(damaged.did).toEqual([expect.stringContaining("e1 is damaged"), "ack"]);
  for (const inspections of [[{ view: { status: "running" } }], []]) {
    const late = setUp(["stale"], inspections);
    await late.accept(true);
    expect(late.did).toEqual(["ack"]);
  }
});

test("a receipt is reported again while the state of its execution is unknown", async () => {
  const at = setUp(["stale", "stale"], [reject("not_ready", "not now"), { view: { status: "damaged" } }]);
  await at.accept(true);
  expect(at.did).toEqual([]);
  await at.wait();
  expect(at.did).toEqual([expect.stringContaining("e1 is damaged"), "ack"]);
});
