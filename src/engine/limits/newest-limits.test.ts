// Which value of a limit counts: that of the newest definition that was registered, over all executions (DESIGN 3.2).
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const limited = (more: object) => [phase("a", { tasks: Array.from({ length: 10 }, (_, i) => i), ...more })];

function register(bench: NodeFixture, more: object): void {
  bench.plan(limited(more));
  bench.input({ kind: "definition-stored", workflow: "w" });
  bench.settle();
}

test("a value that is registered while executions run counts at once, without another start", () => {
  const bench = new NodeFixture();
  bench.join("w1", ["w.a"], { capacity: 100 });
  bench.start(bench.plan(limited({ concurrency: 1 })), "e1");
  bench.settle();
  expect(bench.attempts()).toHaveLength(1);
  register(bench, { concurrency: 4 });
  expect(bench.attempts()).toHaveLength(4);
  register(bench, { concurrency: 2 });
  for (const attempt of bench.attempts().slice(0, 3)) bench.receipt(attempt);
  bench.settle();
  expect(bench.attempts().length - 3).toBe(2);
});

test("it counts after a restart too, though no execution is of it", () => {
  const bench = new NodeFixture({ suspectMs: 0 });
  bench.start(bench.plan(limited({ concurrency: 1 })), "e1");
  register(bench, { concurrency: 3 });
  bench.restart();
  bench.join("w2", ["w.a"], { capacity: 100 });
  bench.settle();
  expect(bench.attempts()).toHaveLength(3);
});

test("rates do the same", () => {
  const bench = new NodeFixture();
  bench.join("w1", ["w.a"], { capacity: 100 });
  bench.start(bench.plan(limited({ rate: { limit: 1, per: 60_000 } })), "e1");
  bench.settle();
  register(bench, { rate: { limit: 3, per: 60_000 } });
  bench.sleep(1);
  expect(bench.attempts()).toHaveLength(3);
});

test("a workflow without limits is not asked for", () => {
  const bench = new NodeFixture();
  bench.start(bench.plan(limited({})), "e1");
  bench.settle();
  register(bench, { concurrency: 4 });
  expect(bench.outputs.filter(({ kind }) => kind === "find-workflow")).toEqual([]);
});
