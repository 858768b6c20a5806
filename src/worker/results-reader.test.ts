// Results of earlier phases, as code reads them.
import { describe, expect, test } from "vitest";
import type { PhaseCounts } from "../protocol/work.ts";
import type { ResultsReader } from "./handler-code.ts";
import { type ResultsSource, readPhases } from "./results-reader.ts";

type SettledSource = Pick<ResultsSource, "settled">;

const ROWS = [
  { task: 1, status: "done", payload: "10" },
  { task: 0, status: "failed", payload: '{"message":"boom"}' },
  { task: 2, status: "done", payload: "20" },
];

function source(asked: unknown[] = []): SettledSource {
  return {
    async *settled(place) {
      asked.push(place);
      yield* ROWS;
    },
  };
}

function counts(phase: string, handlers: string[], visit = 1): PhaseCounts[number] {
  return {
    phase,
    visit,
    firstSeq: 5,
    lastSeq: 9,
    handlers: handlers.map((name) => ({ name, total: 3, done: 2, failed: 1, value: null })),
  };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe("phases", () => {
  test("with one unnamed handler are its reader; in a map, readers by name", async () => {
    const phases = readPhases("e1", [counts("a", ["a"]), counts("b", ["x", "y"])], source());
    expect(phases["a"]).toMatchObject({ count: 2, failed: 1, total: 3 });
    expect(phases["b"]?.["x"]).toMatchObject({ count: 2 });
    expect(Object.keys(phases["b"] as object)).toEqual(["x", "y"]);
    expect(await all((phases["a"] as ResultsReader).results())).toEqual([10, 20]);
  });

  test("read results in journal order, failures with their numbers, and fold", async () => {
    const reader = readPhases("e1", [counts("a", ["a"])], source())["a"] as ResultsReader;
    expect(await all(reader.results())).toEqual([10, 20]);
    expect(await all(reader.failures())).toEqual([{ task: 0, data: undefined, error: { message: "boom" } }]);
    expect(await reader.reduce((sum, n) => sum + (n as number), 1)).toBe(31);
    expect(await reader.reduce(async (sum, n) => sum + (n as number), 0)).toBe(30);
  });

  test("give the last word on a task that was tried in several rounds", async () => {
    const rows = [
      { task: 0, status: "failed", payload: '"one"' },
      { task: 1, status: "failed", payload: '"two"' },
      { task: 1, status: "done", payload: "1" },
      { task: 0, status: "failed", payload: '"three"' },
    ];
    const rounds: SettledSource = {
      async *settled() {
        yield* rows;
      },
    };
    const reader = readPhases("e1", [counts("a", ["a"])], rounds)["a"] as ResultsReader;
    expect(await all(reader.failures())).toEqual([{ task: 0, data: undefined, error: "three" }]);
    expect(await all(reader.results())).toEqual([1]);
  });

  test("ask only for the rows of their handler and visit", async () => {
    const asked: unknown[] = [];
    const reader = readPhases("e1", [counts("a", ["a"], 4)], source(asked))["a"] as ResultsReader;
    await all(reader.results());
    expect(asked).toEqual([{ execution: "e1", phase: "a", visit: 4, handler: "a", firstSeq: 5, lastSeq: 9 }]);
  });

  test("that have not been visited have no results, and nothing is read for them", async () => {
    const asked: unknown[] = [];
    const never = { ...counts("a", ["a"], 0), firstSeq: 1, lastSeq: 0 };
    const reader = readPhases("e1", [never], source(asked))["a"] as ResultsReader;
    expect(await all(reader.results())).toEqual([]);
    expect(asked).toEqual([]);
  });

  test("hide the decision's handler", () => {
    const phases = readPhases("e1", [counts("a", ["a", "next"])], source());
    expect(phases["a"]).toMatchObject({ count: 2 });
  });

  test.each(["count", "failed", "total", "results", "failures", "reduce", "visit", "value"])(
    "may be called %s",
    async (name) => {
      const reader = readPhases("e1", [counts(name, [name])], source())[name] as ResultsReader;
      expect([reader.count, reader.failed, reader.total]).toEqual([2, 1, 3]);
      expect(await all(reader.results())).toEqual([10, 20]);
      expect(reader.value).toBeNull();
    },
  );

  test("of waits have a value", () => {
    const wait = counts("go", ["go"]);
    const given = { ...wait, handlers: wait.handlers.map((one) => ({ ...one, value: '{"ok":true}' })) };
    expect(readPhases("e1", [given], source())["go"]).toMatchObject({ value: { ok: true } });
  });

  test("of an earlier visit read that visit, with its own counts; of one that never was, nothing", async () => {
    const asked: { visit: number }[] = [];
    const [first, newest] = [counts("a", ["a"], 1), counts("a", ["a"], 3)];
    const earlier = { ...first, handlers: first.handlers.map((one) => ({ ...one, done: 9 })) };
    const reader = readPhases("e1", [earlier, newest], source(asked))["a"] as ResultsReader;
    expect([reader.count, reader.visit(1).count, reader.visit(7).count]).toEqual([2, 9, 0]);
    await all(reader.visit(1).results());
    expect(await all(reader.visit(7).results())).toEqual([]);
    expect(asked.map(({ visit }) => visit)).toEqual([1]);
  });
});
