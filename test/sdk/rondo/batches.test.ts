// processBatch over a real engine.
import { workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { expect, test } from "vitest";
import { all, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

test("tasks come in groups, every one has its own outcome, failed ones are tried again", async () => {
  const groups: number[][] = [];
  const failedOnce = new Set<number>();
  const mails = workflow({ name: "mails" })
    .phase("send", {
      enumerate: () => Array.from({ length: 23 }, (_, i) => i),
      batch: 5,
      processBatch: async ({ tasks }) => {
        groups.push([...tasks]);
        return tasks.map((n) => {
          if (n % 7 !== 3 || failedOnce.has(n)) return n * 10;
          failedOnce.add(n);
          return new Error(`not ${n}`);
        });
      },
    })
    .returns(({ phases }) => phases.send.reduce((sum, n) => sum + n, 0));
  await using t = await testRondo({ workflows: [mails] });
  const execution = await t.start(mails, null);
  await t.clock.advance("10m");
  expect(await execution.result()).toBe(((22 * 23) / 2) * 10);
  expect(Math.max(...groups.map(({ length }) => length))).toBe(5);
  const seen = groups.flat();
  for (let n = 0; n < 23; n++) expect(seen.filter((other) => other === n)).toHaveLength(n % 7 === 3 ? 2 : 1);
  expect(failedOnce).toEqual(new Set([3, 10, 17]));
});

test("a thrown group is tried again whole; a wrong number of results fails for good", async () => {
  let calls = 0;
  const flaky = workflow({ name: "flaky" })
    .phase("a", {
      tasks: [1, 2, 3],
      batch: 3,
      processBatch: ({ tasks }) => {
        if (++calls === 1) throw new Error("no connection");
        return tasks.map((n) => n);
      },
    })
    .phase("b", { tasks: [1, 2], batch: 2, processBatch: () => [1], tolerate: 2 })
    .returns(async ({ phases }) => [await all(phases.a.results()), phases.b.failed]);
  await using t = await testRondo({ workflows: [flaky] });
  const execution = await t.start(flaky, null);
  await t.clock.advance("10m");
  expect(await execution.result()).toEqual([expect.arrayContaining([1, 2, 3]), 2]);
});

test("the input of a handler that enumerates nothing is a group of one", async () => {
  const single = workflow<{ n: number }>({ name: "single" })
    .phase("a", { batch: 10, processBatch: ({ tasks }) => tasks.map(({ n }) => n + 1) })
    .returns(({ phases }) => all(phases.a.results()));
  const rondo = await open([single]);
  expect(await rondo.run(single, { n: 1 })).toEqual([2]);
});
