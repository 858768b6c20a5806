// Script tasks at a worker, with a sandbox played by the test.
import { describe, expect, test } from "vitest";
import {
  beatFor,
  WorkerFixture,
  type WorkerFixtureOptions,
} from "../../test/fixtures/workers/worker-fixture.ts";
import type { Checkpoint, Grant, ScriptWork } from "../protocol/work.ts";
import { RondoError, reject } from "../std/rejection.ts";
import type { ResultsSource } from "./results-reader.ts";
import type { ScriptAttempt, ScriptEnd, ScriptEvent } from "./sandbox/script-attempt.ts";
import type { ScriptSandbox } from "./script-runner.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;
const STATS = { durationMs: 3, memoryBytes: 1_000 };
const RUNS = ["one", "two"].map((name) => ({ name, expression: "s => s", timeoutMs: null }));

interface Playing {
  readonly attempt: ScriptAttempt;
  readonly say: (event: ScriptEvent) => void;
  readonly end: (end: ScriptEnd) => void;
  cancelled: string | null;
}

function setUp(options: WorkerFixtureOptions & { atOnce?: number; journal?: Record<number, string> } = {}) {
  const playing: Playing[] = [];
  const counts = { opened: 0, closed: 0 };
  const sandbox: ScriptSandbox = {
    run(attempt, say) {
      let end: (end: ScriptEnd) => void = () => {};
      const done = new Promise<ScriptEnd>((resolve) => {
        end = resolve;
      });
      const play: Playing = { attempt, say, end, cancelled: null };
      playing.push(play);
      const cancel = (reason: string) => {
        play.cancelled = reason;
        end({ kind: "cancelled", run: null, reason });
      };
      return { done, cancel };
    },
    async close() {
      counts.closed++;
    },
  };
  const results: ResultsSource = {
    async *settled() {},
    checkpoint: async (_execution, seq) => ({ result: options.journal?.[seq] ?? "missing" }),
  };
  const open = async () => {
    counts.opened++;
    return sandbox;
  };
  const scripts = { open, atOnce: options.atOnce ?? 2 };
  const fixture = new WorkerFixture({}, { results, scripts, ...options });
  const give = (tasks: readonly unknown[], script: Partial<ScriptWork> = {}, more: Partial<Grant> = {}) =>
    fixture.give(tasks, {
      do: "script",
      use: "~script",
      script: { runs: RUNS, state: null, resume: true, ...script },
      ...more,
    });
  const finish = (at: number, run: string, state: unknown) =>
    playing[at]?.say({
      kind: "run_finished",
      run,
      state: JSON.stringify(state),
      oversized: false,
      stats: STATS,
    });
  return { fixture, playing, counts, give, finish };
}

