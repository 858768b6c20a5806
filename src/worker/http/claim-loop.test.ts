// When a worker claims, and for how much. Virtual time; the server is the test.
import { describe, expect, test } from "vitest";
import type { Claimed } from "../../protocol/worker-wire.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { ClaimLoop, type ClaimWaits, type EventsClaim } from "./claim-loop.ts";
import type { Called } from "./server-link.ts";

const NOTHING: Claimed = { work: [], inputs: {}, phases: {}, cancel: [], lost: [] };
const some = (n: number) => ({ ...NOTHING, work: Array(n).fill({}) }) as Claimed;

function setUp(capacity: number, claimsWithEvents = false) {
  const clock = new VirtualClock();
  const sent: (ClaimWaits & {
    claimId: string;
    max: number;
    answer: (claimed: Claimed | null, isKeptAlive?: boolean) => Promise<void>;
  })[] = [];
  const taken: Claimed[] = [];
  let held = 0;
  const failed: string[] = [];
  const loop = new ClaimLoop({
    clock,
    random: new SeededRandom(1),
    isReady: () => true,
    heartbeatMs: () => 30_000,
    room: () => capacity - held,
    canClaimWithEvents: () => claimsWithEvents,
    failed: { add: (id) => failed.push(id), take: () => failed.shift() },
    onClaimed: (claimed) => {
      held += claimed.work.length;
      taken.push(claimed);
    },
    onBug: (thrown) => {
      throw thrown;
    },
    post: (body, claim) =>
      new Promise<Called<Claimed>>((resolve) => {
        const answer = async (value: Claimed | null, isKeptAlive = false) => {
          resolve(value === null ? { kind: "unsent" } : { kind: "answered", value, isKeptAlive });
          await clock.settle();
        };
        sent.push({ ...claim, ...(JSON.parse(body) as { max: number; waitMs: number }), answer });
      }),
  });
  const end = async (n: number) => {
    held -= n;
    loop.wake();
    await clock.settle();
  };
  /** The first claim shows that claims work; the next one waits. */
  const begin = async () => {
    loop.wake();
    await clock.settle();
    expect(sent[0]?.waitMs).toBe(0);
    await sent[0]?.answer(NOTHING);
    sent.shift();
    taken.shift();
  };
  return { clock, loop, sent, taken, end, begin };
}

test("a claim asks for all the room there is, and one at a time is under way", async () => {
  const { begin, clock, loop, sent, end } = setUp(10);
  await begin();
  loop.wake();
  await clock.settle();
  expect(sent.map(({ max }) => max)).toEqual([10]);
  await sent[0]?.answer(some(4));
  expect(sent.map(({ max }) => max)).toEqual([10, 6]);
  await end(4);
  expect(sent).toHaveLength(2);
});

test("without room a claim for nothing waits, after a moment; room supersedes it", async () => {
  const { begin, clock, sent, end } = setUp(2);
  await begin();
  await sent[0]?.answer(some(2));
  expect(sent).toHaveLength(1);
  await clock.advance(300);
  expect(sent.map(({ max }) => max)).toEqual([2, 0]);
  await end(1);
  expect(sent.map(({ max }) => max)).toEqual([2, 0, 1]);
  await sent[1]?.answer(NOTHING);
  expect(sent).toHaveLength(3);
});

test("C2 empty answers that did not wait are backed off from; work begins anew", async () => {
  const { begin, clock, sent } = setUp(10);
  await begin();
  const waits: number[] = [];
  for (let i = 0; i < 6; i++) {
    await sent.at(-1)?.answer(NOTHING);
    expect(sent).toHaveLength(i + 1);
    const before = clock.now();
    await clock.advance(clock.nextAt - before);
    waits.push(clock.now() - before);
    expect(sent).toHaveLength(i + 2);
  }
  expect(waits[5]).toBeGreaterThan((waits[0] as number) * 8);
  await sent.at(-1)?.answer(some(1));
  await sent.at(-1)?.answer(NOTHING);
  expect(clock.nextAt - clock.now()).toBe(100);
});

