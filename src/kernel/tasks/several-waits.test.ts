// Tasks with several waits at a time, waits for one of several signals, and waits for a payload.
import { describe, expect, test } from "vitest";
import { answers, counts, replayed, tasks } from "../../../test/fixtures/kernel/task-waits-fixture.ts";
import { writeSnapshot } from "../journal/snapshot.ts";

/** The names of the checkpoints of a task, in the order in which its next attempt gets them. */
const order = (run: ReturnType<typeof tasks>) =>
  run
    .handler("a")
    .progress.tasks.get(0)
    ?.checkpoints.map(({ name }) => name);

const open = (run: ReturnType<typeof tasks>, task = 0) =>
  run
    .handler("a")
    .progress.tasks.get(task)
    ?.waits.map(({ name }) => name);

describe("a task with several waits", () => {
  test("runs again when one is answered, and the others stay open with their time limits", () => {
    const run = tasks(1);
    run.receipt("a", 0, {
      status: "suspended",
      waits: [
        { name: "x", signal: "x", timeoutMs: 1_000 },
        { name: "y", signal: "y" },
        { name: "nap", forMs: 5_000 },
      ],
    });
    expect(run.kinds().slice(-2)).toEqual(["task.waiting", "timer.set"]);
    expect(counts(run)).toEqual([0, 0, 0, 1, 0, 0]);
    run.signal("y", 7);
    expect(answers(run)).toEqual([{ task: 0, name: "y", reason: "signalled", result: "7" }]);
    expect(open(run)).toEqual(["x", "nap"]);
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    expect([...run.execution.timers.keys()]).toEqual(["a.1.a.0/x"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("takes no signal while it runs, and takes it when it is suspended again", () => {
    const run = tasks(1);
    const waits = [
      { name: "x", signal: "x", timeoutMs: 1_000 },
      { name: "y", signal: "y" },
    ];
    run.receipt("a", 0, { status: "suspended", waits });
    run.signal("y", 7);
    run.signal("x", 8);
    expect(answers(run)).toHaveLength(1);
    run.receipt("a", 0, { status: "suspended", waits: [waits[0] as (typeof waits)[number]] });
    expect(answers(run).at(-1)).toEqual({ task: 0, name: "x", reason: "signalled", result: "8" });
    expect(run.execution.timers.size).toBe(0);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("continues at once if a time limit passed while it ran, and then the limit is not set again", () => {
    const run = tasks(1);
    const x = { name: "x", signal: "x", timeoutMs: 1_000 };
    run.receipt("a", 0, { status: "suspended", waits: [x, { name: "y", signal: "y" }] });
    run.signal("y", 7);
    run.now += 1_000;
    run.timer("a.1.a.0/x");
    expect(answers(run).at(-1)).toMatchObject({ name: "x", result: "wait_timeout" });
    run.receipt("a", 0, { status: "suspended", waits: [x, { name: "z", signal: "z" }] });
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(open(run)).toEqual(["z"]);
    expect(run.execution.timers.size).toBe(0);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("keeps the time limit of a wait that others join, or that is left alone", () => {
    const run = tasks(1);
    const x = { name: "x", signal: "x", timeoutMs: 1_000 };
    run.receipt("a", 0, { status: "suspended", wait: x });
    const [[timer, { due }] = ["", { due: 0 }]] = run.execution.timers;
    run.signal("other", 1);
    run.fail("a", 0, { attempt: 2 });
    run.receipt("a", 0, { status: "suspended", waits: [x, { name: "y", signal: "y" }] });
    expect([...run.execution.timers]).toEqual([[timer, { purpose: "task", due }]]);
    run.signal("y", 1);
    run.receipt("a", 0, { status: "suspended", wait: x });
    run.now = due;
    run.timer(timer);
    expect(answers(run).at(-1)).toMatchObject({ name: "x", result: "wait_timeout" });
  });

  test("drops waits that it does not have any more, with their timers, and all of them when it is done", () => {
    const run = tasks(2);
    const x = { name: "x", signal: "x", timeoutMs: 1_000 };
    const y = { name: "y", signal: "y", timeoutMs: 2_000 };
    run.receipt("a", 0, { status: "suspended", waits: [x, y, { name: "z", signal: "z" }] });
    run.signal("z", 1);
    run.receipt("a", 0, { status: "suspended", waits: [y] });
    expect([...run.execution.timers.keys()]).toEqual(["a.1.a.0/y"]);
    run.done("a", 0);
    expect(run.execution.timers.size).toBe(0);
  });
});

describe("the order of checkpoints for later attempts", () => {
  test("has sleeps that are over by their times, before the step that follows them", () => {
    const run = tasks(1);
    const waits = [
      { name: "long", forMs: 2_000 },
      { name: "short", forMs: 1_000 },
    ];
    run.receipt("a", 0, { status: "suspended", waits });
    run.now += 5_000;
    run.stepDone("a", 0, { name: "next" });
    expect(order(run)).toEqual(["short", "long", "next"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("has a sleep that is over before the answers to waits that begin after it", () => {
    const run = tasks(1);
    const paid = { name: "paid", signal: "paid" };
    run.receipt("a", 0, { status: "suspended", waits: [paid, { name: "limit", forMs: 1_000 }] });
    run.now += 1_000;
    run.receipt("a", 0, { status: "suspended", waits: [paid, { name: "other", signal: "other" }] });
    run.signal("paid");
    expect(order(run)).toEqual(["limit", "paid"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("has a sleep that was over before a new round began before the steps of that round", () => {
    const run = tasks(1);
    const waits = [
      { name: "paid", signal: "paid" },
      { name: "limit", forMs: 1_000 },
    ];
    run.receipt("a", 0, { status: "suspended", waits });
    run.control("cancel");
    run.drained();
    run.control("retry");
    run.now += 1_000;
    run.stepDone("a", 0, { name: "late" });
    expect(order(run)).toEqual(["limit", "late"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("has a time limit that passed while an attempt ran after the steps of that attempt", () => {
    const run = tasks(1);
    const paid = { name: "paid", signal: "paid", timeoutMs: 2_000 };
    run.receipt("a", 0, { status: "suspended", waits: [paid, { name: "nap", forMs: 1_000 }] });
    run.now += 1_500;
    const { seq: seen } = run.execution;
    run.now += 500;
    run.timer("a.1.a.0/paid");
    run.stepDone("a", 0, { name: "next", seen });
    expect(order(run)).toEqual(["nap", "next", "paid"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });
});

describe("a wait for one of several signals", () => {
  test("takes the oldest kept one, and says which it is", () => {
    const run = tasks(1);
    run.signal("stop", 1);
    run.signal("go", 2);
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "any", anyOf: ["go", "stop"] }] });
    expect(answers(run)).toEqual([
      { task: 0, name: "any", reason: "signalled", result: '{"name":"stop","value":1}' },
    ]);
    expect([...run.execution.signals.keys()]).toEqual(["go"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });
});

describe("a wait for a payload", () => {
  test("takes only a signal that has the values, also one that is not the oldest; the others stay kept", () => {
    const run = tasks(2);
    run.signal("paid", { order: 1 });
    run.signal("paid", { order: 2, by: "card" });
    const wait = (order: number) => ({ name: "paid", signal: "paid", match: JSON.stringify({ order }) });
    run.receipt("a", 0, { status: "suspended", waits: [wait(2)] });
    expect(answers(run)).toMatchObject([{ task: 0, result: '{"order":2,"by":"card"}' }]);
    run.receipt("a", 1, { status: "suspended", waits: [wait(3)] });
    expect(run.execution.signals.get("paid")).toHaveLength(1);
    run.signal("paid", { order: 4 });
    run.signal("paid", { order: 3 });
    expect(answers(run).at(-1)).toMatchObject({ task: 1, result: '{"order":3}' });
    expect(run.execution.signals.get("paid")).toHaveLength(2);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });
});

describe("a step with a budget", () => {
  const known = (run: ReturnType<typeof tasks>) => run.handler("a").progress.tasks.get(0)?.checkpoints;

  test("counts its failed tries over attempts; a repeated report counts once", () => {
    const run = tasks(1);
    expect(run.stepFailed("a", 0, { tries: 1, forMs: 500 })).toBe("accepted");
    expect(run.stepFailed("a", 0, { tries: 1, forMs: 500 })).toBe("duplicate");
    run.receipt("a", 0, { status: "crashed", payload: "{}" });
    expect(known(run)).toMatchObject([{ kind: "tries", name: "s", tries: 1 }]);
    expect(run.stepFailed("a", 0, { attempt: 2, tries: 2, forMs: 500 })).toBe("accepted");
    expect(run.stepDone("a", 0, { attempt: 2 })).toBe("accepted");
    expect(known(run)).toMatchObject([{ kind: "step", name: "s" }]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("has a back-off that suspends the task without an end of its tries", () => {
    const run = tasks(1);
    run.stepFailed("a", 0, { tries: 1, forMs: 5_000 });
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "s", forMs: 5_000, retry: true }] });
    expect(known(run)).toMatchObject([{ kind: "tries", tries: 1 }]);
    expect(run.handler("a").tasks.until(0)).toBe(run.now + 5_000);
  });

  test("that failed for good stays failed for later attempts, and is tried again in a new round", () => {
    const run = tasks(1);
    run.stepFailed("a", 0, { tries: 3 });
    expect(known(run)).toMatchObject([{ kind: "step", name: "s", failed: true }]);
    expect(run.stepDone("a", 0)).toBe("duplicate");
    run.fail("a", 0, { fatal: true });
    run.drained();
    run.control("retry");
    expect(known(run)).toEqual([]);
  });

  test("that failed for good stays failed in a new round if the code has gone on after it", () => {
    const run = tasks(1);
    run.stepDone("a", 0, { name: "reserve" });
    run.stepFailed("a", 0, { name: "charge", tries: 3 });
    expect(run.noted("a", 0, { failures: ["charge", "reserve"] })).toBe("accepted");
    expect(run.noted("a", 0, { failures: ["charge"] })).toBe("duplicate");
    run.stepDone("a", 0, { name: "release" });
    run.fail("a", 0, { fatal: true });
    run.drained();
    run.control("retry");
    expect(known(run)).toMatchObject([
      { name: "reserve" },
      { name: "charge", failed: true },
      { name: "release" },
    ]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("that failed beside a step which ended later is tried again in a new round", () => {
    const run = tasks(1);
    run.stepFailed("a", 0, { name: "charge", tries: 3 });
    run.stepDone("a", 0, { name: "beside it" });
    run.fail("a", 0, { fatal: true });
    run.drained();
    run.control("retry");
    expect(known(run)).toMatchObject([{ name: "beside it" }]);
  });
});

test("times that code has read stay: the first one of a name counts", () => {
  const run = tasks(1);
  expect(run.noted("a", 0, { times: { began: 7 } })).toBe("accepted");
  expect(run.noted("a", 0, { times: { began: 8 } })).toBe("duplicate");
  expect(run.noted("a", 0, { times: { began: 8, "#1": 9 } })).toBe("accepted");
  expect(run.of("task.noted").map(({ times }) => times)).toEqual([{ began: 7 }, { "#1": 9 }]);
  const known = run.handler("a").progress.tasks.get(0)?.checkpoints;
  expect(known).toEqual([
    { kind: "time", name: "began", at: 7 },
    { kind: "time", name: "#1", at: 9 },
  ]);
  expect(replayed(run)).toBe(writeSnapshot(run.execution));
});
