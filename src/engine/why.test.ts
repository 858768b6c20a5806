// Why it waits: one sentence with the holder named, for every reason (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeBench } from "../../test/conformance/node-bench.ts";
import { phase } from "../../test/scenarios/kernel-run.ts";

function why(bench: NodeBench, execution = "e1"): string {
  bench.settle();
  return bench.inspect(execution).why;
}

function started(definition: unknown, options: { serves?: string[]; capacity?: number } = {}): NodeBench {
  const bench = new NodeBench();
  if (options.serves) bench.join("w1", options.serves, { capacity: options.capacity ?? 10 });
  bench.start(bench.plan(definition), "e1");
  bench.settle();
  return bench;
}

const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

describe("an execution says why it waits:", () => {
  test("no worker serves its handler", () => {
    expect(why(started([phase("a")]))).toBe('"a" waits for a worker: none serves "w.a" now.');
  });

  test("no worker serves its enumerator, which has another name", () => {
    const bench = started([phase("a", { enumerate: { use: "lister" } })], { serves: ["w.a"] });
    expect(why(bench)).toBe('"a" waits for a worker: none serves "lister" now.');
  });

  test("a handler of several is named", () => {
    const handlers = { x: { use: "x" }, y: { use: "y" } };
    const bench = started([{ name: "a", handlers }], { serves: ["x"] });
    expect(why(bench)).toContain('"a"/"y" waits for a worker: none serves "y" now.');
  });

  test("its tasks run", () => {
    const bench = started([tasks(5)], { serves: ["w.a"], capacity: 2 });
    expect(why(bench)).toBe('"a" runs 2 of 5 open tasks.');
  });

  test("its enumeration runs and is not sealed", () => {
    const bench = started([phase("a", { enumerate: { use: "w.a" } })], { serves: ["w.a"] });
    expect(why(bench)).toBe('"a": its enumeration runs and is not sealed; 0 tasks so far.');
    bench.page(bench.attempts()[0] as Attempt, 0, ["x", "y"]);
    bench.settle();
    expect(why(bench)).toBe('"a" runs 2 of 2 open tasks; its enumeration is not sealed.');
  });

  test("a limit is full, and who holds it", () => {
    const bench = started([tasks(5, { concurrency: 2 })], { serves: ["w.a"] });
    expect(why(bench)).toBe('"a" runs 2; 3 more wait because "w.a" holds 2 of 2.');
    bench.start(bench.plan([tasks(1, { concurrency: 2 })], "v"), "e2");
    bench.settle();
    expect(why(bench, "e2")).toBe('"a" runs 0; 1 more wait because "w.a" holds 2 of 2.');
  });

  test("a key is full, and which", () => {
    const bench = started([phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 })], {
      serves: ["w.a"],
    });
    bench.page(bench.attempts()[0] as Attempt, 0, [1, 2, 3], ["acme", "acme", "acme"]);
    bench.settle();
    expect(why(bench)).toBe('"a" runs 1; 2 wait because the key "acme" holds 1 of 1.');
  });

  test("a retry comes later", () => {
    const bench = started([tasks(2)], { serves: ["w.a"] });
    for (const attempt of bench.attempts())
      bench.receipt(attempt, { status: "failed", payload: "{}", retryAfterMs: 8_000 });
    bench.settle();
    expect(why(bench)).toBe('"a" tries again in 8 s: 2 tasks failed before.');
    bench.sleep(5_000);
    expect(why(bench)).toBe('"a" tries again in 3 s: 2 tasks failed before.');
  });

  test("an enumeration is tried again later", () => {
    const bench = started([phase("a", { enumerate: { use: "w.a" } })], { serves: ["w.a"] });
    bench.seal(bench.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 60_000 });
    bench.settle();
    expect(why(bench)).toBe('"a" tries again in 1 m: its enumeration failed before.');
  });

  test("it sleeps", () => {
    const bench = started([{ name: "nap", handlers: { nap: { sleep: "10m" } } }]);
    expect(why(bench)).toBe('"nap" sleeps for another 10 m.');
    bench.sleep(30_000);
    expect(why(bench)).toBe('"nap" sleeps for another 9 m 30 s.');
  });

  test("it waits for a signal", () => {
    const wait = (more: object) => [{ name: "a", handlers: { a: { waitFor: "go", ...more } } }];
    expect(why(started(wait({})))).toBe('"a" waits for the signal "go".');
    expect(why(started(wait({ timeout: "2d" })))).toBe(
      '"a" waits for the signal "go", for another 2 d at most.',
    );
  });

  test("it is paused, by whom and why", () => {
    const bench = started([phase("a")]);
    bench.request({ execution: "e1", message: { kind: "pause", id: "p", by: "ann", reason: "deploy" } });
    expect(why(bench)).toBe("It is paused by ann (deploy); resume it to go on.");
  });

  test("it starts later", () => {
    const bench = new NodeBench();
    bench.start(bench.plan([phase("a")]), "e1", { startAt: bench.now + 90_000 });
    bench.settle();
    expect(why(bench)).toBe("It starts in 1 m 30 s.");
  });

  test("it is being cancelled, or it is failing", () => {
    const cancelled = started([tasks(3)], { serves: ["w.a"], capacity: 2 });
    cancelled.control("cancel", "e1");
    expect(why(cancelled)).toBe("It is being cancelled by ann: 2 open attempts must still end.");
    const failing = started([tasks(3)], { serves: ["w.a"], capacity: 2 });
    failing.receipt(failing.attempts()[0] as Attempt, { status: "failed", payload: "{}", fatal: true });
    expect(why(failing)).toBe('Phase "a" is failing: 1 open attempt must still end.');
  });

  test("it is over", () => {
    const done = started([{ name: "a" }]);
    expect(why(done)).toBe("It is done.");
    const failed = started([phase("a")], { serves: ["w.a"] });
    const error = JSON.stringify({ name: "Error", message: "boom" });
    failed.receipt(failed.attempts()[0] as Attempt, { status: "failed", payload: error, fatal: true });
    expect(why(failed)).toBe("It is failed: boom.");
  });

  test("attempts from before a restart may still run", () => {
    const bench = new NodeBench({ suspectMs: 30_000 });
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 5);
    bench.start(bench.plan([tasks(2)]), "e1");
    bench.settle();
    bench.restart();
    expect(why(bench)).toBe('"a" waits 30 s for attempts that may still run since before the restart.');
  });

  test("nothing is stored by asking", () => {
    const bench = started([phase("a")]);
    const before = bench.of("commit").length;
    why(bench);
    expect(bench.of("commit")).toHaveLength(before);
  });
});
