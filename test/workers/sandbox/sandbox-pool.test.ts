// The sandbox by its behaviour: runs in order, states, logs, limits, ends, children and their reuse.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { SandboxPool } from "../../../src/worker/sandbox/sandbox-pool.ts";
import type { ScriptEvent } from "../../../src/worker/sandbox/script-attempt.ts";
import { attemptOf, runToEnd, testPool } from "../../fixtures/workers/sandbox-fixture.ts";

let pool: SandboxPool;
beforeAll(async () => {
  pool = await testPool();
});

const done = (state: unknown) => ({ kind: "done", state: JSON.stringify(state), oversized: false });

describe("a state that cannot be stored", () => {
  test.each([
    ["s => ({ a: [1, NaN] })", "state.a[1] is NaN, which cannot be stored"],
    ["s => -Infinity", "state is -Infinity, which cannot be stored"],
    ["s => ({ rows: new Map() })", "state.rows is a Map, which cannot be stored"],
    ["s => [new (class Order {})()]", "state[0] is an Order, which cannot be stored"],
    ["s => [1, undefined]", "state[1] is undefined in an array, which cannot be stored"],
    ["s => ({ n: 10n })", "state.n is a BigInt, which cannot be stored"],
    ["s => ({ f() {} })", "state.f is a function, which cannot be stored"],
    ["s => { const a = {}; a.a = a; return a }", "state.a is a cycle, which cannot be stored"],
  ])("is refused with its path, as a handler's is: %s", async (expression, message) => {
    const { end } = await runToEnd(pool, attemptOf([expression, "s => 'never'"]));
    expect(end).toEqual({ kind: "failed", run: "one", error: { name: "NotStorable", message }, fatal: true });
  });

  test("is refused before its text is made, however deep it is", async () => {
    const expression =
      "s => { let deep = 1; for (let i = 0; i < 100000; i++) deep = { a: deep }; return deep }";
    const { end } = await runToEnd(pool, attemptOf([expression]));
    const message = expect.stringMatching(/^state\.a.* is nested deeper than 100 levels$/);
    expect(end).toMatchObject({ kind: "failed", error: { name: "NotStorable", message }, fatal: true });
  });

  test("what a handler may give, a script may: -0 is 0, a missing value is left out, toJSON is applied", async () => {
    const expression = "s => ({ zero: -0, gone: undefined, at: new Date(0), bare: Object.create(null) })";
    const { end } = await runToEnd(pool, attemptOf([expression]));
    expect(end).toEqual(done({ zero: 0, at: "1970-01-01T00:00:00.000Z", bare: {} }));
  });
});

test("a promise that nothing can settle fails its run at once", async () => {
  const { end } = await runToEnd(pool, attemptOf(["() => new Promise(() => {})", "s => 'never'"]));
  const message = "run one waits for a promise that nothing can settle any more";
  expect(end).toEqual({ kind: "failed", run: "one", error: { name: "NeverSettles", message }, fatal: true });
});

describe("runs", () => {
  test("are done in order, each with the state of the one before", async () => {
    const { end, events } = await runToEnd(
      pool,
      attemptOf(
        ["s => ({ n: s.n + 1 })", "async s => ({ n: s.n * 10 })", "function last(s) { return s.n }"],
        {
          state: '{"n":1}',
        },
      ),
    );
    expect(end).toEqual(done(20));
    expect(events.map((event) => `${event.kind} ${event.run}`)).toEqual(
      ["one", "two", "three"].flatMap((run) => [`run_started ${run}`, `run_finished ${run}`]),
    );
    const finished = events.filter((event) => event.kind === "run_finished");
    expect(finished.map(({ state }) => state)).toEqual(['{"n":2}', '{"n":20}', "20"]);
    for (const { stats } of finished) {
      expect(stats.durationMs).toBeGreaterThan(0);
      expect(stats.memoryBytes).toBeGreaterThan(10_000);
    }
  });

  test("get the input, the attempt and their own name", async () => {
    const attempt = attemptOf(["(s, ctx) => ctx"], { input: '{"a":[1]}', attempt: 3 });
    expect((await runToEnd(pool, attempt)).end).toEqual(done({ input: { a: [1] }, attempt: 3, run: "one" }));
  });

  test("may have statements before the function, and share nothing but the state", async () => {
    const first = "globalThis.leak = 1; const k = 2; s => { Array.prototype.leak = 1; return k }";
    const { end } = await runToEnd(
      pool,
      attemptOf([first, "const k = 3; s => [s * k, typeof leak, [].leak === undefined]"]),
    );
    expect(end).toEqual(done([6, "undefined", true]));
    const again = await runToEnd(pool, attemptOf(["s => [typeof leak, [].leak === undefined]"]));
    expect(again.end).toEqual(done(["undefined", true]));
  });

  test("go on after the last finished one", async () => {
    const attempt = attemptOf(["s => 'never'", "s => 'never'", "s => s + 1"], { finished: 2, state: "41" });
    const { end, events } = await runToEnd(pool, attempt);
    expect(end).toEqual(done(42));
    expect(events.map(({ run }) => run)).toEqual(["three", "three"]);
    const all = attemptOf(["s => 'never'"], { finished: 1, state: "7" });
    expect((await runToEnd(pool, all)).end).toEqual(done(7));
  });

  test("without a value leave null", async () => {
    expect((await runToEnd(pool, attemptOf(["() => {}"]))).end).toEqual(done(null));
  });

  test("with a state over the limit are marked, and the next gets it whole", async () => {
    const { end, events } = await runToEnd(pool, attemptOf(["() => 'x'.repeat(300000)", "s => s.length"]));
    expect(end).toEqual(done(300_000));
    const marks = events.flatMap((event) => (event.kind === "run_finished" ? [event.oversized] : []));
    expect(marks).toEqual([true, false]);
  });

  test.each([
    ["too large", "() => 'x'.repeat(9e6)"],
    ["too large only in UTF-8", "() => '\\u20ac'.repeat(3e6)"],
    ["too deep", "() => { let a = []; for (let i = 0; i < 200; i++) a = [a]; return a }"],
    ["a function", "() => () => 1"],
    ["a lone surrogate", "() => '\\ud800'"],
  ])("with a state that is %s fail for good", async (_what, expression) => {
    const { end } = await runToEnd(pool, attemptOf([expression, "s => 'never'"]));
    expect(end).toMatchObject({ kind: "failed", run: "one", fatal: true, error: { name: "NotStorable" } });
    expect((await runToEnd(pool, attemptOf(["s => 1"]))).end).toEqual(done(1));
  });
});

