// Why it waits: one sentence with the holder named, for every reason (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

function why(bench: NodeFixture, execution = "e1"): string {
  bench.settle();
  return bench.inspect(execution).why;
}

function started(definition: unknown, options: { serves?: string[]; capacity?: number } = {}): NodeFixture {
  const bench = new NodeFixture();
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

  test("no worker serves its handler any more, and since when", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.leave("w1");
    bench.settle();
    bench.sleep(90_000);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(why(bench)).toBe('"a" waits for a worker: none serves "w.a" now; the last one left 1 m 30 s ago.');
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

  test("a retry comes later, but others could run now", () => {
    const bench = started([tasks(4)], { serves: ["w.a"], capacity: 1 });
    bench.start(bench.plan([tasks(1)], "v"), "e2");
    bench.settle();
    bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 8_000 });
    expect(why(bench)).toBe('"a" waits with 4 tasks for room: the worker that serves it holds 1 of 1.');
  });

  test("its workers are full, enumeration or not", () => {
    const bench = started([tasks(2)], { serves: ["w.a", "w.b"], capacity: 1 });
    bench.join("w2", ["w.a", "w.b"], { capacity: 1 });
    bench.settle();
    bench.start(bench.plan([phase("b", { enumerate: { use: "w.b" } })], "v"), "e2");
    bench.settle();
    expect(why(bench, "e2")).toBe(
      '"b" waits with its enumeration for room: 2 workers that serve it hold 2 of 2.',
    );
  });

  test("its worker is told to leave and takes nothing more", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { local: false });
    bench.input({ kind: "worker-claims", worker: "w1", max: 0, why: "it is draining" });
    bench.start(bench.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    expect(why(bench)).toBe(
      '"a" waits for another worker: w1 serves it and takes nothing more (it is draining).',
    );
  });

  test("nothing is given out yet, and no number of tasks is made up for an enumeration", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { local: false });
    bench.start(bench.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    expect(why(bench)).toBe('"a" is about to give out its enumeration.');
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
    const bench = new NodeFixture();
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

  test("it keeps signals that nothing has read, also after its end", () => {
    const bench = started([{ name: "a", handlers: { a: { waitFor: "go" } } }]);
    for (const name of ["x", "x", "y"]) bench.signal("e1", name);
    bench.settle();
    expect(why(bench)).toBe(
      '"a" waits for the signal "go". It keeps 2 signals "x", 1 signal "y", which nothing has read.',
    );
    bench.signal("e1", "go");
    bench.settle();
    expect(why(bench)).toBe('It is done. Nothing has read 2 signals "x", 1 signal "y".');
  });

  test("attempts from before a restart may still run", () => {
    const bench = new NodeFixture({ suspectMs: 30_000 });
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

describe("tasks that wait by themselves:", () => {
  const suspended = (wait: object) =>
    ({ status: "suspended", wait }) as Parameters<NodeFixture["receipt"]>[1];

  test("for a signal", () => {
    const bench = started([tasks(2)], { serves: ["w.a"] });
    const [one, two] = bench.attempts() as [Attempt, Attempt];
    bench.receipt(one, suspended({ name: "go", signal: "go" }));
    expect(why(bench)).toBe('"a" runs 1 of 2 open tasks.');
    bench.receipt(two, suspended({ name: "go", signal: "go", timeoutMs: 5_000 }));
    expect(why(bench)).toBe('"a" waits: 2 tasks wait for a signal, such as "go".');
    bench.signal("e1", "go");
    bench.settle();
    bench.receipt(bench.attempts()[2] as Attempt);
    expect(why(bench)).toBe('"a" waits: 1 task waits for a signal, such as "go".');
  });

  test("for a time, the nearest", () => {
    const bench = started([tasks(2)], { serves: ["w.a"] });
    const [one, two] = bench.attempts() as [Attempt, Attempt];
    bench.receipt(one, suspended({ name: "nap", untilMs: bench.now + 60_000 }));
    bench.receipt(two, suspended({ name: "nap", untilMs: bench.now + 90_000 }));
    expect(why(bench)).toBe('"a" waits: 2 tasks sleep for another 1 m.');
    bench.sleep(60_000);
    bench.receipt(bench.attempts()[2] as Attempt);
    expect(why(bench)).toBe('"a" waits: 1 task sleeps for another 30 s.');
  });

  test("and nobody serves them by now: that is said only when their time has come", () => {
    const bench = started([phase("a")], { serves: ["w.a"] });
    bench.receipt(bench.attempts()[0] as Attempt, suspended({ name: "nap", untilMs: bench.now + 60_000 }));
    bench.settle();
    bench.leave("w1");
    expect(why(bench)).toBe('"a" waits: 1 task sleeps for another 1 m.');
    bench.sleep(60_000);
    expect(why(bench)).toBe('"a" waits for a worker: none serves "w.a" now; the last one left 1 m ago.');
  });
});

describe("children:", () => {
  const kid = (more: object = {}) => ({ name: "c", handlers: { c: { workflow: "kid", ...more } } });
  const family = (definition: object, serves: string[] = []): NodeFixture => {
    const bench = new NodeFixture();
    bench.plan([phase("b", { retry: { attempts: 1 } })], "kid");
    if (serves.length > 0) bench.join("w1", serves);
    bench.start(bench.plan([definition]), "e1");
    bench.settle();
    return bench;
  };
  const childOf = (bench: NodeFixture) => bench.events("e1", "child.started")[0]?.child ?? "";

  test("it waits for them, and names one", () => {
    const one = family(kid());
    expect(why(one)).toBe(`"c" waits for 1 child, such as ${childOf(one)}.`);
    expect(why(one, childOf(one))).toBe('"b" waits for a worker: none serves "w.b" now.');
    const many = family(kid({ tasks: [1, 2, 3], concurrency: 2 }));
    expect(why(many)).toBe(`"c" waits for 2 children, such as ${childOf(many)}.`);
  });

  test("one is tried again later", () => {
    const bench = family(kid({ retry: { backoff: "constant", min: "1h", max: "1h" } }), ["w.b"]);
    bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", payload: "{}" });
    expect(why(bench)).toMatch(
      /^"c" tries again in [0-9. a-z]+: 1 task failed before \(ChildFailed: child e1~[0-9a-f]+ failed: failed\)\.$/,
    );
  });

  test("their workflow is not there", () => {
    const bench = started([kid()]);
    expect(why(bench)).toBe('"c" waits for a workflow: there is none with the name "kid".');
  });

  test("nobody lists them", () => {
    const bench = family(kid({ enumerate: { use: "list" } }));
    expect(why(bench)).toBe('"c" waits for a worker: none serves "list" now.');
    bench.join("w1", ["list"]);
    expect(why(bench)).toBe('"c": its enumeration runs and is not sealed; 0 tasks so far.');
  });

  test("they must end before the cancel, or the failure, is through", () => {
    const cancelled = family(kid(), ["w.b"]);
    cancelled.control("cancel", "e1");
    expect(why(cancelled)).toBe("It is being cancelled by ann: 1 open child must still end.");
    const handlers = { c: { workflow: "kid", tasks: [1, 2] }, d: { use: "d", retry: { attempts: 1 } } };
    const failing = family({ name: "c", handlers }, ["w.b", "d"]);
    const own = failing.attempts().find(({ grant }) => grant.use === "d") as Attempt;
    failing.receipt(own, { status: "failed", payload: "{}" });
    expect(why(failing)).toBe('Phase "c" is failing: 2 open children must still end.');
    const both = { c: { workflow: "kid" }, d: { use: "d", tasks: [1, 2], retry: { attempts: 1 } } };
    const two = family({ name: "c", handlers: both }, ["w.b", "d"]);
    const [first] = two.attempts().filter(({ grant }) => grant.use === "d");
    two.receipt(first as Attempt, { status: "failed", payload: "{}" });
    expect(why(two)).toBe('Phase "c" is failing: 1 open attempt and 1 open child must still end.');
  });
});

describe("limits:", () => {
  test("a rate, and when the next start is allowed", () => {
    const bench = started([tasks(5, { rate: { limit: 2, per: "1m" } })], { serves: ["w.a"] });
    bench.sleep(20_000);
    expect(why(bench)).toBe('"a" runs 2; 3 more wait 40 s because of the rate of 2 in 1 m.');
  });

  test("a project's", () => {
    const bench = new NodeFixture({ projects: { acme: { concurrency: 1 } } });
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(2)]), "e1", { project: "acme" });
    bench.start(bench.plan([tasks(1)], "other"), "e2", { project: "acme" });
    expect(why(bench)).toBe('"a" runs 1; 1 more wait because the project "acme" holds 1 of 1.');
    expect(why(bench, "e2")).toBe('"a" runs 0; 1 more wait because the project "acme" holds 1 of 1.');
  });

  test("one that a former owner's attempts may still hold", () => {
    const bench = new NodeFixture({ suspectMs: 30_000 });
    bench.plan([phase("a")]);
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(2, { concurrency: 1 })]), "e1");
    expect(why(bench)).toBe(
      '"a" waits 30 s for attempts that may still hold "w.a" since before the restart.',
    );
    bench.sleep(60_000);
    expect(why(bench)).toBe('"a" runs 1; 1 more wait because "w.a" holds 1 of 1.');
  });
});

test("nobody runs scripts", () => {
  const script = [{ name: "r", expression: "s => s" }];
  const bench = started([{ name: "a", handlers: { a: { script } } }]);
  expect(why(bench)).toBe('"a" waits for a worker: none serves scripts now.');
});

test("nobody serves the version, and which there are", () => {
  const bench = new NodeFixture();
  bench.join("w1", [{ use: "w.a" }, { use: "w.a", version: "1.0.0" }]);
  bench.start(bench.plan([phase("a", { version: "^2" })]), "e1");
  expect(why(bench)).toBe(
    '"a" waits for a worker: none serves "w.a" in a version that fits "^2" (there are one without a version, 1.0.0) now.',
  );
});
