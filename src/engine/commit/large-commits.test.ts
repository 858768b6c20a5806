import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

/** A node at which this many executions wait for their first commit. */
function started(executions: number): NodeFixture {
  const fixture = new NodeFixture();
  fixture.holdsCommits = true;
  const plan = fixture.plan([phase("a")]);
  for (let i = 0; i < executions; i++) fixture.start(plan, `e${i}`);
  // The first turn looks for the executions in the store.
  fixture.advance();
  return fixture;
}

/** The executions in each commit of a turn. */
function writesOf(fixture: NodeFixture): number[] {
  return fixture
    .advance()
    .flatMap((output) => (output.kind === "commit" ? [output.content.writes.length] : []));
}

test("a turn ends after a large commit, so that it is written while the next one is stepped", () => {
  const fixture = started(400);
  expect(writesOf(fixture)).toEqual([200]);
  expect(fixture.node.isWaiting).toBe(true);
  expect(fixture.node.nextWakeAt()).toBe(fixture.node.state.now);
  expect(writesOf(fixture)).toEqual([200]);
  expect(fixture.node.isWaiting).toBe(false);
});

test("a hundred executions take two turns", () => {
  const fixture = started(100);
  expect([...writesOf(fixture), ...writesOf(fixture)]).toEqual([50, 50]);
});

test("small commits are emitted in one turn", () => {
  const fixture = started(50);
  expect(writesOf(fixture)).toEqual([25, 25]);
  expect(fixture.node.isWaiting).toBe(false);
});

test("nothing waits for a turn while no more commits are allowed", () => {
  const fixture = started(600);
  expect([...writesOf(fixture), ...writesOf(fixture), ...writesOf(fixture)]).toEqual([256, 256]);
  expect(fixture.node.isWaiting).toBe(false);
});

test("nothing of lower priority is granted while executions wait for the next turn", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.low", "w.high"], { capacity: 1 });
  const low = fixture.plan([phase("a", { use: "w.low", tasks: [0, 1] })], "low");
  const high = fixture.plan([phase("a", { use: "w.high", priority: 5 })], "high");
  const unserved = fixture.plan([phase("a", { use: "w.none" })], "unserved");
  fixture.start(low, "l0");
  fixture.start(low, "l1");
  fixture.settle();
  const [first] = fixture.attempts();
  if (first === undefined) throw new Error("nothing was granted");
  fixture.holdsCommits = true;
  for (let i = 0; i < 64; i++) fixture.start(unserved, `e${i}`);
  fixture.start(high, "h");
  fixture.advance();
  fixture.receipt(first);
  expect([...writesOf(fixture), ...writesOf(fixture)]).toEqual([33, 33]);
  fixture.holdsCommits = false;
  fixture.settle();
  expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["l0", "h"]);
});
