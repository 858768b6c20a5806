// map inside process, at a worker without an engine.
import { expect, test } from "vitest";
import { fixtureOf } from "../../test/fixtures/workers/steps-fixture.ts";
import type { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { Batch } from "./journaled-map.ts";

const parse = <T>(text: string | undefined) => JSON.parse(text ?? "null") as T;
const again = (fixture: WorkerFixture, batches: number) =>
  fixture.give([], {
    items: [
      {
        number: 0,
        attempt: 2,
        claim: 0,
        task: "1",
        checkpoints: Array.from({ length: batches }, (_, i) => ({
          kind: "step" as const,
          name: `all/${i + 1}`,
          seq: i + 1,
        })),
      },
    ],
  });
const items = (n: number) => Array.from({ length: n }, (_, i) => i);

test("gives the results in the order of the items, in as few batches as fit", async () => {
  const fixture = fixtureOf(({ map }) => map("all", items(2_500), (n) => n * 2, { concurrency: 100 }));
  await fixture.give([1]);
  await fixture.clock.advance("1s");
  expect(parse(fixture.outcomes.get(0)?.payload)).toEqual(items(2_500).map((n) => n * 2));
  const batches = fixture.of("step").map(({ result }) => parse<Batch>(result).items.length);
  expect(batches.reduce((sum, n) => sum + n, 0)).toBe(2_500);
  expect(batches.length).toBeLessThanOrEqual(4);
});

test("runs at most so many at a time, and journals results while it waits", async () => {
  let open = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  const fixture = fixtureOf(({ map }) =>
    map(
      "all",
      items(5),
      async (n) => {
        most = Math.max(most, ++open);
        await new Promise<void>((resolve) => ends.push(resolve));
        open--;
        return n;
      },
      { concurrency: 2 },
    ),
  );
  await fixture.give([1]);
  ends[0]?.();
  await fixture.clock.advance(100);
  expect(fixture.of("step")).toMatchObject([{ name: "all/1" }]);
  for (let i = 1; i < 5; i++) {
    ends[i]?.();
    await fixture.clock.advance(100);
  }
  expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: "[0,1,2,3,4]" });
  expect(most).toBe(2);
});

test("goes on with the items that have no result, after a failure whose neighbours are kept", async () => {
  const ran: number[] = [];
  let isBroken = true;
  const journal: Record<number, { result: string }> = {};
  const fixture = fixtureOf(
    ({ map }) =>
      map("all", items(4), (n) => {
        if (n === 2 && isBroken) throw new Error("broken");
        ran.push(n);
        return `r${n}`;
      }),
    { journal },
  );
  await fixture.give([1]);
  await fixture.clock.advance("1s");
  expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed" });
  const batches = fixture.of("step");
  batches.forEach(({ result }, i) => {
    journal[i + 1] = { result };
  });
  isBroken = false;
  await again(fixture, batches.length);
  await fixture.clock.advance("1s");
  expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: '["r0","r1","r2","r3"]' });
  expect(ran.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
});

test("fails for good if its items are others than before", async () => {
  const batch: Batch = { checksum: 1, total: 4, items: [0], results: ["x"] };
  const fixture = fixtureOf(({ map }) => map("all", items(4), (n) => n), {
    journal: { 1: { result: JSON.stringify(batch) } },
  });
  await again(fixture, 1);
  expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
  expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject({ code: "map_diverged" });
});

test("is journaled less often the longer it lasts, so that its batches stay below the limit of checkpoints", async () => {
  const done: (() => void)[] = [];
  const run = (n: number) => new Promise<number>((resolve) => done.push(() => resolve(n)));
  const fixture = fixtureOf(({ map }) => map("all", items(1_000), run, { concurrency: 1 }));
  await fixture.give([1]);
  for (let i = 0; i < 1_000; i++) {
    done[i]?.();
    await fixture.clock.advance(60);
  }
  expect(fixture.outcomes.get(0)).toMatchObject({ status: "done" });
  expect(fixture.of("step").length).toBeLessThan(400);
});

test("refuses a name that has no room for its batches, and items that cannot be stored, before it runs any", async () => {
  const ran: unknown[] = [];
  const long = fixtureOf(({ map }) => map("n".repeat(199), [1, 2], (n) => ran.push(n)));
  await long.give([1]);
  expect(parse(long.outcomes.get(0)?.payload)).toMatchObject({
    message: expect.stringContaining("too long"),
  });
  const odd = fixtureOf(({ map }) => map("all", [1, new Map()], (n) => ran.push(n)));
  await odd.give([1]);
  expect(odd.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
  expect(parse(odd.outcomes.get(0)?.payload)).toMatchObject({ name: "NotStorable" });
  expect(ran).toEqual([]);
});

test("refuses a sleep, a wait and a child inside of an item, and waits out the back-off of a step there", async () => {
  const asleep = fixtureOf(({ map, sleep }) =>
    map("all", items(2), async (n) => {
      await sleep(`nap ${n}`, "1m");
      return n;
    }),
  );
  await asleep.give([1]);
  await asleep.clock.advance(100);
  expect(asleep.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
  expect(parse(asleep.outcomes.get(0)?.payload)).toMatchObject({
    message: expect.stringContaining('waits inside the map "all"'),
  });
  let tries = 0;
  const budget = { retry: { attempts: 2, backoff: "constant", min: "30s" } } as const;
  const steps = fixtureOf(({ map, step }) =>
    map("all", items(1), (n) =>
      step(`s${n}`, budget, () => {
        if (++tries === 1) throw new Error("not yet");
        return n;
      }),
    ),
  );
  await steps.give([1]);
  await steps.clock.advance(60_000);
  expect(steps.outcomes.get(0)).toMatchObject({ status: "done", payload: "[0]" });
});