describe("an attempt", () => {
  test("goes through its runs; each is journaled before the receipt, logs and all in order", async () => {
    const { fixture, playing, counts, give, finish } = setUp();
    await give([{ n: 1 }]);
    expect(counts.opened).toBe(1);
    expect(playing[0]?.attempt).toEqual({
      project: "default",
      runs: RUNS,
      finished: 0,
      state: '{"n":1}',
      input: '{"n":1}',
      attempt: 1,
    });
    playing[0]?.say({ kind: "run_started", run: "one" });
    playing[0]?.say({ kind: "log", run: "one", level: "info", text: "hello" });
    finish(0, "one", { n: 2 });
    playing[0]?.say({ kind: "run_started", run: "two" });
    finish(0, "two", { n: 3 });
    playing[0]?.end({ kind: "done", state: '{"n":3}', oversized: false });
    await fixture.clock.settle();
    expect(fixture.reports.map(({ kind }) => kind)).toEqual([
      "accepted",
      "started",
      "run.started",
      "logs",
      "run",
      "run.started",
      "run",
      "receipts",
    ]);
    expect(fixture.of("run")).toMatchObject([
      { name: "one", index: 0, state: '{"n":2}', oversized: false, stats: STATS, task: 0, attempt: 1 },
      { name: "two", index: 1, state: '{"n":3}' },
    ]);
    expect(
      fixture.of("logs").flatMap(({ lines }) => lines.map(({ n, level, run }) => [n, level, run])),
    ).toEqual([[1, "info", "one"]]);
    expect(fixture.of("run.started")).toMatchObject([
      { name: "one", index: 0 },
      { name: "two", index: 1 },
    ]);
    expect(fixture.outcomes.get(0)).toEqual({ status: "done", payload: '{"n":3}' });
  });

  test("has its receipt only after its runs are committed", async () => {
    const acknowledge: (() => void)[] = [];
    const { fixture, playing, give, finish } = setUp({
      acknowledged: () => new Promise((resolve) => acknowledge.push(resolve)),
    });
    await give([1], { runs: RUNS.slice(0, 1) });
    acknowledge.shift()?.();
    finish(0, "one", 2);
    playing[0]?.end({ kind: "done", state: "2", oversized: false });
    await fixture.clock.settle();
    expect(fixture.of("run")).toHaveLength(1);
    expect(fixture.of("receipts")).toEqual([]);
    acknowledge.shift()?.();
    await fixture.clock.settle();
    expect(fixture.outcomes.get(0)?.payload).toBe("2");
  });

  test("begins with the state of its definition, where there is one", async () => {
    const { playing, give } = setUp();
    await give([{ n: 1 }], { state: '{"from":"definition"}' });
    expect(playing[0]?.attempt.state).toBe('{"from":"definition"}');
  });

  const known: Checkpoint[] = [{ kind: "run", name: "one", seq: 11 }];
  const second = (checkpoints: readonly Checkpoint[]): Partial<Grant> => ({
    items: [{ number: 0, attempt: 2, claim: 0, task: '"task"', checkpoints }],
  });

  test("goes on after the last finished run, with its state", async () => {
    const { fixture, playing, give, finish } = setUp({ journal: { 11: '"after one"' } });
    await give([], {}, second(known));
    expect(playing[0]?.attempt).toMatchObject({ finished: 1, state: '"after one"', attempt: 2 });
    finish(0, "two", "after two");
    playing[0]?.end({ kind: "done", state: '"after two"', oversized: false });
    await fixture.clock.settle();
    expect(fixture.of("run")).toMatchObject([{ name: "two", index: 1 }]);
  });

  test("whose runs are all finished needs no sandbox", async () => {
    const { fixture, counts, give } = setUp({ journal: { 12: '"after two"' } });
    await give([], {}, second([...known, { kind: "run", name: "two", seq: 12 }]));
    expect(counts.opened).toBe(0);
    expect(fixture.outcomes.get(0)).toEqual({ status: "done", payload: '"after two"' });
  });

  test("with resume off begins with the first run", async () => {
    const { playing, give } = setUp();
    await give([], { resume: false }, second(known));
    expect(playing[0]?.attempt).toMatchObject({ finished: 0, state: '"task"' });
  });

  test("whose run is not taken any more is stopped and handed back", async () => {
    const { fixture, playing, give, finish } = setUp({
      verdict: (report) => (report.kind === "run" ? "stale" : "accepted"),
    });
    await give([1]);
    finish(0, "one", 2);
    await fixture.clock.settle();
    expect(playing[0]?.cancelled).toBe("the attempt is over");
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });
});

