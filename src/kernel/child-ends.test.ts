// How children end: for good, out of time, or told to stop, few at a time (DESIGN 2.8, 3.1, 3.2).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { ExecutionError } from "./event.ts";
import { encodeEntries } from "./journal/journal-entry.ts";
import { restore } from "./journal/replay.ts";
import { writeSnapshot } from "./journal/snapshot.ts";
import type { ControlMessage } from "./message.ts";
import { viewExecution } from "./view.ts";

const family = (n: number, more: object = {}) => [
  {
    name: "a",
    handlers: { a: { workflow: "kid", tasks: Array.from({ length: n }, (_, i) => i), ...more } },
  },
];
const PARENT = { execution: "p", phase: "a", visit: 1, handler: "a", task: 0 };
const errorOf = (run: KernelRun) => run.execution.error as ExecutionError;
/** The payloads that the child has sent to its parent. */
const told = (run: KernelRun) =>
  run.sent.flatMap(({ message }) =>
    message.kind === "child" ? [JSON.parse(message.payload) as unknown] : [],
  );
const stops = (run: KernelRun, after = 0) =>
  run.sent
    .slice(after)
    .map(({ to, message }) => [to, message] as const)
    .filter(([, { kind }]) => kind === "cancel") as unknown as (readonly [string, ControlMessage])[];
const replayed = (run: KernelRun) =>
  writeSnapshot(
    restore(run.execution.id, run.plan, {
      snapshot: null,
      entries: encodeEntries(run.events, run.execution.id),
    }),
  );

describe("a failure that cannot change", () => {
  const child = (definition: object[]) =>
    new KernelRun(definition, { id: "p~1", parent: { ...PARENT, depth: 1 } });

  test("of a child is told as such, and its parent does not try it again", () => {
    const kid = child([phase("b")]);
    kid.fail("b", 0, { fatal: true });
    kid.drained();
    expect(told(kid)).toMatchObject([{ code: "task_failed", fatal: true }]);
    const run = new KernelRun(family(1));
    run.children("a", [0]);
    run.childEnded("a", 0, { status: "failed", payload: JSON.stringify(told(kid)[0]) });
    expect(run.of("tasks.retrying")).toEqual([]);
    expect(run.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["fatal"] }]);
    run.drained();
    // The parent of the parent gets the same error.
    expect(errorOf(run)).toMatchObject({ code: "child_failed", fatal: true });
  });

  test("is not shown to others", () => {
    const kid = child([phase("b")]);
    kid.fail("b", 0, { fatal: true });
    kid.drained();
    expect(viewExecution(kid.execution, kid.now).error).not.toHaveProperty("fatal");
  });

  test.each<[string, (run: KernelRun) => void, object]>([
    [
      "an enumeration that says so",
      (run) => run.seal("b", { status: "failed", fatal: true, payload: '{"message":"x"}' }),
      {},
    ],
    ["an enumeration that diverged", (run) => run.seal("b", { total: 7 }), {}],
  ])("comes of %s", (_name, end) => {
    const kid = child([phase("b", { enumerate: { use: "l" } })]);
    end(kid);
    kid.drained();
    expect(told(kid)).toMatchObject([{ fatal: true }]);
  });

  test("comes of too many visits", () => {
    const kid = child([phase("b", {}, { maxVisits: 1, next: "b" })]);
    kid.done("b", 0);
    expect(told(kid)).toMatchObject([{ code: "visits_exceeded", fatal: true }]);
  });

  test("of a chain that is too deep goes all the way up", () => {
    const deep = new KernelRun(family(1), {
      parent: { ...PARENT, depth: 16 },
    });
    deep.children("a", [0]);
    deep.drained();
    expect(told(deep)).toMatchObject([{ code: "too_deep", fatal: true }]);
  });

  test("is one only if it says so: what ran out of attempts is tried again", () => {
    const kid = child([phase("b", { retry: { attempts: 1 } })]);
    kid.fail("b", 0);
    kid.drained();
    expect(told(kid)[0]).not.toHaveProperty("fatal");
    const run = new KernelRun(family(1));
    run.children("a", [0]);
    run.childEnded("a", 0, { status: "failed", payload: JSON.stringify(told(kid)[0]) });
    expect(run.of("tasks.retrying")).toHaveLength(1);
  });
});

