// Events on their way: numbers, batches, acknowledgements, repeats, refusals. The server is the test.
import { describe, expect, test } from "vitest";
import { heldAttempts, idOf, makeGrant } from "../../../test/fixtures/workers/worker-fixture.ts";
import type { Report } from "../../protocol/work.ts";
import type { EventsAnswer, EventsRequest } from "../../protocol/worker-wire.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { reportPlace } from "../attempt-place.ts";
import { EventQueue } from "./event-queue.ts";
import { type Entry, Outbox } from "./outbox.ts";
import type { Called } from "./server-link.ts";

const PLACE = reportPlace(makeGrant([]));

interface Sent extends EventsRequest {
  readonly reply: (called: Called<EventsAnswer>) => Promise<void>;
  readonly numbers: readonly (readonly [string, number, string])[];
}

function setUp(tasks: number) {
  const held = heldAttempts(tasks);
  const sent: Sent[] = [];
  const dropped: string[] = [];
  const gone = { isGone: false };
  const acknowledged: string[] = [];
  const clock = new VirtualClock();
  const outbox: Outbox = new Outbox({
    clock,
    held,
    spool: null,
    takesFields: () => true,
    queueOf: () => (gone.isGone ? null : queue),
    onEnded: () => {},
    onAcknowledged: ({ id }) => acknowledged.push(id),
    onHomeless: () => {},
  });
  const queue = new EventQueue<Entry>({
    clock,
    random: new SeededRandom(1),
    onSettled: (settled) => outbox.settled(settled),
    onMoved: (entries) => outbox.moved(entries),
    onDropped: (attempt) => dropped.push(attempt),
    onBug: (thrown) => {
      throw thrown;
    },
    post: (body) =>
      new Promise((resolve) => {
        const request = JSON.parse(body) as EventsRequest;
        sent.push({
          ...request,
          numbers: request.events.map(({ attempt, n, kind }) => [attempt, n, kind] as const),
          reply: async (called) => {
            resolve(called);
            await new Promise((done) => setImmediate(done));
            // Refused events are sent again after a while.
            if (called.kind === "refused") await clock.advance(20_000);
          },
        });
      }),
  });
  return { clock, held, sent, outbox, queue, gone, dropped, acknowledged };
}

const receipts = (...tasks: number[]): Report => ({
  kind: "receipts",
  ...PLACE,
  receipts: tasks.map((task) => ({
    task,
    attempt: 1,
    claim: 0,
    ms: 3,
    outcome: { status: "done", payload: `{"task":${task}}` },
  })),
});
const started = (...tasks: number[]): Report => ({
  kind: "started",
  ...PLACE,
  attempts: tasks.map((task) => ({ task, attempt: 1, claim: 0 })),
});

/** Everything that was sent is stored, with these verdicts. */
function stored({ events }: EventsRequest, verdicts: Record<string, string> = {}): Called<EventsAnswer> {
  const last = Object.fromEntries(events.map(({ attempt, n }) => [attempt, n]));
  return { kind: "answered", value: { stored: last, verdicts: verdicts as EventsAnswer["verdicts"] } };
}

