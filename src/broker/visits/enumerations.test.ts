// One enumeration at the broker, with an engine that answers when the test lets it.
import type { ConsumeMessage } from "amqplib";
import { expect, test } from "vitest";
import type { EnginePort } from "../../engine/engine-port.ts";
import { encodeAttempt, signAttempt } from "../../protocol/attempt-id.ts";
import type { Report } from "../../protocol/work.ts";
import { Enumeration } from "./enumerations.ts";
import type { Delivery, ReceiptInbox } from "./receipt-inbox.ts";

const KEY = "k".repeat(32);
const AT = {
  ...{ execution: "e1", phase: "work", visit: 1, handler: "work", round: 1, epoch: 1 },
  ...{ task: -1, attempt: 1, claim: 0 },
};

function bench({ byIdentity = false, known = 0 } = {}) {
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
  const words = {
    acknowledge: () => {},
    putBack: () => {},
    refuse: (_: Delivery, reason: string) => refused.push(reason),
  };
  const enumeration = new Enumeration(AT, "intake", known, {
    worker: "broker",
    engine: engine as unknown as EnginePort,
    words: words as unknown as ReceiptInbox,
    onFault: (fault) => {
      throw fault;
    },
    byIdentity,
    prefetch: 100,
    onEnd: () => {
      isEnded = true;
    },
  });
  const say = (body: object): void => {
    const message = { content: Buffer.from(JSON.stringify(body)) } as ConsumeMessage;
    enumeration.found({ message, channel: {} as never, queue: "intake" });
  };
  const item = (position: number, more: object = {}) =>
    say({ workflow_id: "e1", phase: "work", handler: "work", position, data: position, ...more });
  /** The last word, as another node passes it on. */
  const over = (at: typeof AT, total: number) => {
    const attempt = encodeAttempt(at);
    say({ workflow_id: "e1", attempt, token: signAttempt(KEY, attempt), status: "done", total });
  };
  return { enumeration, asked, refused, item, over, isEnded: () => isEnded };
}

test("what comes again while a page is being journaled over a broken connection is not left lying", async () => {
  const at = bench();
  at.item(0);
  expect(at.asked.map(({ report }) => report.kind)).toEqual(["page"]);
  // The connection breaks before the commit is made; over the next one all of it comes again, and the end.
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

test("the word on another attempt, with a token that fits it, does not end this one", () => {
  const at = bench();
  at.over({ ...AT, attempt: 2 }, 0);
  at.over({ ...AT, execution: "e1", task: 3 }, 0);
  expect(at.refused).toEqual([
    "`attempt` is not that of the enumeration",
    "`attempt` is not that of the enumeration",
  ]);
  expect(at.asked).toEqual([]);
  at.over(AT, 0);
  expect(at.asked).toHaveLength(1);
});

test("identities are ignored where the definition has none: a second attempt goes on by position", async () => {
  const at = bench({ known: 2 });
  at.item(2, { identity: "c" });
  expect(at.asked).toMatchObject([{ report: { kind: "page", from: 2, tasks: ["2"], identities: null } }]);
});

test("where the definition has them, all that is named is told from the beginning", async () => {
  const at = bench({ known: 2, byIdentity: true });
  at.item(0, { identity: "a" });
  expect(at.asked).toMatchObject([{ report: { kind: "page", from: 0, identities: ["a"] } }]);
});
