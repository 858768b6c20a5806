// Commands that are only in the store, and the receipt topics that they wait at.
import { expect, test } from "vitest";
import { RETRY_TIMER } from "../../engine/commit/execution-write.ts";
import type { Plan } from "../../kernel/definition/plan.ts";
import type { SentAt } from "../../protocol/work.ts";
import { systemClock } from "../../std/clock.ts";
import type { StoredTimer } from "../../store/store.ts";
import { ReceiptTopics, type ReceiptTopicsParts } from "./receipt-topics.ts";
import { WaitingCommands, type WaitingCommandsParts } from "./waiting-commands.ts";

const row = (execution: string, due: number, timer = RETRY_TIMER): StoredTimer => ({ execution, timer, due });

/** A store with these rows; the definition of an execution is named like the receipt topic, and given by `topicOf`. */
function searching(
  rows: StoredTimer[],
  topicOf: (execution: string) => string,
  registered: readonly string[],
) {
  let session: object | null = {};
  const found: SentAt[] = [];
  let inspected = 0;
  const receipts = new ReceiptTopics({
    clock: systemClock(),
    session: () => null,
    onUnsure: () => {},
  } as unknown as ReceiptTopicsParts);
  const parts = {
    clock: {
      ...systemClock(),
      after: (_: number, run: () => void) => {
        const immediate = setImmediate(run);
        return () => clearImmediate(immediate);
      },
    },
    session: () => session,
    queueRegistry: { topics: async () => registered.map((receiptTopic) => ({ receiptTopic })) },
    planOf: async (hash: string) =>
      ({ commands: [{ phase: { name: "one" }, command: { receiptTopic: hash } }] }) as unknown as Plan,
    store: {
      scanTimers: async ({ from = 0, max }: { from?: number; max: number }) =>
        rows.filter(({ due }) => due >= from).slice(0, max),
      load: async (ids: readonly string[]) =>
        ids.map((id) => ({ head: { id, hash: topicOf(id), phase: "one", project: "p" } })),
    },
    engine: {
      isOwn: (id: string) => !id.startsWith("other"),
      inspect: async (id: string) => {
        inspected++;
        const command = { phase: "one", handler: "one", topic: "T", receiptTopic: topicOf(id) };
        const queued = { visit: 1, round: 1, task: 0, attempt: 1, claim: 0, epoch: 1 };
        return { commands: [id.startsWith("ended") ? command : { ...command, queued }] };
      },
    },
  } as unknown as WaitingCommandsParts;
  const waiting = new WaitingCommands(parts, receipts, (sent) => {
    found.push(sent);
    receipts.add(sent.receiptTopic, sent.attempt.execution, sent.project);
  });
  waiting.tookOver();
  return {
    receipts,
    waiting,
    found: () => found.map(({ attempt }) => attempt.execution),
    inspected: () => inspected,
    setConnected: (isConnected: boolean) => {
      session = isConnected ? {} : null;
    },
  };
}

test("a topic has a command however many rows are due at one time; others are known to have none", async () => {
  const rows = [
    ...Array.from({ length: 950 }, (_, n) => row(`a${n}`, 7)),
    row("sleeper", 8, "wake"),
    row("other1", 8),
    row("ended1", 8),
    row("b1", 8),
    row("b2", 9),
  ];
  const topicOf = (id: string) => (id.startsWith("a") ? "A_RECEIPT" : id.startsWith("b") ? "B" : "C");
  const { receipts, waiting, found, inspected } = searching(rows, topicOf, ["A_RECEIPT", "B", "C", "D"]);
  await waiting.find();
  expect(found()).toEqual(["a0", "b1"]);
  expect(inspected()).toBe(3);
  expect(receipts.missing).toEqual(["A_RECEIPT", "B"]);
  expect([...receipts.unsure.keys()]).toEqual([]);
});

test("when the known command has ended, the next one is searched for, until there is none", async () => {
  const rows = [row("b1", 8), row("b2", 9)];
  const { receipts, waiting, found } = searching(rows, () => "B", ["B"]);
  await waiting.find();
  for (const id of ["b1", "b2"]) {
    receipts.remove("B", id);
    rows.shift();
    expect([...receipts.unsure.keys()]).toEqual(["B"]);
    await waiting.find();
  }
  expect(found()).toEqual(["b1", "b2"]);
  expect([...receipts.unsure.keys()]).toEqual([]);
  // Another process has ended, and this node takes over its commands.
  rows.push(row("b3", 10));
  waiting.tookOver();
  await waiting.find();
  expect(found()).toEqual(["b1", "b2", "b3"]);
});

test("a search that the broker's absence breaks off decides nothing; the next one does", async () => {
  const { receipts, waiting, setConnected } = searching([row("a", 1)], () => "A", ["A", "B"]);
  const searched = waiting.find();
  setConnected(false);
  await searched;
  expect([...receipts.unsure.keys()]).toEqual(["B"]);
  setConnected(true);
  await waiting.find();
  expect([...receipts.unsure.keys()]).toEqual([]);
});
