// Why it waits: one sentence with the holder named, for every reason (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

function why(fixture: NodeFixture, execution = "e1"): string {
  fixture.settle();
  return fixture.inspect(execution).why;
}

function started(definition: unknown, options: { serves?: string[]; capacity?: number } = {}): NodeFixture {
  const fixture = new NodeFixture();
  if (options.serves) fixture.join("w1", options.serves, { capacity: options.capacity ?? 10 });
  fixture.start(fixture.plan(definition), "e1");
  fixture.settle();
  return fixture;
}

const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

describe("an execution says why it waits:", () => {
  test("no worker serves its handler", () => {
    expect(why(started([phase("a")]))).toBe('"a" waits for a worker: none serves "w.a" now.');
  });

  test("no worker serves its handler any more, and since when", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.leave("w1");
    fixture.settle();
    fixture.sleep(90_000);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(why(fixture)).toBe(
      '"a" waits for a worker: none serves "w.a" now; the last one left 1 m 30 s ago.',
    );
  });

  test("no worker serves its enumerator, which has another name", () => {
    const fixture = started([phase("a", { enumerate: { use: "lister" } })], { serves: ["w.a"] });
    expect(why(fixture)).toBe('"a" waits for a worker: none serves "lister" now.');
  });

  test("a handler of several is named", () => {
    const handlers = { x: { use: "x" }, y: { use: "y" } };
    const fixture = started([{ name: "a", handlers }], { serves: ["x"] });
    expect(why(fixture)).toContain('"a"/"y" waits for a worker: none serves "y" now.');
  });

  test("its tasks run", () => {
    const fixture = started([tasks(5)], { serves: ["w.a"], capacity: 2 });
    expect(why(fixture)).toBe('"a" runs 2 of 5 open tasks.');
  });

  test("its enumeration runs and is not sealed", () => {
    const fixture = started([phase("a", { enumerate: { use: "w.a" } })], { serves: ["w.a"] });
    expect(why(fixture)).toBe('"a": its enumeration is still running; 0 tasks so far.');
    fixture.page(fixture.attempts()[0] as Attempt, 0, ["x", "y"]);
    fixture.settle();
    expect(why(fixture)).toBe('"a" runs 2 of 2 open tasks; its enumeration has not ended.');
  });

  test("a limit is full, and who holds it", () => {
    const fixture = started([tasks(5, { concurrency: 2 })], { serves: ["w.a"] });
    expect(why(fixture)).toBe(
      '"a" runs 2; 3 more wait because the limit of "w.a" is reached: 2 of 2 in use.',
    );
    fixture.start(fixture.plan([tasks(1, { concurrency: 2 })], "v"), "e2");
    fixture.settle();
    expect(why(fixture, "e2")).toBe(
      '"a" runs 0; 1 more wait because the limit of "w.a" is reached: 2 of 2 in use.',
    );
  });

  test("a key is full, and which", () => {
    const fixture = started([phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 })], {
      serves: ["w.a"],
    });
    fixture.page(fixture.attempts()[0] as Attempt, 0, [1, 2, 3], ["acme", "acme", "acme"]);
    fixture.settle();
    expect(why(fixture)).toBe(
      '"a" runs 1; 2 wait because the limit of the key "acme" is reached: 1 of 1 in use.',
    );
  });

  test("a retry comes later", () => {
    const fixture = started([tasks(2)], { serves: ["w.a"] });
    for (const attempt of fixture.attempts())
      fixture.receipt(attempt, { status: "failed", payload: "{}", retryAfterMs: 8_000 });
    fixture.settle();
    expect(why(fixture)).toBe('"a" tries again in 8 s: 2 tasks failed before.');
    fixture.sleep(5_000);
    expect(why(fixture)).toBe('"a" tries again in 3 s: 2 tasks failed before.');
  });

  test("a retry comes later, but others could run now", () => {
    const fixture = started([tasks(4)], { serves: ["w.a"], capacity: 1 });
    fixture.start(fixture.plan([tasks(1)], "v"), "e2");
    fixture.settle();
    fixture.receipt(fixture.attempts()[0] as Attempt, {
      status: "failed",
      payload: "{}",
      retryAfterMs: 8_000,
    });
    expect(why(fixture)).toBe(
      '"a" waits with 4 tasks for a free worker: the worker that serves it holds 1 of 1.',
    );
  });

  test("its workers are full, enumeration or not", () => {
    const fixture = started([tasks(2)], { serves: ["w.a", "w.b"], capacity: 1 });
    fixture.join("w2", ["w.a", "w.b"], { capacity: 1 });
    fixture.settle();
    fixture.start(fixture.plan([phase("b", { enumerate: { use: "w.b" } })], "v"), "e2");
    fixture.settle();
    expect(why(fixture, "e2")).toBe(
      '"b" waits with its enumeration for a free worker: 2 workers that serve it hold 2 of 2.',
    );
  });

  test("its worker is told to leave and takes nothing more", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { local: false });
    fixture.input({ kind: "worker-claims", worker: "w1", max: 0, why: "it is draining" });
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    expect(why(fixture)).toBe(
      '"a" waits for another worker: w1 serves it and takes nothing more (it is draining).',
    );
  });

  test("nothing is given out yet, and no number of tasks is made up for an enumeration", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { local: false });
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    expect(why(fixture)).toBe('"a" is about to give out its enumeration.');
  });

  test("an enumeration is tried again later", () => {
    const fixture = started([phase("a", { enumerate: { use: "w.a" } })], { serves: ["w.a"] });
    fixture.seal(fixture.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 60_000 });
    fixture.settle();
    expect(why(fixture)).toBe('"a" tries again in 1 m: its enumeration failed before.');
  });

  test("it sleeps", () => {
    const fixture = started([{ name: "nap", handlers: { nap: { sleep: "10m" } } }]);
    expect(why(fixture)).toBe('"nap" sleeps for another 10 m.');
    fixture.sleep(30_000);
    expect(why(fixture)).toBe('"nap" sleeps for another 9 m 30 s.');
  });

  test("it waits for a signal", () => {
    const wait = (more: object) => [{ name: "a", handlers: { a: { waitFor: "go", ...more } } }];
    expect(why(started(wait({})))).toBe('"a" waits for the signal "go".');
    expect(why(started(wait({ timeout: "2d" })))).toBe(
      '"a" waits for the signal "go", for another 2 d at most.',
    );
  });

  test("it is paused, by whom and why", () => {
    const fixture = started([phase("a")]);
    fixture.request({ execution: "e1", message: { kind: "pause", id: "p", by: "ann", reason: "deploy" } });
    expect(why(fixture)).toBe("It is paused by ann (deploy); resume it to go on.");
  });

  test("it starts later", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([phase("a")]), "e1", { startAt: fixture.now + 90_000 });
    fixture.settle();
    expect(why(fixture)).toBe("It starts in 1 m 30 s.");
  });

  test("it is being cancelled, or it is failing", () => {
    const cancelled = started([tasks(3)], { serves: ["w.a"], capacity: 2 });
    cancelled.control("cancel", "e1");
    expect(why(cancelled)).toBe("It is being cancelled by ann: 2 open attempts must still end.");
    const failing = started([tasks(3)], { serves: ["w.a"], capacity: 2 });
    failing.receipt(failing.attempts()[0] as Attempt, { status: "failed", payload: "{}", fatal: true });
    expect(why(failing)).toBe('Phase "a" is failing: 1 open attempt must still end.');
  });

  test("it is over, and its clean-up was left out or failed", () => {
    const trip = {
      name: "trip",
      phases: [phase("book", { tasks: [1, 2], compensate: { use: "undo" } }), phase("tell"), phase("close")],
      onCancel: "tell",
      finally: "close",
    };
    const left = started(trip, { serves: ["w.book", "undo"] });
    const [first, second] = left.attempts() as [Attempt, Attempt];
    left.receipt(first, { status: "done", payload: "1" });
    left.control("cancel", "e1");
    left.settle();
    left.receipt(second, { status: "cancelled", payload: "null" });
    left.settle();
    const [undone, undo] = left.attempts().slice(2) as [Attempt, Attempt];
    left.receipt(undone, { status: "failed", payload: '{"message":"no"}', fatal: true });
    left.settle();
    const message = { kind: "cancel", id: "forced", by: "ann", reason: null, force: true } as const;
    left.request({ execution: "e1", message });
    left.settle();
    left.receipt(undo, { status: "cancelled", payload: "null" });
    expect(why(left)).toBe(
      'It is cancelled: cancelled by ann. Its clean-up is not complete: 1 task of "book~compensate" did not run, ' +
        '1 task of "book~compensate" failed, "tell" did not run, "close" did not run. To run it: rondo retry e1.',
    );
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
    const fixture = started([{ name: "a", handlers: { a: { waitFor: "go" } } }]);
    for (const name of ["x", "x", "y"]) fixture.signal("e1", name);
    fixture.settle();
    expect(why(fixture)).toBe(
      '"a" waits for the signal "go". It keeps 2 signals "x", 1 signal "y", which nothing has read.',
    );
    fixture.signal("e1", "go");
    fixture.settle();
    expect(why(fixture)).toBe('It is done. Nothing has read 2 signals "x", 1 signal "y".');
  });

  test("attempts from before a restart may still run", () => {
    const fixture = new NodeFixture({ suspectMs: 30_000 });
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 5);
    fixture.start(fixture.plan([tasks(2)]), "e1");
    fixture.settle();
    fixture.restart();
    expect(why(fixture)).toBe('"a" waits 30 s for attempts that may still run since before the restart.');
  });

  test("nothing is stored by asking", () => {
    const fixture = started([phase("a")]);
    const before = fixture.of("commit").length;
    why(fixture);
    expect(fixture.of("commit")).toHaveLength(before);
  });
});

