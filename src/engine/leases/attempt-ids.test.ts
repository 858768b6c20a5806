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
  const { fixture, first } = claimed(phase("a", { tasks: [0] }), 1);
  fixture.started(...first);
  fixture.sleep(300);
  fixture.control("cancel", "e1");
  fixture.receipt(first[0] as Attempt, { status: "cancelled" });
  fixture.settle();
  fixture.control("retry", "e1");
  fixture.claim("w1", 1);
  fixture.settle();
  expect(fixture.attempts().map(({ item, grant }) => [grant.round, item.attempt])).toEqual([
    [1, 1],
    [2, 2],
  ]);
});

test("an enumeration whose end is not taken is given out again under another id", () => {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.list"], { local: false, capacity: 9 });
  fixture.claim("w1", 1);
  fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.list" }, identity: "/id" })]), "e1");
  fixture.settle();
  const [first] = fixture.attempts() as [Attempt];
  // The attempt reports two tasks in all, but has sent no page.
  const report = fixture.seal(first, { total: 2 });
  fixture.claim("w1", 1);
  fixture.settle();
  expect(fixture.verdicts(report)).toEqual([["stale"]]);
  expect(fixture.attempts().map(({ item }) => item.attempt)).toEqual([1, 1]);
  expect(distinct(fixture.attempts())).toBe(2);
});

test("an execution that takes the id of a purged one has other attempts", () => {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.a"], { local: false, capacity: 9 });
  const plan = fixture.plan([phase("a")]);
  for (let life = 0; life < 3; life++) {
    fixture.claim("w1", 1);
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.receipt(fixture.attempts().at(-1) as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    fixture.input({ kind: "purge", ids: ["e1"] });
    fixture.settle();
    fixture.input({ kind: "purged", ids: ["e1"] });
  }
  expect(fixture.attempts().map(({ item }) => item.attempt)).toEqual([1, 1, 1]);
  expect(distinct(fixture.attempts())).toBe(3);
});
