// processBatch: groups of tasks with one signal and one time limit, each with an outcome of its own.
import { describe, expect, test } from "vitest";
import {
  beatFor,
  WorkerFixture,
  type WorkerFixtureOptions,
} from "../../test/fixtures/workers/worker-fixture.ts";
import type { BatchContext } from "./handler-code.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;
const count = (n: number) => Array.from({ length: n }, (_, i) => i);
const statuses = (fixture: WorkerFixture) =>
  [...fixture.outcomes].sort(([a], [b]) => a - b).map(([, { status }]) => status);

function fixtureOf(
  processBatch: (context: BatchContext) => unknown,
  options: WorkerFixtureOptions = {},
): WorkerFixture {
  return new WorkerFixture({ processBatch }, options);
}

/** A batch that waits for its end. */
function open(options: WorkerFixtureOptions = {}) {
  const groups: {
    context: BatchContext;
    end: (given: unknown) => void;
    fail: (thrown: unknown) => void;
  }[] = [];
  const fixture = fixtureOf(
    (context) => new Promise((end, fail) => groups.push({ context, end, fail })),
    options,
  );
  return { fixture, groups };
}

describe("groups", () => {
  test("have at most `batch` tasks, in order, over the whole grant", async () => {
    const seen: unknown[] = [];
    const fixture = fixtureOf(({ tasks }) => {
      seen.push(tasks);
      return tasks;
    });
    await fixture.give(count(7), { batch: 3 });
    expect(seen).toEqual([[0, 1, 2], [3, 4, 5], [6]]);
    expect(statuses(fixture)).toEqual(Array.from({ length: 7 }, () => "done"));
    expect(fixture.outcomes.get(4)?.payload).toBe("4");
    expect(fixture.reports.map(({ kind }) => kind)).toEqual(["receipts"]);
  });

  test("do not reach over two grants", async () => {
    const seen: unknown[] = [];
    const fixture = fixtureOf(({ tasks }) => {
      seen.push(tasks);
      return tasks;
    });
    await Promise.all([fixture.give([1], { batch: 3 }), fixture.give([2], { batch: 3, execution: "e2" })]);
    expect(seen).toEqual([[1], [2]]);
  });

  test("of one where the definition has no batch", async () => {
    const seen: unknown[] = [];
    const fixture = fixtureOf(({ tasks }) => {
      seen.push(tasks);
      return tasks;
    });
    await fixture.give([1, 2]);
    expect(seen).toEqual([[1], [2]]);
  });

  test("process with a batch gets its tasks one by one", async () => {
    const fixture = new WorkerFixture({ process: ({ task }) => task });
    await fixture.give(count(3), { batch: 2 });
    expect(statuses(fixture)).toEqual(["done", "done", "done"]);
  });

  test("see execution, input and signal, and log for their first task", async () => {
    const fixture = fixtureOf(({ execution, input, signal, tasks, log }) => {
      log(`${execution} ${JSON.stringify(input)} ${signal.aborted}`);
      return tasks;
    });
    await fixture.give(count(2), { batch: 2 });
    expect(fixture.of("logs")).toMatchObject([{ task: 0, lines: [{ text: 'e1 {"n":1} false' }] }]);
    expect(fixture.reports.map(({ kind }) => kind)).toEqual(["logs", "receipts"]);
  });

  test("that take time are reported as started, each task of them, and leave no timer", async () => {
    const { fixture, groups } = open();
    await fixture.give(count(3), { batch: 2, timeoutMs: 60_000 });
    expect(fixture.of("started").flatMap(({ attempts }) => attempts.map(({ task }) => task))).toEqual([
      0, 1, 2,
    ]);
    await fixture.clock.advance("5s");
    groups[0]?.end(["a", "b"]);
    groups[1]?.end(["c"]);
    await fixture.clock.settle();
    expect(fixture.of("receipts").flatMap(({ receipts }) => receipts.map(({ ms }) => ms))).toEqual([
      5_000, 5_000, 5_000,
    ]);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("count by their tasks against the concurrency; one group begins if there is any room", async () => {
    const { fixture, groups } = open({ concurrency: 3 });
    await fixture.give(count(8), { batch: 2 });
    expect(groups.map(({ context }) => context.tasks.length)).toEqual([2, 2]);
    groups[0]?.end([0, 0]);
    await fixture.clock.settle();
    expect(groups).toHaveLength(3);
  });
});

describe("outcomes", () => {
  test("an Error is that task's failure, with its brands; a value that cannot be stored too", async () => {
    const fixture = fixtureOf(() => [
      "ok",
      new Error("plain"),
      Object.assign(new Error("fatal"), { [Symbol.for("rondo.fatal")]: true }),
      new Map(),
    ]);
    await fixture.give(count(4), { batch: 4 });
    expect(statuses(fixture)).toEqual(["done", "failed", "failed", "failed"]);
    expect(fixture.outcomes.get(1)?.fatal).toBeUndefined();
    expect(fixture.outcomes.get(2)?.fatal).toBe(true);
    expect(fixture.outcomes.get(3)?.fatal).toBe(true);
  });

  test.each([
    [
      "thrown",
      () => {
        throw new Error("boom");
      },
    ],
    ["rejected", () => Promise.reject(new Error("boom"))],
  ])("%s: all of the group have failed", async (_how, processBatch) => {
    const fixture = fixtureOf(processBatch);
    await fixture.give(count(3), { batch: 2 });
    expect(statuses(fixture)).toEqual(["failed", "failed", "failed"]);
    expect(fixture.outcomes.get(2)?.fatal).toBeUndefined();
    expect(parse(fixture.outcomes.get(1)?.payload)["message"]).toBe("boom");
  });

  test.each<[string, unknown]>([
    ["too few", [1]],
    ["too many", [1, 2, 3]],
    ["no list", "ab"],
    ["nothing", undefined],
    ["a promise of too few", Promise.resolve([1])],
  ])("%s: fatal for all, and says what was given", async (_what, given) => {
    const fixture = fixtureOf(() => given);
    await fixture.give(count(2), { batch: 2 });
    for (const task of [0, 1]) {
      expect(fixture.outcomes.get(task)).toMatchObject({ status: "failed", fatal: true });
      expect(parse(fixture.outcomes.get(task)?.payload)["message"]).toContain("one value or Error for each");
    }
  });

  test("a hole in the list is a result of nothing", async () => {
    const list: unknown[] = [1];
    list.length = 2;
    const fixture = fixtureOf(() => list);
    await fixture.give(count(2), { batch: 2 });
    expect(fixture.outcomes.get(1)).toMatchObject({ status: "done", payload: "null" });
  });
});

describe("ends from outside", () => {
  test("out of time, all of the group are killed, once, and its signal is aborted", async () => {
    const { fixture, groups } = open();
    await fixture.give(count(2), { batch: 2, timeoutMs: 1_000 });
    await fixture.clock.advance(1_000);
    expect(statuses(fixture)).toEqual(["killed", "killed"]);
    expect(groups[0]?.context.signal.aborted).toBe(true);
    groups[0]?.end([1, 2]);
    await fixture.clock.settle();
    expect(fixture.of("receipts").flatMap(({ receipts }) => receipts)).toHaveLength(2);
  });

  test("one cancelled task does not disturb the others; its receipt comes when the group ends", async () => {
    const { fixture, groups } = open();
    const grant = await fixture.give(count(3), { batch: 3 });
    fixture.worker.cancel([beatFor(grant, 1)], "cancel");
    await fixture.clock.settle();
    expect(groups[0]?.context.signal.aborted).toBe(false);
    expect(fixture.outcomes.size).toBe(0);
    groups[0]?.end(["a", new Error("stopped"), "c"]);
    await fixture.clock.settle();
    expect(statuses(fixture)).toEqual(["done", "cancelled", "done"]);
  });

  test("all of them cancelled: the signal is aborted, and what did not end well is handed back", async () => {
    const { fixture, groups } = open();
    const grant = await fixture.give(count(3), { batch: 3 });
    fixture.worker.cancel([beatFor(grant, 0, 1)], "cancel");
    expect(groups[0]?.context.signal.aborted).toBe(false);
    fixture.worker.cancel([beatFor(grant, 2)], "cancel");
    expect(groups[0]?.context.signal.aborted).toBe(true);
    groups[0]?.fail(new Error("stopped"));
    await fixture.clock.settle();
    expect(statuses(fixture)).toEqual(["cancelled", "cancelled", "cancelled"]);
  });

  test("a lost one ends here at once, the others go on", async () => {
    const { fixture, groups } = open();
    const grant = await fixture.give(count(2), { batch: 2 });
    fixture.worker.cancel([beatFor(grant, 0)], "lost");
    await fixture.clock.settle();
    expect(statuses(fixture)).toEqual(["cancelled"]);
    groups[0]?.end(["late", "b"]);
    await fixture.clock.settle();
    expect(statuses(fixture)).toEqual(["cancelled", "done"]);
  });

  test("one that is cancelled before its group begins is handed back, the group is without it", async () => {
    const { fixture, groups } = open({ concurrency: 1 });
    const grant = await fixture.give(count(4), { batch: 2 });
    fixture.worker.cancel([beatFor(grant, 2)], "cancel");
    groups[0]?.end([0, 0]);
    await fixture.clock.settle();
    expect(groups[1]?.context.tasks).toEqual([3]);
    expect(fixture.outcomes.get(2)).toMatchObject({ status: "cancelled" });
  });

  test("stop hands back every task of a group that does not end", async () => {
    const { fixture, groups } = open();
    await fixture.give(count(3), { batch: 3 });
    const stopped = fixture.worker.stop(1_000);
    await fixture.clock.advance("1s");
    await stopped;
    expect(statuses(fixture)).toEqual(["cancelled", "cancelled", "cancelled"]);
    expect(groups[0]?.context.signal.aborted).toBe(true);
  });
});
