// Which value of a limit counts: that of the newest definition that was registered, over all executions (DESIGN 3.2).
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const limited = (more: object) => [phase("a", { tasks: Array.from({ length: 10 }, (_, i) => i), ...more })];

function register(fixture: NodeFixture, more: object): void {
  fixture.plan(limited(more));
  fixture.input({ kind: "definition-stored", workflow: "w" });
  fixture.settle();
}

test("a value that is registered while executions run counts at once, without another start", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a"], { capacity: 100 });
  fixture.start(fixture.plan(limited({ concurrency: 1 })), "e1");
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(1);
  register(fixture, { concurrency: 4 });
  expect(fixture.attempts()).toHaveLength(4);
  register(fixture, { concurrency: 2 });
  for (const attempt of fixture.attempts().slice(0, 3)) fixture.receipt(attempt);
  fixture.settle();
  expect(fixture.attempts().length - 3).toBe(2);
});

test("it counts after a restart too, though no execution is of it", () => {
  const fixture = new NodeFixture({ suspectMs: 0 });
  fixture.start(fixture.plan(limited({ concurrency: 1 })), "e1");
  register(fixture, { concurrency: 3 });
  fixture.restart();
  fixture.join("w2", ["w.a"], { capacity: 100 });
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(3);
});

test("rates do the same", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a"], { capacity: 100 });
  fixture.start(fixture.plan(limited({ rate: { limit: 1, per: 60_000 } })), "e1");
  fixture.settle();
  register(fixture, { rate: { limit: 3, per: 60_000 } });
  fixture.sleep(1);
  expect(fixture.attempts()).toHaveLength(3);
});

test("a workflow without limits is not asked for", () => {
  const fixture = new NodeFixture();
  fixture.start(fixture.plan(limited({})), "e1");
  fixture.settle();
  register(fixture, { concurrency: 4 });
  expect(fixture.outputs.filter(({ kind }) => kind === "find-workflow")).toEqual([]);
});