describe("tasks that wait by themselves:", () => {
  const suspended = (wait: object) =>
    ({ status: "suspended", wait }) as Parameters<NodeFixture["receipt"]>[1];

  test("for a signal", () => {
    const fixture = started([tasks(2)], { serves: ["w.a"] });
    const [one, two] = fixture.attempts() as [Attempt, Attempt];
    fixture.receipt(one, suspended({ name: "go", signal: "go" }));
    expect(why(fixture)).toBe('"a" runs 1 of 2 open tasks.');
    fixture.receipt(two, suspended({ name: "go", signal: "go", timeoutMs: 5_000 }));
    expect(why(fixture)).toBe('"a" waits: 2 tasks wait for a signal, such as "go".');
    fixture.signal("e1", "go");
    fixture.settle();
    fixture.receipt(fixture.attempts()[2] as Attempt);
    expect(why(fixture)).toBe('"a" waits: 1 task waits for a signal, such as "go".');
  });

  test("for a time, the nearest", () => {
    const fixture = started([tasks(2)], { serves: ["w.a"] });
    const [one, two] = fixture.attempts() as [Attempt, Attempt];
    fixture.receipt(one, suspended({ name: "nap", untilMs: fixture.now + 60_000 }));
    fixture.receipt(two, suspended({ name: "nap", untilMs: fixture.now + 90_000 }));
    expect(why(fixture)).toBe('"a" waits: 2 tasks sleep for another 1 m.');
    fixture.sleep(60_000);
    fixture.receipt(fixture.attempts()[2] as Attempt);
    expect(why(fixture)).toBe('"a" waits: 1 task sleeps for another 30 s.');
  });

  test("and nobody serves them by now: that is said only when their time has come", () => {
    const fixture = started([phase("a")], { serves: ["w.a"] });
    fixture.receipt(
      fixture.attempts()[0] as Attempt,
      suspended({ name: "nap", untilMs: fixture.now + 60_000 }),
    );
    fixture.settle();
    fixture.leave("w1");
    expect(why(fixture)).toBe('"a" waits: 1 task sleeps for another 1 m.');
    fixture.sleep(60_000);
    expect(why(fixture)).toBe('"a" waits for a worker: none serves "w.a" now; the last one left 1 m ago.');
  });
});

