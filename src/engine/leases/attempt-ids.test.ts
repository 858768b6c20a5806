// The id of an attempt is never given twice, whatever became of the attempt; its number is, only where nothing of it is
// journaled.
import { expect, test } from "vitest";
import { claimed, SETTINGS } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";

const idOf = ({ grant, item }: Attempt) => encodeAttempt({ ...grant, ...item, task: item.number });

const distinct = (attempts: readonly Attempt[]) => new Set(attempts.map(idOf)).size;

test("an attempt whose start is journaled is not numbered again in the next round", () => {
  const { fixture: bench, first } = claimed(phase("a", { tasks: [0] }), 1);
  bench.started(...first);
  bench.sleep(300);
  bench.control("cancel", "e1");
  bench.receipt(first[0] as Attempt, { status: "cancelled" });
  bench.settle();
  bench.control("retry", "e1");
  bench.claim("w1", 1);
  bench.settle();
  expect(bench.attempts().map(({ item, grant }) => [grant.round, item.attempt])).toEqual([
    [1, 1],
    [2, 2],
  ]);
});

test("an enumeration whose end is not taken is given out again under another id", () => {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.list"], { local: false, capacity: 9 });
  bench.claim("w1", 1);
  bench.start(bench.plan([phase("a", { enumerate: { use: "w.list" }, identity: "/id" })]), "e1");
  bench.settle();
  const [first] = bench.attempts() as [Attempt];
  // The attempt reports two tasks in all, but has sent no page.
  const report = bench.seal(first, { total: 2 });
  bench.claim("w1", 1);
  bench.settle();
  expect(bench.verdicts(report)).toEqual([["stale"]]);
  expect(bench.attempts().map(({ item }) => item.attempt)).toEqual([1, 1]);
  expect(distinct(bench.attempts())).toBe(2);
});

test("an execution that takes the id of a purged one has other attempts", () => {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.a"], { local: false, capacity: 9 });
  const plan = bench.plan([phase("a")]);
  for (let life = 0; life < 3; life++) {
    bench.claim("w1", 1);
    bench.start(plan, "e1");
    bench.settle();
    bench.receipt(bench.attempts().at(-1) as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    bench.input({ kind: "purge", ids: ["e1"] });
    bench.settle();
    bench.input({ kind: "purged", ids: ["e1"] });
  }
  expect(bench.attempts().map(({ item }) => item.attempt)).toEqual([1, 1, 1]);
  expect(distinct(bench.attempts())).toBe(3);
});
