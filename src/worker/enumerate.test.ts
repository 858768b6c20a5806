// Enumerations in a worker: pages as they come, checked and bounded; a second attempt goes on or starts over.
import { describe, expect, test } from "vitest";
import { makeGrant, WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import { checksum } from "../std/hash.ts";
import type { EnumerateContext } from "./handler-code.ts";

const count = (n: number, from = 0) => Array.from({ length: n }, (_, i) => from + i);
const sum = (tasks: readonly unknown[]) =>
  checksum(tasks.map((task) => `${JSON.stringify(task)}\n`).join(""), 0);
const resumeOf = (tasks: readonly unknown[]) => ({
  count: tasks.length,
  last: JSON.stringify(tasks.at(-1)),
  checksum: sum(tasks),
});

async function list(
  enumerate: (context: EnumerateContext) => unknown,
  more: Parameters<WorkerFixture["give"]>[1] = {},
  code: object = {},
): Promise<WorkerFixture> {
  const fixture = new WorkerFixture({ enumerate: enumerate as never, ...code });
  await fixture.give([], { do: "enumerate", ...more });
  return fixture;
}

function tasks(fixture: WorkerFixture): unknown[] {
  return fixture.of("page").flatMap((page) => page.tasks.map((text) => JSON.parse(text) as unknown));
}

const outcome = (fixture: WorkerFixture) => fixture.of("enumeration")[0]?.outcome;
const error = (fixture: WorkerFixture) =>
  JSON.parse(outcome(fixture)?.payload ?? "null") as Record<string, unknown>;

describe("what enumerate may give", () => {
  test.each<[string, () => unknown]>([
    ["an array", () => [1, 2, 3]],
    ["a set", () => new Set([1, 2, 3])],
    [
      "a generator",
      function* () {
        yield* [1, 2, 3];
      },
    ],
    [
      "an async generator",
      async function* () {
        yield* [1, 2, 3];
      },
    ],
    ["a promise of an array", async () => [1, 2, 3]],
    [
      "a promise of a generator",
      async () =>
        (function* () {
          yield* [1, 2, 3];
        })(),
    ],
  ])("%s", async (_what, enumerate) => {
    const fixture = await list(enumerate);
    expect(tasks(fixture)).toEqual([1, 2, 3]);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 3 });
  });

  test.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a number", 7],
    ["a text", "abc"],
    ["an object", { a: 1 }],
  ])("not %s: that fails for good", async (_what, given) => {
    const fixture = await list(() => given);
    expect(outcome(fixture)).toMatchObject({ status: "failed", fatal: true });
    expect(error(fixture)["message"]).toContain("must return an array, an iterable or an async iterable");
  });

  test.each(["stale", "gone", "elsewhere"])("whose page is told to be %s is given back", async (verdict) => {
    const fixture = new WorkerFixture(
      { enumerate: () => count(5_000) },
      { verdict: ({ kind }) => (kind === "page" ? verdict : "stale") },
    );
    await fixture.give([], { do: "enumerate" });
    expect(outcome(fixture)?.status).toBe("cancelled");
    expect(fixture.of("enumeration")).toHaveLength(1);
  });

  test("an empty one is a total of 0 and no page", async () => {
    const fixture = await list(() => []);
    expect(fixture.of("page")).toHaveLength(0);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 0 });
  });
});

