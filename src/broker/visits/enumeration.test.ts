// One enumeration at the broker, with an engine that answers when the test lets it.
import { expect, test } from "vitest";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { DeadLetters } from "../../net/amqp/dead-letters.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { encodeAttempt, signAttempt } from "../../protocol/attempt-id.ts";
import type { Report } from "../../protocol/work.ts";
import { Enumeration } from "./enumeration.ts";

const KEY = "k".repeat(32);
const AT = {
  ...{ execution: "e1", phase: "work", visit: 1, handler: "work", round: 1, epoch: 1 },
  ...{ task: -1, attempt: 1, claim: 0 },
};

function setUp({ byIdentity = false, known = 0 } = {}) {
  const asked: { report: Report; answer: (verdict: string) => Promise<void> }[] = [];
  const refused: string[] = [];
  let isEnded = false;
  const engine = {
    info: { key: KEY },
    hasStopped: false,
    report: (_: string, [report]: readonly Report[]) =>
      new Promise((resolve) => {
        const answer = async (verdict: string): Promise<void> => {
          resolve([[verdict]]);
          await new Promise((next) => setImmediate(next));
        };
        asked.push({ report: report as Report, answer });
      }),
  };
  const dead = { put: (_: Delivery, reason: string) => void refused.push(reason) };
  const enumeration = new Enumeration(AT, "intake", known, {
    worker: "broker",
    engine: engine as unknown as EnginePort,
    dead: dead as unknown as DeadLetters,
    onFault: (fault) => {
      throw fault;
    },
    byIdentity,
    shortMessages: false,
    prefetch: 100,
    onEnd: () => {
      isEnded = true;
    },
  });
  const deliver = (body: object): void => {
    const message = { content: Buffer.from(JSON.stringify(body)) };
    const delivery = { message, ack: () => {}, nack: () => {} } as unknown as Delivery;
    enumeration.onMessage(delivery);
  };
  const item = (position: number, more: object = {}) =>
    deliver({ workflow_id: "e1", phase: "work", handler: "work", position, data: position, ...more });
  /** `enumerated`, as another node passes it on. */
  const over = (at: typeof AT, total: number) => {
    const attempt = encodeAttempt(at);
    deliver({ workflow_id: "e1", attempt, token: signAttempt(KEY, attempt), status: "done", total });
  };
  return { enumeration, asked, refused, item, over, isEnded: () => isEnded };
}

test("tasks that are delivered again while their page is being journaled are journaled too", async () => {
  const at = setUp();
  at.item(0);
  expect(at.asked.map(({ report }) => report.kind)).toEqual(["page"]);
  // The connection breaks before the commit; over the next one all messages are delivered again.
  at.enumeration.detach();
  at.item(0);
  at.item(1);
  at.over(AT, 2);
  await at.asked[0]?.answer("accepted");
  expect(at.asked[1]?.report).toMatchObject({ kind: "page", from: 0, tasks: ["0", "1"] });
  await at.asked[1]?.answer("accepted");
  expect(at.asked[2]?.report).toMatchObject({ kind: "enumeration", outcome: { total: 2 } });
  await at.asked[2]?.answer("accepted");
  expect(at.isEnded()).toBe(true);
});

test("the end of another attempt, with a valid token, does not end this one", () => {
  const at = setUp();
  at.over({ ...AT, attempt: 2 }, 0);
  at.over({ ...AT, execution: "e1", task: 3 }, 0);
  expect(at.refused).toEqual([
    "`attempt` differs from the attempt at the enumeration whose intake queue this is",
    "`attempt` differs from the attempt at the enumeration whose intake queue this is",
  ]);
  expect(at.asked).toEqual([]);
  at.over(AT, 0);
  expect(at.asked).toHaveLength(1);
});

test("without identities in the definition they are ignored: a second attempt resumes by position", async () => {
  const at = setUp({ known: 2 });
  at.item(2, { identity: "c" });
  expect(at.asked).toMatchObject([{ report: { kind: "page", from: 2, tasks: ["2"], identities: null } }]);
});

test("with identities, a second attempt lists all tasks from the beginning", async () => {
  const at = setUp({ known: 2, byIdentity: true });
  at.item(0, { identity: "a" });
  expect(at.asked).toMatchObject([{ report: { kind: "page", from: 0, identities: ["a"] } }]);
});
