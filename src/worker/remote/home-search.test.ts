// How often a worker looks for the nodes that have its attempts. Virtual time.
import { expect, test } from "vitest";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { type HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import { HomeSearch } from "./home-search.ts";

function bench() {
  const clock = new VirtualClock();
  const held = new HeldAttempts();
  const id = "e1.a.1.a.1.0.1.0.1";
  const attempt: HeldAttempt = {
    ...{ id, token: "t", at: decodeAttempt(id) as ReportedAttempt, heartbeatMs: 30_000, since: 0, kept: [] },
    ...{ home: null, queued: 0, left: 0, n: 1, hasStarted: true, hasEnded: false },
  };
  held.add(attempt);
  const shown: number[] = [];
  const random = new SeededRandom(1);
  const search = new HomeSearch({ clock, random, held, show: () => shown.push(clock.now()) });
  return { clock, held, attempt, shown, search };
}

test("what has no home is shown again and again, less often each time, until it has one", async () => {
  const { clock, held, attempt, shown, search } = bench();
  search.begin();
  search.begin();
  await clock.advance(60_000);
  const waits = shown.slice(1).map((at, i) => at - (shown[i] as number));
  expect(shown.length).toBeGreaterThan(6);
  expect(shown.length).toBeLessThan(20);
  expect(waits.at(-1)).toBeGreaterThan(4_000);
  held.move(attempt, "a");
  const before = shown.length;
  await clock.advance(60_000);
  expect(shown).toHaveLength(before);
});

test("what was taken somewhere begins anew: the next one is looked for at once", async () => {
  const { clock, held, attempt, shown, search } = bench();
  search.begin();
  await clock.advance(60_000);
  held.move(attempt, "a");
  await clock.advance(20_000);
  search.ease();
  held.move(attempt, null);
  const before = shown.length;
  search.begin();
  await clock.advance(200);
  expect(shown.length).toBe(before + 1);
});