test("an empty answer after a long wait is followed by the next claim at once", async () => {
  const { begin, clock, sent } = setUp(10);
  await begin();
  await clock.advance(5_000);
  await sent[0]?.answer(NOTHING);
  expect(sent).toHaveLength(2);
  expect(sent[1]?.waitMs).toBe(5_000);
});

test("claims are long once signs of life have come, and short again after one that failed", async () => {
  const { begin, clock, loop, sent } = setUp(10);
  const asked = () => {
    const { waitMs, keepAlive } = sent.at(-1) as ClaimWaits;
    return [waitMs, keepAlive?.everyMs, keepAlive?.isTrusted];
  };
  await begin();
  expect(asked()).toEqual([5_000, 1_667, false]);
  await sent.at(-1)?.answer(some(1), true);
  expect(asked()).toEqual([20_000, 5_000, true]);
  // An answer that comes too soon says nothing about whether the server sends signs of life.
  await sent.at(-1)?.answer(some(1), false);
  expect(asked()).toEqual([20_000, 5_000, true]);
  await sent.at(-1)?.answer(null);
  await clock.advance(200);
  expect(asked()).toEqual([0, undefined, undefined]);
  await sent.at(-1)?.answer(some(1));
  expect(asked()).toEqual([5_000, 1_667, false]);
  await sent.at(-1)?.answer(some(1), true);
  expect(asked()).toEqual([20_000, 5_000, true]);
  loop.restart();
  await sent.at(-1)?.answer(some(1));
  await sent.at(-2)?.answer(null);
  await clock.advance(200);
  await sent.at(-1)?.answer(some(1));
  expect(asked()).toEqual([5_000, 1_667, false]);
});

test("C17 stopping with a claim open: it is superseded by one for nothing, and none comes after", async () => {
  const { begin, clock, loop, sent, taken } = setUp(10);
  await begin();
  let isStopped = false;
  const stopped = loop.stop().then(() => {
    isStopped = true;
  });
  await clock.settle();
  expect(sent.map(({ max, waitMs }) => [max, waitMs])).toEqual([
    [10, 5_000],
    [0, 0],
  ]);
  await sent[1]?.answer(NOTHING);
  expect(isStopped).toBe(false);
  await sent[0]?.answer(some(3));
  await stopped;
  expect(taken.map(({ work }) => work.length)).toEqual([0, 3]);
  loop.wake();
  await clock.advance(120_000);
  expect(sent).toHaveLength(2);
});

test("stopping without a claim open is over at once", async () => {
  const { loop, sent } = setUp(10);
  await loop.stop();
  expect(sent).toEqual([]);
});

test("a claim that failed is backed off from, and the next one does not wait", async () => {
  const { begin, clock, sent, taken } = setUp(10);
  await begin();
  await clock.advance(3_000);
  await sent[0]?.answer(null);
  expect(sent).toHaveLength(1);
  await clock.advance(200);
  expect(sent[1]?.waitMs).toBe(0);
  await sent[1]?.answer(some(1));
  expect(sent[2]?.waitMs).toBe(5_000);
  expect(taken).toHaveLength(1);
});

test("a claim that failed is repeated under its id until it is answered; all others have their own", async () => {
  const { begin, clock, loop, sent } = setUp(10);
  await begin();
  await sent[0]?.answer(null);
  await clock.advance(200);
  await sent[1]?.answer(null);
  await clock.advance(400);
  await sent[2]?.answer(some(1));
  loop.restart();
  // Two are open, and both fail.
  await sent[3]?.answer(null);
  await sent[4]?.answer(null);
  await clock.advance(800);
  await sent[5]?.answer(some(1));
  await sent[6]?.answer(some(1));
  const ids = sent.map(({ claimId }) => claimId);
  expect(ids.slice(0, 3)).toEqual([ids[0], ids[0], ids[0]]);
  expect(ids.slice(5, 7)).toEqual(ids.slice(3, 5));
  expect(new Set(ids).size).toBe(4);
});