describe("logs", () => {
  test("come in order, with their level, while the run goes on", async () => {
    const seen: ScriptEvent[] = [];
    const running = pool.run(
      attemptOf(
        [
          "s => { console.log('a', 1, { b: 2 }); console.warn('c'); console.error(new Error('d')); for (;;); }",
        ],
        {
          timeoutMs: 60_000,
        },
      ),
      (event) => {
        seen.push(event);
        if (event.kind === "log" && event.level === "error") running.cancel("seen");
      },
    );
    expect(await running.done).toEqual({ kind: "cancelled", run: "one", reason: "seen" });
    expect(seen.slice(1)).toEqual([
      { kind: "log", run: "one", level: "info", text: 'a 1 {"b":2}' },
      { kind: "log", run: "one", level: "warn", text: "c" },
      {
        kind: "log",
        run: "one",
        level: "error",
        text: expect.stringMatching(/^Error: d\n.*one\.js:1/s) as string,
      },
    ]);
  });

  test("are cut at 8 KiB with a notice, and the next line is whole", async () => {
    const source =
      "s => { console.log('x'.repeat(20000)); console.log('\\u20ac'.repeat(5000)); console.log('z') }";
    const { events } = await runToEnd(pool, attemptOf([source]));
    const texts = events.flatMap((event) => (event.kind === "log" ? [event.text] : []));
    expect(texts[0]).toMatch(/^x{8000,} \[cut: the line has 20000 characters\]$/);
    expect(texts[1]).toMatch(/^€{2000,} \[cut: the line has 5000 characters\]$/);
    expect(texts.map((text) => Buffer.byteLength(text) <= 8_192)).toEqual([true, true, true]);
    expect(texts[2]).toBe("z");
  });

  test("end with a notice when there are too many", async () => {
    const pool = await testPool({ limits: { logLines: 100 } });
    const { end, events } = await runToEnd(
      pool,
      attemptOf(["s => { for (let i = 0; i < 1e4; i++) console.log(i); return 1 }"]),
    );
    expect(end).toEqual(done(1));
    const texts = events.flatMap((event) => (event.kind === "log" ? [event.text] : []));
    expect(texts).toHaveLength(101);
    expect(texts[100]).toContain("logs end here");
  });
});