describe("pages", () => {
  test("hold at most 1,000 tasks, and say where they begin", async () => {
    const fixture = await list(() => count(2_500));
    expect(fixture.of("page").map(({ from, tasks }) => [from, tasks.length])).toEqual([
      [0, 1_000],
      [1_000, 1_000],
      [2_000, 500],
    ]);
  });

  test("hold at most about 256 KiB", async () => {
    const fixture = await list(() => count(20).map(() => "x".repeat(50_000)));
    for (const page of fixture.of("page"))
      expect(page.tasks.reduce((chars, text) => chars + text.length, 0)).toBeLessThan(350_000);
    expect(tasks(fixture)).toHaveLength(20);
  });

  test("go out when the code makes them wait, not only when they are full", async () => {
    let goOn: () => void = () => {};
    const fixture = new WorkerFixture({
      async *enumerate() {
        yield 1;
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
        yield 2;
      },
    });
    await fixture.give([], { do: "enumerate" });
    expect(fixture.of("page")).toHaveLength(0);
    await fixture.clock.advance(20);
    expect(tasks(fixture)).toEqual([1]);
    goOn();
    await fixture.clock.settle();
    expect(tasks(fixture)).toEqual([1, 2]);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("wait while four are not acknowledged, so that a fast enumerator fills no memory", async () => {
    let given = 0;
    const acknowledge: (() => void)[] = [];
    const fixture = new WorkerFixture(
      {
        *enumerate() {
          for (; given < 20_000; given++) yield given;
        },
      },
      { acknowledged: () => new Promise<void>((resolve) => acknowledge.push(resolve)) },
    );
    await fixture.give([], { do: "enumerate" });
    expect(fixture.of("page")).toHaveLength(4);
    expect(given).toBeLessThan(4_100);
    while (acknowledge.length > 0) {
      acknowledge.shift()?.();
      await fixture.clock.settle();
    }
    expect(given).toBe(20_000);
    expect(outcome(fixture)).toMatchObject({ total: 20_000 });
  });

  test("stop, and the code with them, when the engine says that the attempt is over", async () => {
    let closed = false;
    const fixture = new WorkerFixture(
      {
        async *enumerate() {
          try {
            for (let i = 0; i < 100_000; i++) yield i;
          } finally {
            closed = true;
          }
        },
      },
      { verdict: () => "stale" },
    );
    await fixture.give([], { do: "enumerate" });
    expect(closed).toBe(true);
    expect(tasks(fixture).length).toBeLessThan(10_000);
    expect(outcome(fixture)).toMatchObject({ status: "cancelled" });
  });

  test("carry keys and identities where the code computes them", async () => {
    const code = {
      key: (task: unknown) => `k${(task as number) % 2}`,
      identity: (task: unknown) => `id${task as number}`,
    };
    const fixture = await list(() => [1, 2, 3], {}, code);
    expect(fixture.of("page")).toMatchObject([
      { from: 0, keys: ["k1", "k0", "k1"], identities: ["id1", "id2", "id3"] },
    ]);
  });

  test("of what was given before an error are sent before it is told", async () => {
    const fixture = await list(async function* () {
      yield 1;
      yield 2;
      throw new Error("connection reset");
    });
    expect(tasks(fixture)).toEqual([1, 2]);
    expect(outcome(fixture)).toMatchObject({ status: "failed" });
    expect(fixture.reports.map(({ kind }) => kind)).toEqual(["page", "enumeration"]);
    expect(error(fixture)["message"]).toBe("connection reset");
  });
});

describe("tasks that cannot be stored", () => {
  test("are named by number and path, and end the enumeration for good", async () => {
    const fixture = await list(() => [{ ok: 1 }, { when: { at: new Map() } }]);
    expect(outcome(fixture)).toMatchObject({ status: "failed", fatal: true });
    expect(error(fixture)).toMatchObject({
      code: "not_storable",
      path: "task 1.when.at",
      message: "task 1.when.at is a Map, which cannot be stored",
    });
  });

  test("or are too large", async () => {
    const fixture = await list(() => ["x".repeat(65_536)]);
    expect(error(fixture)).toMatchObject({ code: "too_large" });
  });

  test("or have no key or identity fail the enumeration, and what came before is journaled", async () => {
    const fixture = await list(
      () => [1, 2, 3],
      {},
      {
        key: (task: unknown) => {
          if (task === 3) throw new Error("no key");
          return "k";
        },
      },
    );
    expect(fixture.of("page")).toMatchObject([{ from: 0, tasks: ["1", "2"], keys: ["k", "k"] }]);
    expect(outcome(fixture)).toMatchObject({ status: "failed" });
    expect(error(fixture)["message"]).toBe("no key");
  });
});

describe("a second attempt", () => {
  const known = [10, 20, 30];

  test("that starts over has what is known skipped", async () => {
    const fixture = await list(() => [10, 20, 30, 40, 50], { resume: resumeOf(known) });
    expect(fixture.of("page")).toMatchObject([{ from: 3, tasks: ["40", "50"] }]);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 5 });
  });

  test("that starts over and has nothing new is complete", async () => {
    const fixture = await list(() => [10, 20, 30], { resume: resumeOf(known) });
    expect(fixture.of("page")).toHaveLength(0);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 3 });
  });

  test.each([
    ["other tasks", [10, 21, 30, 40]],
    ["another order", [20, 10, 30, 40]],
    ["fewer tasks", [10, 20]],
    ["none", []],
  ])("that starts over with %s has diverged, or says another total", async (_what, given) => {
    const fixture = await list(() => given, { resume: resumeOf(known) });
    expect(fixture.of("page")).toHaveLength(0);
    const end = outcome(fixture);
    const isTold =
      end?.status === "done" ? end.total !== 3 : error(fixture)["code"] === "enumeration_diverged";
    expect(isTold).toBe(true);
  });

  test("that reads where it was goes on from there", async () => {
    const seen: unknown[] = [];
    const fixture = await list(
      ({ resume }) => {
        seen.push({ ...resume });
        return resume === undefined ? known : [40, 50].slice(resume.count - 3);
      },
      { resume: resumeOf(known) },
    );
    expect(seen).toEqual([{ count: 3, last: 30 }]);
    expect(fixture.of("page")).toMatchObject([{ from: 3, tasks: ["40", "50"] }]);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 5 });
  });

  test("that reads where it was and finds nothing more is complete", async () => {
    const fixture = await list(({ resume }) => (resume?.last === 30 ? [] : known), {
      resume: resumeOf(known),
    });
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 3 });
  });

  test("that takes `resume` out of its context and does not look at it starts over", async () => {
    const fixture = await list(
      async function* ({ input: _input, resume: _resume, signal: _signal }: EnumerateContext) {
        yield* [10, 20, 30, 40];
      },
      { resume: resumeOf(known) },
    );
    expect(fixture.of("page")).toMatchObject([{ from: 3, tasks: ["40"] }]);
  });

  test("with identities sends everything: the engine skips by name", async () => {
    const fixture = await list(() => [30, 40], { resume: resumeOf(known) }, { identity: String });
    expect(fixture.of("page")).toMatchObject([{ from: 0, tasks: ["30", "40"], identities: ["30", "40"] }]);
    expect(outcome(fixture)).toMatchObject({ status: "done" });
  });

  test("a first attempt has nothing to resume", async () => {
    const seen: unknown[] = [];
    await list(({ resume }) => {
      seen.push(resume);
      return [];
    });
    expect(seen).toEqual([undefined]);
  });
});