describe("children:", () => {
  const kid = (more: object = {}) => ({ name: "c", handlers: { c: { workflow: "kid", ...more } } });
  const family = (definition: object, serves: string[] = []): NodeFixture => {
    const fixture = new NodeFixture();
    fixture.plan([phase("b", { retry: { attempts: 1 } })], "kid");
    if (serves.length > 0) fixture.join("w1", serves);
    fixture.start(fixture.plan([definition]), "e1");
    fixture.settle();
    return fixture;
  };
  const childOf = (fixture: NodeFixture) => fixture.events("e1", "child.started")[0]?.child ?? "";

  test("it waits for them, and names one", () => {
    const one = family(kid());
    expect(why(one)).toBe(`"c" waits for 1 child, such as ${childOf(one)}.`);
    expect(why(one, childOf(one))).toBe('"b" waits for a worker: none serves "w.b" now.');
    const many = family(kid({ tasks: [1, 2, 3], concurrency: 2 }));
    expect(why(many)).toBe(`"c" waits for 2 children, such as ${childOf(many)}.`);
  });

  test("one is tried again later", () => {
    const fixture = family(kid({ retry: { backoff: "constant", min: "1h", max: "1h" } }), ["w.b"]);
    fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", payload: "{}" });
    expect(why(fixture)).toMatch(
      /^"c" tries again in [0-9. a-z]+: 1 task failed before \(ChildFailed: child e1~[0-9a-f]+ failed: failed\)\.$/,
    );
  });

  test("their workflow is not there", () => {
    const fixture = started([kid()]);
    expect(why(fixture)).toBe('"c" waits for a workflow: there is none with the name "kid".');
  });

  test("nobody lists them", () => {
    const fixture = family(kid({ enumerate: { use: "list" } }));
    expect(why(fixture)).toBe('"c" waits for a worker: none serves "list" now.');
    fixture.join("w1", ["list"]);
    expect(why(fixture)).toBe('"c": its enumeration is still running; 0 tasks so far.');
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
    const fixture = started([tasks(5, { rate: { limit: 2, per: "1m" } })], { serves: ["w.a"] });
    fixture.sleep(20_000);
    expect(why(fixture)).toBe('"a" runs 2; 3 more wait 40 s because of the rate of 2 in 1 m.');
  });

  test("a project's", () => {
    const fixture = new NodeFixture({ projects: { acme: { concurrency: 1 } } });
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(2)]), "e1", { project: "acme" });
    fixture.start(fixture.plan([tasks(1)], "other"), "e2", { project: "acme" });
    expect(why(fixture)).toBe(
      '"a" runs 1; 1 more wait because the limit of the project "acme" is reached: 1 of 1 in use.',
    );
    expect(why(fixture, "e2")).toBe(
      '"a" runs 0; 1 more wait because the limit of the project "acme" is reached: 1 of 1 in use.',
    );
  });

  test("one that a former owner's attempts may still hold", () => {
    const fixture = new NodeFixture({ suspectMs: 30_000 });
    fixture.plan([phase("a")]);
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(2, { concurrency: 1 })]), "e1");
    expect(why(fixture)).toBe(
      '"a" waits 30 s for attempts that may still hold "w.a" since before the restart.',
    );
    fixture.sleep(60_000);
    expect(why(fixture)).toBe(
      '"a" runs 1; 1 more wait because the limit of "w.a" is reached: 1 of 1 in use.',
    );
  });
});

test("nobody runs scripts", () => {
  const script = [{ name: "r", expression: "s => s" }];
  const fixture = started([{ name: "a", handlers: { a: { script } } }]);
  expect(why(fixture)).toBe('"a" waits for a worker: none serves scripts now.');
});

test("nobody serves the version, and which there are", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", [{ use: "w.a" }, { use: "w.a", version: "1.0.0" }]);
  fixture.start(fixture.plan([phase("a", { version: "^2" })]), "e1");
  expect(why(fixture)).toBe(
    '"a" waits for a worker: none serves "w.a" in a version that fits "^2" (there are one without a version, 1.0.0) now.',
  );
});