test("a session that is registered anew claims at once, beside the claim that waits", async () => {
  const { begin, loop, sent } = setUp(10);
  await begin();
  loop.restart();
  expect(sent.map(({ max, waitMs }) => [max, waitMs])).toEqual([
    [10, 5_000],
    [10, 0],
  ]);
});

test("a session that has ended claims no more", async () => {
  const { begin, clock, loop, sent } = setUp(10);
  await begin();
  loop.end();
  await sent[0]?.answer(null);
  loop.restart();
  await clock.advance(60_000);
  expect(sent).toHaveLength(1);
});

describe("a claim goes with events", () => {
  test("after an answer with a few attempts, if their events are sent soon; and so on", async () => {
    const { begin, clock, loop, sent, taken, end } = setUp(10, true);
    await begin();
    await sent[0]?.answer(some(1));
    await end(1);
    expect(sent).toHaveLength(1);
    const claim = loop.claimWithEvents() as EventsClaim;
    expect(claim.max).toBe(10);
    expect(claim.claimId).not.toBe(sent[0]?.claimId);
    expect(loop.claimWithEvents()).toBeNull();
    await clock.advance(100);
    expect(sent).toHaveLength(1);
    loop.claimAnswered(claim, some(2));
    expect(taken).toHaveLength(2);
    await end(2);
    expect(loop.claimWithEvents()).not.toBeNull();
  });

  test("no longer than a moment: then a claim of its own is sent", async () => {
    const { begin, clock, loop, sent } = setUp(10, true);
    await begin();
    await sent[0]?.answer(some(1));
    await clock.advance(1);
    expect(sent).toHaveLength(1);
    await clock.advance(2);
    expect(sent.map(({ max }) => max)).toEqual([10, 9]);
    expect(loop.claimWithEvents()).toBeNull();
  });

  test("an empty answer, or none, is followed by a claim of its own, which repeats the id if none came", async () => {
    for (const claimed of [NOTHING, null]) {
      const { begin, clock, loop, sent, end } = setUp(10, true);
      await begin();
      await sent[0]?.answer(some(1));
      await end(1);
      const claim = loop.claimWithEvents() as EventsClaim;
      loop.claimAnswered(claim, claimed);
      await clock.settle();
      expect(sent).toHaveLength(2);
      expect(sent[1]?.claimId === claim.claimId).toBe(claimed === null);
    }
  });

  test("not after many attempts, not if the server does not take it, and not if there may be more work", async () => {
    for (const { claimsWithEvents, count, capacity } of [
      { claimsWithEvents: true, count: 5, capacity: 10 },
      { claimsWithEvents: false, count: 1, capacity: 10 },
      { claimsWithEvents: true, count: 3, capacity: 3 },
    ]) {
      const { begin, loop, sent, end } = setUp(capacity, claimsWithEvents);
      await begin();
      await sent[0]?.answer(some(count));
      await end(count);
      expect(sent).toHaveLength(2);
      expect(loop.claimWithEvents()).toBeNull();
    }
  });

  test("a stop waits for the events that carry a claim", async () => {
    const { begin, clock, loop, sent, taken, end } = setUp(10, true);
    await begin();
    await sent[0]?.answer(some(1));
    await end(1);
    const claim = loop.claimWithEvents() as EventsClaim;
    let isStopped = false;
    const stopped = loop.stop().then(() => {
      isStopped = true;
    });
    await clock.settle();
    await sent.at(-1)?.answer(NOTHING);
    expect(isStopped).toBe(false);
    loop.claimAnswered(claim, some(1));
    await stopped;
    expect(taken.at(-1)?.work).toHaveLength(1);
  });
});