describe("a child with a time limit", () => {
  const timed = (more: object = {}) => {
    const run = new KernelRun(family(2, { timeout: 5_000, ...more }), { now: 1_000 });
    run.children("a", [0, 1]);
    return run;
  };

  test("that ends in time is like any other", () => {
    const run = timed();
    expect(run.of("timer.set").map(({ timer, due }) => [timer, due])).toEqual([
      ["a.1.a.0", 6_000],
      ["a.1.a.1", 6_000],
    ]);
    run.childEnded("a", 0);
    run.childEnded("a", 1);
    expect([run.status, run.execution.timers.size]).toEqual(["done", 0]);
    expect(stops(run)).toEqual([]);
  });

  test("that does not is told to stop, and tried again by the policy when it has", () => {
    const run = timed({ retry: { attempts: 2, backoff: "constant", min: 0 } });
    run.childEnded("a", 1);
    run.now = 6_000;
    run.timer("a.1.a.0");
    expect(stops(run)).toMatchObject([
      [run.childOf("a", 0), { kind: "cancel", reason: "timeout", fromParent: true }],
    ]);
    expect(run.of("tasks.retrying")).toEqual([]);
    run.childEnded("a", 0, { status: "cancelled" });
    const [retrying] = run.of("tasks.retrying");
    expect(retrying).toMatchObject({ tasks: [0], attempts: [1], reasons: ["killed"] });
    expect(JSON.parse(retrying?.errors[0] ?? "null")).toMatchObject({ name: "Timeout", code: "timeout" });
    // Each attempt has its own time.
    run.now = 7_000;
    run.children("a", [0]);
    expect(run.execution.timers.get("a.1.a.0")).toMatchObject({ due: 12_000 });
    run.now = 12_000;
    run.timer("a.1.a.0");
    run.childEnded("a", 0, { status: "cancelled" });
    run.drained();
    expect([run.status, errorOf(run).code]).toEqual(["failed", "timeout"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("counts if it is done all the same", () => {
    const run = timed();
    run.now = 6_000;
    run.timer("a.1.a.0");
    run.childEnded("a", 0);
    run.childEnded("a", 1);
    expect(run.status).toBe("done");
  });

  test("that somebody else cancels in time is not wanted any more", () => {
    const run = timed();
    run.childEnded("a", 0, { status: "cancelled" });
    expect(run.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["cancelled"] }]);
  });
});

describe("many children that are told to stop", () => {
  test("are told a thousand at a time, each once, as others end", () => {
    const n = 2_500;
    const run = new KernelRun(family(n));
    const all = Array.from({ length: n }, (_, task) => task);
    run.children("a", all);
    const before = run.sent.length;
    run.control("cancel");
    expect(stops(run, before)).toHaveLength(1_000);
    let most = 0;
    for (const task of all) {
      const sent = run.sent.length;
      run.childEnded("a", task, { status: "cancelled" });
      most = Math.max(most, run.sent.length - sent);
    }
    expect(most).toBe(1);
    const ids = stops(run, before).map(([to]) => to);
    expect([ids.length, new Set(ids).size]).toEqual([n, n]);
    run.drained();
    expect(run.status).toBe("cancelled");
  });

  test("are told again after a restart, by the same id, those that are open", () => {
    const run = new KernelRun(family(3));
    run.children("a", [0, 1, 2]);
    run.control("cancel");
    run.childEnded("a", 0, { status: "cancelled" });
    const [first] = stops(run);
    const { execution } = run;
    if (execution.current !== null) execution.current.stopping = null;
    const before = run.sent.length;
    run.childEnded("a", 1, { status: "cancelled" });
    expect(stops(run, before)).toMatchObject([[run.childOf("a", 2), { id: first?.[1].id }]]);
  });
});
