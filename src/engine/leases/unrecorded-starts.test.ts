// Starts of attempts: acknowledged when they are known, journaled when something depends on them.
import { expect, test } from "vitest";
import { startOf } from "../../../test/fixtures/engine/attempt-reports.ts";
import { claimed, SETTINGS } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const tasks = (n: number) => phase("a", { tasks: Array.from({ length: n }, (_, i) => i) });

/** The tasks and attempts whose starts are journaled. */
const starts = (bench: NodeFixture, execution = "e1") =>
  bench
    .events(execution, "tasks.started")
    .map(({ tasks, attempts }) => tasks.map((t, i) => [t, attempts[i]]));

const commits = (bench: NodeFixture) => bench.of("commit").length;

test("a start is acknowledged when it is known, and makes no commit", () => {
  const { bench, first } = claimed(tasks(2), 2);
  const before = commits(bench);
  const report = bench.report("w1", ...first.map((attempt) => startOf(attempt)));
  bench.settle();
  expect(bench.verdicts(report)).toEqual([["accepted"], ["accepted"]]);
  expect([commits(bench) - before, starts(bench)]).toEqual([0, []]);
});

test("a start is acknowledged while a commit of its execution is under way", () => {
  const { bench, first } = claimed(tasks(2), 2);
  bench.holdsCommits = true;
  bench.receipt(first[0] as Attempt);
  bench.settle();
  const report = bench.report("w1", startOf(first[1] as Attempt));
  bench.settle();
  expect([bench.waiting.length, bench.verdicts(report)]).toEqual([1, [["accepted"]]]);
});

test("a start of an attempt without a lease is stale", () => {
  const { bench, first } = claimed(tasks(1), 1);
  const [attempt] = first as [Attempt];
  const report = bench.report("w1", startOf({ ...attempt, item: { ...attempt.item, claim: 7 } }));
  bench.settle();
  expect(bench.verdicts(report)).toEqual([["stale"]]);
  bench.sleep(1_000);
  expect(starts(bench)).toEqual([]);
});

test("an attempt that ends soon costs no more commits with its start than without", () => {
  const costs = [true, false].map((isSaid) => {
    const { bench, first } = claimed(tasks(1), 1);
    const before = commits(bench);
    if (isSaid) bench.started(...first);
    bench.sleep(200);
    bench.receipt(first[0] as Attempt);
    bench.sleep(1_000);
    expect([bench.status("e1"), starts(bench)]).toEqual(["done", []]);
    return commits(bench) - before;
  });
  expect(costs).toEqual([1, 1]);
});

test("starts of attempts that stay open share one commit", () => {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.a"], { local: false, capacity: 100 });
  bench.claim("w1", 100);
  const plan = bench.plan([tasks(3)]);
  for (const id of ["e1", "e2"]) bench.start(plan, id);
  bench.settle();
  const before = commits(bench);
  bench.started(...bench.attempts());
  bench.sleep(249);
  expect(commits(bench) - before).toBe(0);
  bench.sleep(1);
  expect(commits(bench) - before).toBe(1);
  const all = [
    [0, 1],
    [1, 1],
    [2, 1],
  ];
  expect([starts(bench, "e1"), starts(bench, "e2")]).toEqual([[all], [all]]);
  bench.sleep(2_000);
  expect(commits(bench) - before).toBe(1);
});

test("starts that become due soon after each other share the next commit", () => {
  const { bench, first } = claimed(tasks(3), 3);
  const before = commits(bench);
  for (const attempt of first) {
    bench.started(attempt);
    bench.sleep(10);
  }
  bench.sleep(1_000);
  expect([commits(bench) - before, starts(bench)]).toEqual([
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
  const { bench, first } = claimed(tasks(3), 2);
  bench.started(...first);
  bench.receipt(first[0] as Attempt);
  bench.settle();
  expect(starts(bench)).toEqual([[[1, 1]]]);
});

test("a checkpoint is committed with the start of its attempt", () => {
  const { bench, first } = claimed(tasks(1), 1);
  const before = commits(bench);
  bench.step(first[0] as Attempt, "one");
  bench.settle();
  expect([commits(bench) - before, starts(bench)]).toEqual([1, [[[0, 1]]]]);
});

test("the start of a lost attempt is journaled in the same commit, if it was not before", () => {
  const bench = new NodeFixture({ ...SETTINGS, startAfterMs: 600_000 });
  bench.join("w1", ["w.a"], { local: false });
  bench.claim("w1", 1);
  bench.start(bench.plan([tasks(1)]), "e1");
  bench.settle();
  bench.started(...bench.attempts());
  const before = commits(bench);
  bench.sleep(60_000);
  expect(commits(bench) - before).toBe(1);
  expect(bench.kinds("e1").slice(-2)).toEqual(["tasks.started", "tasks.lost"]);
});

test("after a failed commit a start is recorded again, once", () => {
  const { bench, first } = claimed(tasks(1), 1);
  bench.started(...first);
  bench.holdsCommits = true;
  bench.sleep(260);
  bench.commitUnheard();
  bench.holdsCommits = false;
  bench.sleep(2_000);
  expect(starts(bench)).toEqual([[[0, 1]]]);
  bench.receipt(first[0] as Attempt);
  bench.settle();
  expect(bench.status("e1")).toBe("done");
});

test("a start that was not journaled when its process died is not counted as a crash, but the next one is", () => {
  const bench = new NodeFixture({ ...SETTINGS, suspectMs: 1_000 });
  bench.join("w1", ["w.a"], { local: false });
  bench.claim("w1", 1);
  bench.start(bench.plan([tasks(1)]), "e1");
  bench.settle();
  bench.started(...bench.attempts());
  bench.settle();
  bench.restart();
  bench.join("w1", ["w.a"], { local: false });
  bench.claim("w1", 1);
  bench.sleep(31_000);
  const [again] = bench.attempts() as [Attempt];
  // Careful: its start is committed before it is given out.
  expect([again.item.attempt, starts(bench), bench.events("e1", "tasks.lost")]).toEqual([1, [[[0, 1]]], []]);
  bench.restart();
  bench.sleep(60_000);
  expect(bench.events("e1", "tasks.lost")).toHaveLength(1);
});

test("an adopted attempt has its start journaled at once", () => {
  const bench = new NodeFixture({ ...SETTINGS, suspectMs: 10_000 });
  bench.join("w1", ["w.a"], { local: false });
  bench.claim("w1", 1);
  bench.start(bench.plan([tasks(1)]), "e1");
  bench.settle();
  const attempts = bench.attempts();
  bench.started(...attempts);
  bench.settle();
  bench.restart();
  bench.started(...attempts);
  bench.settle();
  expect(starts(bench)).toEqual([[[0, 1]]]);
});