describe("events", () => {
  test("are numbered per attempt from 1, with the token of each attempt", async () => {
    const { outbox, sent } = setUp(2);
    void outbox.send([started(0, 1), receipts(0)]);
    expect(sent[0]?.numbers).toEqual([
      [idOf(0), 1, "started"],
      [idOf(1), 1, "started"],
      [idOf(0), 2, "receipt"],
    ]);
    expect(sent[0]?.tokens).toEqual({ [idOf(0)]: "t0", [idOf(1)]: "t1" });
    expect(sent[0]?.events[2]).toEqual({
      attempt: idOf(0),
      n: 2,
      kind: "receipt",
      status: "done",
      result: { task: 0 },
      stats: { durationMs: 3 },
    });
  });

  test("gather while a request is under way, and go out together with the next", async () => {
    const { outbox, sent } = setUp(4);
    for (const task of [0, 1, 2, 3]) void outbox.send([receipts(task)]);
    expect(sent.map(({ events }) => events.length)).toEqual([1]);
    await sent[0]?.reply(stored(sent[0]));
    expect(sent.map(({ events }) => events.length)).toEqual([1, 3]);
  });

  test("resolve with a verdict for each word, once all are acknowledged", async () => {
    const { outbox, sent, acknowledged, held } = setUp(3);
    const verdicts = outbox.send([started(2), receipts(0, 1)]);
    expect(held.open).toBe(1);
    expect(held.size).toBe(3);
    await sent[0]?.reply(
      stored(sent[0], { [idOf(0)]: "late", [idOf(1)]: "accepted", [idOf(2)]: "accepted" }),
    );
    expect(await verdicts).toEqual([["accepted"], ["late", "accepted"]]);
    expect(acknowledged).toEqual([idOf(0), idOf(1)]);
    expect([held.open, held.size]).toEqual([1, 1]);
  });

  test("that were not stored are sent again with the same numbers, before what came later", async () => {
    const { outbox, sent } = setUp(2);
    void outbox.send([started(0), started(1)]);
    void outbox.send([receipts(0)]);
    await sent[0]?.reply({
      kind: "answered",
      value: { stored: { [idOf(0)]: 1, [idOf(1)]: 0 }, verdicts: {} },
    });
    expect(sent[1]?.numbers).toEqual([
      [idOf(1), 1, "started"],
      [idOf(0), 2, "receipt"],
    ]);
  });

  test("stay under a size per request; one that is larger goes alone", async () => {
    const { outbox, sent } = setUp(5);
    const large = (task: number): Report => {
      const payload = JSON.stringify("x".repeat(task === 0 ? 2_000_000 : 400_000));
      const outcome = { status: "done" as const, payload };
      return { kind: "receipts", ...PLACE, receipts: [{ task, attempt: 1, claim: 0, ms: 3, outcome }] };
    };
    void outbox.send([0, 1, 2, 3, 4].map(large));
    for (let i = 0; i < sent.length; i++) await sent[i]?.reply(stored(sent[i] as Sent));
    expect(sent.map(({ events }) => events.length)).toEqual([1, 2, 2]);
  });

  test("after the receipt of an attempt are not sent", async () => {
    const { outbox, sent } = setUp(1);
    void outbox.send([receipts(0)]);
    expect(await outbox.send([started(0)])).toEqual([["stale"]]);
    expect(sent).toHaveLength(1);
  });
});

describe("an attempt that the server does not take", () => {
  test("is found by sending less at a time, and dropped; the others arrive", async () => {
    const { outbox, sent, dropped } = setUp(8);
    const verdicts = outbox.send([receipts(0, 1, 2, 3, 4, 5, 6, 7)]);
    const refusal: Called<EventsAnswer> = {
      kind: "refused",
      status: 409,
      code: "stale_attempt",
      message: "no",
    };
    for (let i = 0; i < sent.length; i++) {
      const request = sent[i] as Sent;
      const isBad = request.events.some(({ attempt }) => attempt === idOf(5));
      await request.reply(
        isBad
          ? refusal
          : stored(request, Object.fromEntries(request.events.map(({ attempt }) => [attempt, "accepted"]))),
      );
    }
    expect(dropped).toEqual([idOf(5)]);
    expect(await verdicts).toEqual([
      ["accepted", "accepted", "accepted", "accepted", "accepted", "stale", "accepted", "accepted"],
    ]);
  });

  test("is sent again before it is dropped: the request may have been damaged on its way", async () => {
    const { outbox, sent, dropped } = setUp(1);
    void outbox.send([receipts(0)]);
    const garbled: Called<EventsAnswer> = {
      ...{ kind: "refused", status: 400, code: "invalid_json", message: "the body is not JSON" },
    };
    await sent[0]?.reply(garbled);
    await sent[1]?.reply(garbled);
    await sent[2]?.reply(stored(sent[2]));
    expect(sent.map(({ events }) => events)).toEqual(Array(3).fill(sent[0]?.events));
    expect(dropped).toEqual([]);
  });

  test("is not dropped by an answer that says nothing about it", async () => {
    const { outbox, sent, dropped, clock } = setUp(1);
    void outbox.send([receipts(0)]);
    await sent[0]?.reply({ kind: "answered", value: { stored: {}, verdicts: {} } });
    await clock.advance(1_000);
    expect(sent).toHaveLength(2);
    expect(dropped).toEqual([]);
  });

  test("because an earlier event is missing there is dropped, not sent for ever", async () => {
    const { outbox, sent, dropped } = setUp(1);
    void outbox.send([receipts(0)]);
    await sent[0]?.reply({ kind: "answered", value: { stored: { [idOf(0)]: 0 }, verdicts: {} } });
    expect(dropped).toEqual([idOf(0)]);
    expect(sent).toHaveLength(1);
  });
});