describe("an attempt (C10)", () => {
  test.each([
    [
      "a syntax error",
      "s => {\n return s +; }",
      { kind: "failed", fatal: true, error: { name: "SyntaxError", line: 2 } },
    ],
    [
      "process.exit()",
      "s => process.exit()",
      { kind: "failed", fatal: false, error: { message: "process is not defined" } },
    ],
    [
      "an error",
      "s => {\n\n throw new RangeError('no') }",
      { kind: "failed", error: { name: "RangeError", message: "no", line: 3 } },
    ],
    ["no function", "42", { kind: "failed", fatal: true }],
    ["no end", "s => { for (;;); }", { kind: "killed", limit: "time" }],
    ["a promise that nothing settles", "s => new Promise(() => {})", { kind: "failed", fatal: true }],
    ["too much memory", "s => 'x'.repeat(2 ** 28)", { kind: "killed", limit: "memory" }],
  ])("with %s ends so, and the next one succeeds", async (_what, expression, expected) => {
    // Whatever else ends it may take its time.
    const timeoutMs = "limit" in expected && expected.limit === "time" ? 500 : 60_000;
    expect((await runToEnd(pool, attemptOf([expression], { timeoutMs }))).end).toMatchObject(expected);
    expect((await runToEnd(pool, attemptOf(["s => 'fine'"]))).end).toEqual(done("fine"));
  });

  test("whose process is killed is crashed, and the next one succeeds in a new process", async () => {
    const running = pool.run(
      attemptOf(["s => { console.log('in'); for (;;); }"], { timeoutMs: 60_000 }),
      (event) => {
        if (event.kind === "log") process.kill(-Number(pool.children[0]?.pid), "SIGKILL");
        else if (event.kind === "run_crashed") crashed.push(event.run);
      },
    );
    const crashed: string[] = [];
    expect(await running.done).toMatchObject({ kind: "crashed", run: "one" });
    expect(crashed).toEqual(["one"]);
    expect((await runToEnd(pool, attemptOf(["s => 1"]))).end).toEqual(done(1));
  });

  test("whose process hangs is killed by the parent's own clock", async () => {
    const running = pool.run(
      attemptOf(["s => { console.log('in'); for (;;); }"], { timeoutMs: 300 }),
      (event) => {
        if (event.kind === "log") process.kill(-Number(pool.children[0]?.pid), "SIGSTOP");
      },
    );
    expect(await running.done).toMatchObject({ kind: "killed", limit: "time" });
    expect((await runToEnd(pool, attemptOf(["s => 1"]))).end).toEqual(done(1));
  });

  test("can be cancelled while it runs, while it waits and after it ended", async () => {
    const running = pool.run(attemptOf(["s => { for (;;); }"], { timeoutMs: 60_000 }), () => {});
    const waiting = pool.run(attemptOf(["s => 'never'"]), () => {});
    waiting.cancel("not wanted");
    expect(await waiting.done).toEqual({ kind: "cancelled", run: null, reason: "not wanted" });
    running.cancel("enough");
    expect(await running.done).toMatchObject({ kind: "cancelled", reason: "enough" });
    const last = pool.run(attemptOf(["s => 1"]), () => {});
    expect(await last.done).toEqual(done(1));
    last.cancel("too late");
    expect(pool.children).toMatchObject([{ isIdle: true }]);
  });
});

describe("children", () => {
  test("are used again after done and failed, and not after killed", async () => {
    const pidAfter = async (expression: string): Promise<number | undefined> => {
      await runToEnd(pool, attemptOf([expression], { timeoutMs: expression.includes("for") ? 200 : 20_000 }));
      return pool.children[0]?.pid;
    };
    const first = await pidAfter("s => 1");
    expect(await pidAfter("s => { throw 1 }")).toBe(first);
    expect(await pidAfter("s => { for (;;); }")).toBe(undefined);
    expect(await pidAfter("s => 1")).not.toBe(first);
  });

  test("never serve two projects", async () => {
    const pool = await testPool({ childrenMax: 2 });
    const pids = new Map<number, Set<string>>();
    const projects = ["a", "b", "a", "c", "b", "a", "c", "c", "a"];
    await Promise.all(
      projects.map(async (project) => {
        const running = pool.run(attemptOf(["s => { console.log(1) }"], { project }), () => {
          for (const child of pool.children) {
            const served = pids.get(child.pid ?? 0) ?? new Set();
            pids.set(child.pid ?? 0, served.add(child.project));
          }
          expect(pool.children.length).toBeLessThanOrEqual(2);
        });
        expect((await running.done).kind).toBe("done");
      }),
    );
    expect([...pids.values()].every((served) => served.size === 1)).toBe(true);
    expect(pids.size).toBeGreaterThanOrEqual(3);
  });

  test("are replaced after so many attempts, and leave no folder behind", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rondo-test-"));
    vi.stubEnv("TMPDIR", folder);
    const pool = await testPool({ attemptsPerChild: 2 });
    const seen = new Set<number | undefined>();
    for (let i = 0; i < 5; i++) {
      await pool.run(attemptOf(["s => 1"]), () => seen.add(pool.children[0]?.pid)).done;
    }
    expect(seen.size).toBe(3);
    await pool.close();
    expect(readdirSync(folder)).toEqual([]);
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  test("keep their memory flat over 200 attempts", async () => {
    const source = "s => { const a = []; for (let i = 0; i < 1e4; i++) a.push({ i }); return a.length }";
    const sizes: number[] = [];
    for (let i = 0; i < 200; i++) {
      expect((await runToEnd(pool, attemptOf([source]))).end).toEqual(done(1e4));
      sizes.push(pool.children[0]?.residentBytes ?? 0);
    }
    const pids = new Set(pool.children.map(({ pid }) => pid));
    expect(pids.size).toBe(1);
    const late = Math.max(...sizes.slice(150));
    expect(late).toBeLessThan(Math.max(...sizes.slice(0, 50)) + 32 * 1_048_576);
  });
});
