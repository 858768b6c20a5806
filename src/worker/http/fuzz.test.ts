// Every answer of a server, with any change to it: a worker reads it or takes it for no answer, and never throws.
import fc from "fast-check";
import { expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { mutated } from "../../../test/fixtures/workers/mutated-json.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { Claimed, EventsAnswer, WorkItem } from "../../protocol/worker-wire.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { EventQueue } from "./event-queue.ts";
import { readClaimed, readEventsAnswer, readHeartbeatAnswer, readRegistered } from "./read-answers.ts";
import { readWork } from "./read-work.ts";
import type { SpooledEvent } from "./spool.ts";

const numRuns = effort({ usual: 2_000, long: 100_000 });
const A = "e1.map.1.map.1.0.1.0.1";
const B = "e1.map.1.map.1.1.1.0.1";

const ITEM: WorkItem = {
  ...{ attempt: A, token: "t", leaseUntil: 1, do: "process", execution: "e1", workflow: "w", project: "p" },
  ...{ phase: "map", visit: 1, handler: "map", use: "w.map", version: null, number: 0, task: { x: 1 } },
  ...{ idempotencyKey: "k", n: 1, timeoutMs: 1_000, heartbeatMs: 30_000, batch: 1, traceparent: "00-1-2-01" },
};
const STEPS = [
  { name: "a", result: 1 },
  { name: "b", error: { message: "no" } },
  { name: "c", until: 5 },
  { name: "d" },
];
const WORK: readonly WorkItem[] = [
  { ...ITEM, steps: STEPS },
  { ...ITEM, do: "enumerate", number: -1, resume: { count: 3, last: 7, checksum: 9 } },
  {
    ...{ ...ITEM, do: "script", use: "~script", attempt: B, finished: 1, state: [1] },
    runs: [{ name: "r1", expression: "s => s", timeoutMs: null }],
  },
  { ...ITEM, do: "returns", phases: [{ phase: "map", visit: 1, firstSeq: 0, lastSeq: 1, handlers: [] }] },
  { ...ITEM, do: "command", use: "topic:t", task: { cmd_metadata: { rondo: { step: 2 } } } },
];
const { attempt: _a, token: _t, number: _n, task: _k, idempotencyKey: _i, n: _m, ...SHARED } = ITEM;
const BATCH = {
  ...SHARED,
  round: 1,
  epoch: 1,
  tasks: [
    [0, 1, 0, "t", { x: 1 }],
    [1, 2, 1, "u", null],
  ],
};
const CLAIMED = {
  ...{
    work: WORK,
    batches: [BATCH],
    inputs: { e1: { any: 1 } },
    phases: { e1: [] },
    cancel: [A],
    lost: [B],
    drain: true,
  },
  nodes: ["http://a:1", "http://b:2"],
} as unknown as Claimed;
const ANSWER: EventsAnswer = {
  stored: { [A]: 2, [B]: 1 },
  verdicts: { [A]: "accepted", [B]: "stale" },
  refused: { [B]: { n: 1, code: "wrong_status", message: "not the next", hint: "r0 is", path: "run" } },
};

test("any answer to a claim is work that can be begun, or no answer", () => {
  expect(readClaimed(CLAIMED)?.work).toHaveLength(WORK.length);
  fc.assert(
    fc.property(mutated(CLAIMED), (value) => {
      const claimed = readClaimed(value);
      if (claimed === null) return;
      const { grants, items } = readWork(claimed, () => 0);
      const batched = (claimed.batches ?? []).flatMap(({ tasks }) => tasks);
      expect(items).toHaveLength(claimed.work.length + batched.length);
      for (const { id } of items) expect(decodeAttempt(id)).not.toBeNull();
      for (const { script, resume, items: tasks, visit, batch } of grants) {
        for (const { expression, name } of script?.runs ?? [])
          expect([typeof expression, typeof name]).toEqual(["string", "string"]);
        for (const { name } of tasks.flatMap(({ checkpoints }) => checkpoints ?? []))
          expect(typeof name).toBe("string");
        if (resume !== null) expect([resume.count, resume.checksum].every(Number.isInteger)).toBe(true);
        expect([visit, batch].every((count) => Number.isInteger(count) && count > 0)).toBe(true);
      }
      for (const id of [...claimed.cancel, ...claimed.lost]) expect(decodeAttempt(id)).not.toBeNull();
      for (const url of claimed.nodes ?? []) expect(URL.canParse(url)).toBe(true);
    }),
    { numRuns },
  );
});

test("any answer to a registration names a worker and its times, or is none", () => {
  const registered = { worker: "w", heartbeatMs: 30_000, leaseMs: 30_000, nodes: ["http://a:1"] };
  expect(readRegistered(registered)).toEqual(registered);
  fc.assert(
    fc.property(mutated(registered), (value) => {
      const read = readRegistered(value);
      if (read === null) return;
      expect(read.worker.length).toBeGreaterThan(0);
      expect(Math.min(read.heartbeatMs, read.leaseMs)).toBeGreaterThan(0);
    }),
    { numRuns },
  );
});

test("any answer to a beat has a word for each attempt, or is none", () => {
  fc.assert(
    fc.property(mutated({ [A]: "continue", [B]: "not_owner" }), (value) => {
      for (const word of Object.values(readHeartbeatAnswer(value) ?? {})) expect(typeof word).toBe("string");
    }),
    { numRuns },
  );
});

test("whatever is answered to events, each is settled, given to another node, or sent again until it is", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(mutated(ANSWER), { maxLength: 3 }), async (answers) => {
      const clock = new VirtualClock();
      const settled: string[] = [];
      const moved: string[] = [];
      const nameOf = ({ attempt, n }: SpooledEvent) => `${attempt} ${n}`;
      const left = [...answers];
      const queue = new EventQueue<SpooledEvent>({
        clock,
        random: new SeededRandom(1),
        post: async () => {
          if (left.length === 0)
            return { kind: "answered", value: { stored: { [A]: 2, [B]: 1 }, verdicts: {} } };
          const value = readEventsAnswer(left.shift());
          return value === null ? { kind: "unsent" } : { kind: "answered", value };
        },
        onSettled: (list) => settled.push(...list.map(({ entry }) => nameOf(entry))),
        onMoved: (entries) => moved.push(...entries.map(nameOf)),
        onDropped: () => {},
        onBug: (thrown) => {
          throw thrown;
        },
      });
      const events = [
        { attempt: A, n: 1 },
        { attempt: A, n: 2 },
        { attempt: B, n: 1 },
      ].map((one) => ({ ...one, token: "t", isReceipt: false, json: JSON.stringify(one) }));
      queue.add(events);
      for (let i = 0; i < 20; i++) await clock.advance(1_000);
      expect([...settled, ...moved].toSorted()).toEqual(events.map(nameOf).toSorted());
    }),
    { numRuns: numRuns / 10 },
  );
});