test("code that only processes never enumerates: the attempt fails, and the input is no task", async () => {
  const fixture = new WorkerFixture({ process: () => "done" });
  await fixture.give([], { do: "enumerate" });
  expect(fixture.of("page")).toEqual([]);
  expect(outcome(fixture)).toMatchObject({ status: "failed" });
  expect(outcome(fixture)?.fatal).toBeUndefined();
  expect(error(fixture)["message"]).toContain("its code in this worker has no enumerate");
});

test("a cancelled enumeration hands back when the code has ended, and its signal is aborted", async () => {
  let signal: AbortSignal | undefined;
  let goOn: () => void = () => {};
  const fixture = new WorkerFixture({
    async *enumerate(context: EnumerateContext) {
      signal = context.signal;
      yield 1;
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      yield 2;
    },
  });
  const grant = await fixture.give([], { do: "enumerate" });
  const { execution, phase, visit, handler, round, epoch } = grant;
  const attempts = [{ task: -1, attempt: 1, claim: 0 }];
  fixture.worker.cancel([{ execution, phase, visit, handler, round, epoch, attempts }], "cancel");
  await fixture.clock.settle();
  expect(signal?.aborted).toBe(true);
  goOn();
  await fixture.clock.settle();
  expect(outcome(fixture)).toMatchObject({ status: "cancelled" });
});

describe("an enumeration and tasks that are ready", () => {
  const given = async (process: () => unknown) => {
    let begun = 0;
    const begunAt: number[] = [];
    const fixture = new WorkerFixture(
      {
        enumerate: () => count(3_000),
        process: () => {
          begun++;
          return process();
        },
      },
      {
        verdict: ({ kind }) => {
          if (kind === "page") begunAt.push(begun);
          return "accepted";
        },
      },
    );
    fixture.worker.accept(makeGrant([], { do: "enumerate" }));
    fixture.worker.accept(makeGrant(count(2_000)));
    await fixture.clock.settle();
    return { fixture, begunAt };
  };

  test("lets them begin before its next page", async () => {
    const { fixture, begunAt } = await given(() => null);
    expect(begunAt).toHaveLength(3);
    expect(begunAt[0]).toBeLessThan(2_000);
    expect(begunAt.slice(1)).toEqual([2_000, 2_000]);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 3_000 });
  });

  test("does not wait for tasks for which the worker has no room", async () => {
    const { fixture, begunAt } = await given(() => new Promise(() => {}));
    expect(begunAt).toEqual([9, 9, 9]);
    expect(outcome(fixture)).toMatchObject({ status: "done", total: 3_000 });
  });
});
