// When a worker claims, and for how much. Virtual time; the server is the test.
import { expect, test } from "vitest";
import type { Claimed } from "../../protocol/worker-wire.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { ClaimLoop } from "./claim-loop.ts";
import type { Called } from "./server-link.ts";

const NOTHING: Claimed = { work: [], inputs: {}, phases: {}, cancel: [], lost: [] };
const some = (n: number) => ({ ...NOTHING, work: Array(n).fill({}) }) as Claimed;

function bench(capacity: number) {
  const clock = new VirtualClock();
  const sent: { max: number; waitMs: number; answer: (claimed: Claimed) => Promise<void> }[] = [];
  const taken: Claimed[] = [];
  let held = 0;
  const loop = new ClaimLoop({
    clock,
    random: new SeededRandom(1),
    room: () => capacity - held,
    onClaimed: (claimed) => {
      held += claimed.work.length;
      taken.push(claimed);
    },
    onBug: (thrown) => {
      throw thrown;
    },
    post: (body) =>
      new Promise<Called>((resolve) => {
        const answer = async (value: Claimed) => {
          resolve({ kind: "answered", value });
          await clock.settle();
        };
        sent.push({ ...(JSON.parse(body) as { max: number; waitMs: number }), answer });
      }),
  });
  const end = async (n: number) => {
    held -= n;
    loop.wake();
    await clock.settle();
  };
  return { clock, loop, sent, taken, end };
}

test("a claim asks for all the room there is, and one at a time is under way", async () => {
  const { clock, loop, sent, end } = bench(10);
  loop.wake();
  loop.wake();
  await clock.settle();
  expect(sent.map(({ max }) => max)).toEqual([10]);
  await sent[0]?.answer(some(4));
  expect(sent.map(({ max }) => max)).toEqual([10, 6]);
  await end(4);
  expect(sent).toHaveLength(2);
});

test("without room a claim for nothing waits, after a moment; room supersedes it", async () => {
  const { clock, loop, sent, end } = bench(2);
  loop.wake();
  await clock.settle();
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
  const { clock, loop, sent } = bench(10);
  loop.wake();
  await clock.settle();
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
  const { clock, loop, sent } = bench(10);
  loop.wake();
  await clock.settle();
  await clock.advance(60_000);
  await sent[0]?.answer(NOTHING);
  expect(sent).toHaveLength(2);
  expect(sent[1]?.waitMs).toBe(60_000);
});

test("C17 stopping with a claim open: it is superseded by one for nothing, and none comes after", async () => {
  const { clock, loop, sent, taken } = bench(10);
  loop.wake();
  await clock.settle();
  let isStopped = false;
  const stopped = loop.stop().then(() => {
    isStopped = true;
  });
  await clock.settle();
  expect(sent.map(({ max, waitMs }) => [max, waitMs])).toEqual([
    [10, 60_000],
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
  const { loop, sent } = bench(10);
  await loop.stop();
  expect(sent).toEqual([]);
});