describe("the end", () => {
  test.each<[string, ScriptEnd, object, object]>([
    [
      "failed",
      {
        kind: "failed",
        run: "one",
        error: { name: "TypeError", message: "x is not a function", line: 3, hint: "define x" },
        fatal: false,
      },
      { status: "failed" },
      { name: "TypeError", message: "x is not a function", run: "one", line: 3, hint: "define x" },
    ],
    [
      "failed for good (C10: a syntax error)",
      { kind: "failed", run: "one", error: { name: "SyntaxError", message: "no" }, fatal: true },
      { status: "failed", fatal: true },
      { name: "SyntaxError", run: "one" },
    ],
    [
      "killed by its time",
      { kind: "killed", run: "one", limit: "time", message: "too long" },
      { status: "killed" },
      { code: "timeout", message: "too long", run: "one" },
    ],
    [
      "killed by its memory",
      { kind: "killed", run: "one", limit: "memory", message: "too much" },
      { status: "killed" },
      { code: "memory" },
    ],
    [
      "killed for what it did",
      { kind: "killed", run: "one", limit: "security", message: "spoke out of turn" },
      { status: "killed" },
      { code: "security" },
    ],
    [
      "crashed",
      { kind: "crashed", run: null, message: "gone" },
      { status: "crashed" },
      { code: "crashed", message: "gone" },
    ],
    [
      "cancelled",
      { kind: "cancelled", run: null, reason: "the sandbox closes" },
      { status: "cancelled" },
      { message: "the sandbox closes" },
    ],
  ])("%s", async (_what, end, outcome, payload) => {
    const { fixture, playing, give } = setUp();
    await give([1]);
    playing[0]?.end(end);
    await fixture.clock.settle();
    expect(fixture.outcomes.get(0)).toMatchObject(outcome);
    expect(fixture.outcomes.get(0)?.fatal).toBe((outcome as { fatal?: boolean }).fatal);
    expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject(payload);
  });

  test("2.23 a run that crashed is reported with its stats", async () => {
    const { fixture, playing, give } = setUp();
    await give([1]);
    playing[0]?.say({
      kind: "run_crashed",
      run: "one",
      message: "gone",
      stats: { durationMs: 7, memoryBytes: 9 },
    });
    playing[0]?.end({ kind: "crashed", run: "one", message: "gone" });
    await fixture.clock.settle();
    expect(fixture.of("run.crashed")).toMatchObject([
      { name: "one", index: 0, message: "gone", stats: { durationMs: 7, memoryBytes: 9 } },
    ]);
  });

  test("a state that is too large for a result is marked; it is whole in the journal, at its run", async () => {
    const { fixture, playing, give } = setUp();
    await give([1], { runs: RUNS.slice(0, 1) });
    const state = JSON.stringify("x".repeat(300_000));
    playing[0]?.say({ kind: "run_finished", run: "one", state, oversized: true, stats: STATS });
    playing[0]?.end({ kind: "done", state, oversized: true });
    await fixture.clock.settle();
    expect(fixture.of("run")).toMatchObject([{ oversized: true, state }]);
    expect(fixture.outcomes.get(0)).toEqual({ status: "done", payload: '{"oversized":true,"bytes":300002}' });
  });

  test("by the handler's own time limit kills it", async () => {
    const { fixture, playing, give } = setUp();
    await give([1], {}, { timeoutMs: 1_000 });
    await fixture.clock.advance("1s");
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "killed" });
    expect(playing[0]?.cancelled).toBe("ran longer than 1000 ms");
  });

  test.each(["cancel", "lost"] as const)("by %s stops the sandbox and hands it back", async (why) => {
    const { fixture, playing, give } = setUp();
    const grant = await give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], why);
    await fixture.clock.settle();
    expect(playing[0]?.cancelled).toBe(why === "cancel" ? "cancelled" : "lease lost");
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
    expect(fixture.of("receipts")).toHaveLength(1);
  });
});

describe("the sandbox", () => {
  test("does at most so many at a time, the rest waits, and code beside them does not", async () => {
    const { fixture, playing, counts, give } = setUp({ atOnce: 2 });
    fixture.worker.host("w", { use: "w.b", process: () => "quick" });
    await give([1, 2, 3, 4, 5]);
    expect(playing).toHaveLength(2);
    await fixture.give(["code"], { use: "w.b", handler: "b" });
    expect(fixture.of("receipts")).toMatchObject([{ handler: "b" }]);
    while (playing.some(({ cancelled }) => cancelled === null)) {
      const play = playing.find(({ cancelled }) => cancelled === null) as Playing;
      play.cancelled = "ended";
      play.end({ kind: "done", state: "0", oversized: false });
      await fixture.clock.settle();
    }
    expect(playing).toHaveLength(5);
    expect(counts.opened).toBe(1);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("that cannot be had fails attempts for good, with what to do; a later one tries again", async () => {
    const refusal = new RondoError(reject("not_ready", "scripts cannot run here", { hint: "allow it" }));
    let opened = 0;
    const open = async (): Promise<ScriptSandbox> => {
      opened++;
      throw refusal;
    };
    const { fixture, give } = setUp({ scripts: { open, atOnce: 2 } });
    await give([1]);
    await give([1]);
    expect(opened).toBe(2);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject({
      name: "ScriptsUnavailable",
      code: "not_ready",
      message: expect.stringContaining("scripts cannot run here"),
      hint: "allow it",
    });
  });

  test("is closed when the worker stops, after its attempts were handed back", async () => {
    const { fixture, playing, counts, give } = setUp();
    await give([1, 2, 3]);
    const stopped = fixture.worker.stop(1_000);
    await fixture.clock.advance("1s");
    await stopped;
    expect([...fixture.outcomes.values()].map(({ status }) => status)).toEqual([
      "cancelled",
      "cancelled",
      "cancelled",
    ]);
    expect(playing.map(({ cancelled }) => cancelled)).toEqual(["the worker stops", "the worker stops"]);
    expect(counts.closed).toBe(1);
  });

  test("a worker without one hands scripts back", async () => {
    const fixture = new WorkerFixture({});
    const script = { runs: RUNS, state: null, resume: true };
    await fixture.give([1], { do: "script", use: "~script", script });
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });
});