describe("an attempt that another node has", () => {
  const elsewhere = (request: EventsRequest, ...tasks: number[]): Called<EventsAnswer> => {
    const { value } = stored(request) as { value: { stored: Record<string, number> } };
    for (const task of tasks) delete value.stored[idOf(task)];
    const verdicts = Object.fromEntries(tasks.map((task) => [idOf(task), "not_owner" as const]));
    return { kind: "answered", value: { ...value, verdicts } };
  };
  const numbers = ({ numbers: list }: Sent) => list.map(([attempt, n]) => `${attempt} ${n}`);

  test("keeps all of its events in order until that node is found; the others arrive", async () => {
    const { outbox, sent, held, acknowledged } = setUp(2);
    void outbox.send([started(0, 1)]);
    void outbox.send([receipts(0)]);
    await sent[0]?.reply(elsewhere(sent[0], 1));
    // While the owner of the attempt is searched for, more events are sent.
    const verdicts = outbox.send([receipts(1)]);
    expect(sent.map(numbers)).toEqual([[`${idOf(0)} 1`, `${idOf(1)} 1`], [`${idOf(0)} 2`]]);
    await sent[1]?.reply(stored(sent[1]));
    const attempt = held.get(idOf(1));
    if (attempt === undefined) throw new Error("it is held");
    expect([...held.homeless]).toEqual([attempt]);
    outbox.found(attempt, "a");
    expect(sent.slice(2).map(numbers)).toEqual([[`${idOf(1)} 1`, `${idOf(1)} 2`]]);
    await sent[2]?.reply(stored(sent[2]));
    expect(await verdicts).toEqual([["accepted"]]);
    expect(acknowledged).toEqual([idOf(0), idOf(1)]);
    expect([...held.homeless]).toEqual([]);
  });

  test("since its node is gone: what was under way comes before what was said meanwhile", async () => {
    const { outbox, sent, held, gone } = setUp(1);
    void outbox.send([started(0)]);
    gone.isGone = true;
    void outbox.send([receipts(0)]);
    gone.isGone = false;
    const attempt = held.get(idOf(0));
    if (attempt === undefined) throw new Error("it is held");
    // The owner is found, but it is not known yet whether the first request arrived.
    outbox.found(attempt, "a");
    expect(sent).toHaveLength(1);
    await sent[0]?.reply({ kind: "unsent" });
    expect([attempt.home, attempt.queued]).toEqual([null, 0]);
    outbox.found(attempt, "a");
    expect(sent.slice(1).map(numbers)).toEqual([[`${idOf(0)} 1`, `${idOf(0)} 2`]]);
  });
});

test("closing resolves what waits, and nothing more is sent", async () => {
  const { outbox, queue, sent } = setUp(2);
  const verdicts = outbox.send([receipts(0, 1)]);
  const settled = outbox.empty();
  outbox.close();
  queue.close();
  await settled;
  expect(await verdicts).toEqual([["stale", "stale"]]);
  await sent[0]?.reply({ kind: "unsent" });
  expect(sent).toHaveLength(1);
});
