// Starts of attempts: acknowledged when they are known, journaled when something depends on them.
import { expect, test } from "vitest";
import { startOf } from "../../../test/fixtures/engine/attempt-reports.ts";
import { claimed, SETTINGS } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const tasks = (n: number) => phase("a", { tasks: Array.from({ length: n }, (_, i) => i) });

/** The tasks and attempts whose starts are journaled. */
const starts = (fixture: NodeFixture, execution = "e1") =>
  fixture
    .events(execution, "tasks.started")
    .map(({ tasks, attempts }) => tasks.map((t, i) => [t, attempts[i]]));

const commits = (fixture: NodeFixture) => fixture.of("commit").length;

test("a start is acknowledged when it is known, and makes no commit", () => {
  const { fixture, first } = claimed(tasks(2), 2);
  const before = commits(fixture);
  const report = fixture.report("w1", ...first.map((attempt) => startOf(attempt)));
  fixture.settle();
  expect(fixture.verdicts(report)).toEqual([["accepted"], ["accepted"]]);
  expect([commits(fixture) - before, starts(fixture)]).toEqual([0, []]);
});

test("a start is acknowledged while a commit of its execution is under way", () => {
  const { fixture, first } = claimed(tasks(2), 2);
  fixture.holdsCommits = true;
  fixture.receipt(first[0] as Attempt);
  fixture.settle();
  const report = fixture.report("w1", startOf(first[1] as Attempt));
  fixture.settle();
  expect([fixture.waiting.length, fixture.verdicts(report)]).toEqual([1, [["accepted"]]]);
});

test("a start of an attempt without a lease is stale", () => {
  const { fixture, first } = claimed(tasks(1), 1);
  const [attempt] = first as [Attempt];
  const report = fixture.report("w1", startOf({ ...attempt, item: { ...attempt.item, claim: 7 } }));
  fixture.settle();
  expect(fixture.verdicts(report)).toEqual([["stale"]]);
  fixture.sleep(1_000);
  expect(starts(fixture)).toEqual([]);
});

test("an attempt that ends soon costs no more commits with its start than without", () => {
  const costs = [true, false].map((isSaid) => {
    const { fixture, first } = claimed(tasks(1), 1);
    const before = commits(fixture);
    if (isSaid) fixture.started(...first);
    fixture.sleep(200);
    fixture.receipt(first[0] as Attempt);
    fixture.sleep(1_000);
    expect([fixture.status("e1"), starts(fixture)]).toEqual(["done", []]);
    return commits(fixture) - before;
  });
  expect(costs).toEqual([1, 1]);
});

test("starts of attempts that stay open share one commit", () => {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.a"], { local: false, capacity: 100 });
  fixture.claim("w1", 100);
  const plan = fixture.plan([tasks(3)]);
  for (const id of ["e1", "e2"]) fixture.start(plan, id);
  fixture.settle();
  const before = commits(fixture);
  fixture.started(...fixture.attempts());
  fixture.sleep(249);
  expect(commits(fixture) - before).toBe(0);
  fixture.sleep(1);
  expect(commits(fixture) - before).toBe(1);
  const all = [
    [0, 1],
    [1, 1],
    [2, 1],
  ];
  expect([starts(fixture, "e1"), starts(fixture, "e2")]).toEqual([[all], [all]]);
  fixture.sleep(2_000);
  expect(commits(fixture) - before).toBe(1);
});

test("starts that become due soon after each other share the next commit", () => {
  const { fixture, first } = claimed(tasks(3), 3);
  const before = commits(fixture);
  for (const attempt of first) {
    fixture.started(attempt);
    fixture.sleep(10);
  }
  fixture.sleep(1_000);
  expect([commits(fixture) - before, starts(fixture)]).toEqual([
    1,
    [
      [
        [0, 1],
        [1, 1],
        [2, 1],
      ],
    ],
  ]);
});

test("a commit for another reason records the starts of open attempts, and not of those that it settles", () => {
  const { fixture, first } = claimed(tasks(3), 2);
  fixture.started(...first);
  fixture.receipt(first[0] as Attempt);
  fixture.settle();
  expect(starts(fixture)).toEqual([[[1, 1]]]);
});

test("a checkpoint is committed with the start of its attempt", () => {
  const { fixture, first } = claimed(tasks(1), 1);
  const before = commits(fixture);
  fixture.step(first[0] as Attempt, "one");
  fixture.settle();
  expect([commits(fixture) - before, starts(fixture)]).toEqual([1, [[[0, 1]]]]);
});

test("the start of a lost attempt is journaled in the same commit, if it was not before", () => {
  const fixture = new NodeFixture({ ...SETTINGS, startAfterMs: 600_000 });
  fixture.join("w1", ["w.a"], { local: false });
  fixture.claim("w1", 1);
  fixture.start(fixture.plan([tasks(1)]), "e1");
  fixture.settle();
  fixture.started(...fixture.attempts());
  const before = commits(fixture);
  fixture.sleep(60_000);
  expect(commits(fixture) - before).toBe(1);
  expect(fixture.kinds("e1").slice(-2)).toEqual(["tasks.started", "tasks.lost"]);
});

test("after a failed commit a start is recorded again, once", () => {
  const { fixture, first } = claimed(tasks(1), 1);
  fixture.started(...first);
  fixture.holdsCommits = true;
  fixture.sleep(260);
  fixture.commitUnheard();
  fixture.holdsCommits = false;
  fixture.sleep(2_000);
  expect(starts(fixture)).toEqual([[[0, 1]]]);
  fixture.receipt(first[0] as Attempt);
  fixture.settle();
  expect(fixture.status("e1")).toBe("done");
});

test("a start that was not journaled when its process died is not counted as a crash, but the next one is", () => {
  const fixture = new NodeFixture({ ...SETTINGS, suspectMs: 1_000 });
  fixture.join("w1", ["w.a"], { local: false });
  fixture.claim("w1", 1);
  fixture.start(fixture.plan([tasks(1)]), "e1");
  fixture.settle();
  fixture.started(...fixture.attempts());
  fixture.settle();
  fixture.restart();
  fixture.join("w1", ["w.a"], { local: false });
  fixture.claim("w1", 1);
  fixture.sleep(31_000);
  const [again] = fixture.attempts() as [Attempt];
  // Careful: its start is committed before it is given out.
  expect([again.item.attempt, starts(fixture), fixture.events("e1", "tasks.lost")]).toEqual([
    1,
    [[[0, 1]]],
    [],
  ]);
  fixture.restart();
  fixture.sleep(60_000);
  expect(fixture.events("e1", "tasks.lost")).toHaveLength(1);
});

test("an adopted attempt has its start journaled at once", () => {
  const fixture = new NodeFixture({ ...SETTINGS, suspectMs: 10_000 });
  fixture.join("w1", ["w.a"], { local: false });
  fixture.claim("w1", 1);
  fixture.start(fixture.plan([tasks(1)]), "e1");
  fixture.settle();
  const attempts = fixture.attempts();
  fixture.started(...attempts);
  fixture.settle();
  fixture.restart();
  fixture.started(...attempts);
  fixture.settle();
  expect(starts(fixture)).toEqual([[[0, 1]]]);
});
