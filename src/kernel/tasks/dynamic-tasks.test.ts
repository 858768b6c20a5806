// Tasks that add tasks and tasks that wait for tasks, message by message.
import { describe, expect, test } from "vitest";
import { KernelRun } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { decodeEntry, decodeUpTo, encodeEntries, UnknownVersion } from "../journal/journal-entry.ts";
import { readSnapshot, writeSnapshot } from "../journal/snapshot.ts";

const adding = (more: object = {}) => [
  { name: "a", handlers: { a: { use: "a", enumerate: { use: "a" }, adds: true, ...more } } },
];

const waiting = (names: readonly (readonly [string, ...string[]])[], more: object = {}) => [
  {
    name: "a",
    handlers: {
      a: {
        use: "a",
        tasks: names.map(([id, ...after]) => ({ id, after })),
        identity: "/id",
        after: "/after",
        ...more,
      },
    },
  },
];

const adds = (...tasks: unknown[]) => ({
  adds: { tasks: tasks.map((task) => JSON.stringify(task)), keys: null, identities: null },
});

/** The tasks that may run now. */
const ready = (run: KernelRun) => {
  const { tasks, total } = run.handler("a");
  return Array.from({ length: total }, (_, task) => task).filter(
    (task) => !tasks.settled.has(task) && tasks.until(task) <= run.now,
  );
};

/** The state after it was written to a snapshot and read again. */
const again = (run: KernelRun) => writeSnapshot(readSnapshot("e1", run.plan, writeSnapshot(run.execution)));

describe("tasks that are added", () => {
  test("are journaled after the settlement, in the same step, with the task that added them", () => {
    const run = new KernelRun(adding());
    run.page("a", [1, 2]);
    run.receipts("a", [
      { task: 0, ...adds(3, 4) },
      { task: 1, ...adds(5) },
    ]);
    expect(run.last.map(({ event }) => event.kind)).toEqual(["tasks.settled", "tasks.enumerated"]);
    expect(run.of("tasks.enumerated").at(-1)).toMatchObject({
      from: 2,
      count: 3,
      tasks: ["3", "4", "5"],
      addedBy: [0, 0, 1],
    });
  });

  test("do not disturb the count and the checksum of an enumeration under way", () => {
    const run = new KernelRun(adding());
    run.page("a", [1]);
    run.receipt("a", 0, adds(7, 8));
    expect(run.page("a", [2], { from: 1 })).toMatchObject({ kind: "applied" });
    expect(run.page("a", [2], { from: 1 })).toMatchObject({ kind: "ignored", verdicts: ["duplicate"] });
    const plain = new KernelRun(adding());
    plain.page("a", [1, 2]);
    expect(run.handler("a").enumeration).toMatchObject({
      count: 2,
      last: 3,
      checksum: plain.handler("a").enumeration.checksum,
    });
    run.seal("a", { total: 2 });
    expect(run.of("handler.enumerated")).toMatchObject([{ total: 4 }]);
    run.receipts("a", [{ task: 1 }, { task: 2 }, { task: 3, ...adds(9) }]);
    expect(run.status).toBe("running");
    run.receipt("a", 4);
    expect(run.status).toBe("done");
  });

  test("come once: a duplicate adds nothing, a failed attempt adds nothing, a late done that counts adds", () => {
    const run = new KernelRun(adding());
    run.page("a", [1, 2]);
    run.receipt("a", 0, { status: "failed", payload: "{}", ...adds(8) });
    run.lost("a", 1);
    expect(run.handler("a").total).toBe(2);
    expect(run.receipt("a", 1, { attempt: 1, live: false, ...adds(9) })).toBe("accepted");
    expect(run.receipt("a", 1, { attempt: 1, live: false, ...adds(9) })).toBe("duplicate");
    expect(run.receipt("a", 1, { attempt: 2, ...adds(9) })).toBe("duplicate");
    expect(run.handler("a").total).toBe(3);
  });

  test("count once by identity, within a message and over messages", () => {
    const run = new KernelRun(adding({ identity: "" }));
    run.page("a", ["x", "y"]);
    run.receipts("a", [
      { task: 0, ...adds("y", "z", "z") },
      { task: 1, ...adds("z", "u") },
    ]);
    run.receipt("a", 2, adds("x", "u"));
    expect(run.of("tasks.enumerated").flatMap(({ tasks }) => tasks)).toEqual(['"x"', '"y"', '"z"', '"u"']);
  });

  test("are kept when the visit drains, for the next round", () => {
    const run = new KernelRun(adding({ retry: { attempts: 1 } }));
    run.page("a", [1, 2]);
    run.seal("a", { total: 2 });
    run.receipts("a", [
      { task: 0, status: "failed", payload: "{}" },
      { task: 1, ...adds(3) },
    ]);
    run.drained();
    expect(run.status).toBe("failed");
    run.control("retry");
    expect(ready(run)).toEqual([0, 2]);
  });

  test.each([
    [
      "in a handler that does not say so",
      [{ name: "a", handlers: { a: { use: "a", tasks: [1] } } }],
      /`adds`/,
    ],
    [
      "without an identity",
      adding({ identity: "/id", tasks: [{ id: 1 }], enumerate: undefined }),
      /identity/,
    ],
  ])("are refused %s: the task fails for good", (_, phases, message) => {
    const run = new KernelRun(phases);
    run.receipt("a", 0, adds(1));
    run.drained();
    expect(run.execution.error?.message).toMatch(message);
  });

  test("are judged by a percentage only at the end", () => {
    const run = new KernelRun(adding({ tolerate: "50%", retry: { attempts: 1 } }));
    run.page("a", [1]);
    run.seal("a", { total: 1 });
    run.receipt("a", 0, adds(1, 2));
    run.receipt("a", 1, { status: "failed", payload: "{}" });
    expect(run.execution.draining).toBe(false);
    run.receipt("a", 2, { status: "failed", payload: "{}" });
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.execution.error?.message).toBe("2 of 3 tasks failed");
  });

  test("make rows that older versions refuse to read", () => {
    const run = new KernelRun(adding());
    run.page("a", [1]);
    const before = encodeEntries(run.last, "e1");
    expect(decodeUpTo(5, before[0] as never)).toHaveLength(1);
    run.receipt("a", 0, adds(2));
    const [row] = encodeEntries(run.last, "e1");
    expect(() => decodeUpTo(5, row as never)).toThrow(UnknownVersion);
    expect(decodeEntry(row as never)).toEqual(run.last);
    expect(run.plan.version).toBe(6);
  });
});

describe("tasks that wait", () => {
  test("are released by the last of their dependencies, and snapshots keep this", () => {
    const run = new KernelRun(waiting([["d", "b", "c"], ["b", "a"], ["c", "a"], ["a"]]));
    expect(ready(run)).toEqual([3]);
    expect(again(run)).toBe(writeSnapshot(run.execution));
    run.receipt("a", 3);
    expect(ready(run)).toEqual([1, 2]);
    run.receipt("a", 1);
    expect(ready(run)).toEqual([2]);
    expect(again(run)).toBe(writeSnapshot(run.execution));
    run.receipt("a", 2);
    expect(ready(run)).toEqual([0]);
    run.receipt("a", 0);
    expect(run.status).toBe("done");
  });

  test("that fail because of others have not begun", () => {
    const run = new KernelRun(
      waiting([["a"], ["b", "a"], ["c", "b"]], { tolerate: 3, retry: { attempts: 1 } }),
    );
    run.receipt("a", 0, { status: "failed", payload: "{}" });
    expect(run.of("tasks.settled").at(-1)).toMatchObject({
      tasks: [1, 2],
      attempts: [0, 0],
      reasons: ["dependency_failed", "dependency_failed"],
    });
    expect(run.status).toBe("done");
  });

  test("on each other fail with a path of bounded length", () => {
    const ring = Array.from({ length: 30 }, (_, i) => [`n${i}`, `n${(i + 1) % 30}`] as const);
    const run = new KernelRun(waiting(ring, { tolerate: 30 }));
    expect(run.status).toBe("done");
    const [first] = run.of("tasks.settled")[0]?.payloads ?? [];
    expect(JSON.parse(first ?? "")).toMatchObject({
      code: "dependency_cycle",
      message:
        "dependency_cycle: n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> n6 -> n7 -> n8 -> (20 more tasks) -> n29 -> n0",
    });
  });

  test("for a name that a task may still add are left alone until nothing else can run", () => {
    const run = new KernelRun(waiting([["a"], ["b", "x"], ["c"]], { adds: true, tolerate: 3 }));
    run.receipt("a", 0);
    expect(run.handler("a").dependencies?.blocked.size).toBe(1);
    run.receipt("a", 2, adds({ id: "x", after: ["c"] }));
    expect(ready(run)).toEqual([3]);
    run.receipt("a", 3);
    expect(ready(run)).toEqual([1]);
  });

  test("for a name that nobody has added fail at last", () => {
    const run = new KernelRun(waiting([["a"], ["b", "x"], ["c", "b"]], { tolerate: 3 }));
    expect(run.of("tasks.settled")).toEqual([]);
    run.receipt("a", 0);
    expect(run.of("tasks.settled").at(-1)).toMatchObject({
      tasks: [1, 2],
      reasons: ["unknown_dependency", "dependency_failed"],
    });
  });

  test.each([
    [
      "an unknown name beside a cycle",
      [
        ["d", "ghost"],
        ["x", "y"],
        ["y", "x"],
      ],
      null,
    ],
    ["a failed dependency beside a cycle", [["a"], ["b", "a"], ["x", "y"], ["y", "x"]], 0],
    ["a failed dependency beside an unknown name", [["a"], ["b", "a"], ["c", "ghost"]], 0],
  ] as const)("for several reasons at once all fail: %s", (_, tasks, failing) => {
    const run = new KernelRun(waiting(tasks, { tolerate: 9, retry: { attempts: 1 } }));
    if (failing !== null) run.receipt("a", failing, { status: "failed", payload: "{}" });
    expect(run.status).toBe("done");
    expect(
      run
        .of("tasks.settled")
        .flatMap((event) => event.tasks)
        .toSorted((a, b) => a - b),
    ).toEqual(tasks.map((_task, i) => i));
  });

  test("are pending again with the failed task that they waited for, and wait again", () => {
    const run = new KernelRun(waiting([["a"], ["b", "a"], ["c"]], { tolerate: 3, retry: { attempts: 1 } }));
    run.receipt("a", 0, { status: "failed", payload: "{}" });
    run.send({
      kind: "retry",
      id: "r1",
      by: "ann",
      reason: null,
      tasks: { phase: "a", handler: "a", numbers: [0] },
    });
    expect(run.of("tasks.retried")).toMatchObject([{ tasks: [0, 1] }]);
    expect(ready(run)).toEqual([0, 2]);
    run.receipt("a", 0, { attempt: 2 });
    expect(ready(run)).toEqual([1, 2]);
  });

  test("fail again if only they are retried", () => {
    const run = new KernelRun(waiting([["a"], ["b", "a"], ["c"]], { tolerate: 3, retry: { attempts: 1 } }));
    run.receipt("a", 0, { status: "failed", payload: "{}" });
    run.send({
      kind: "retry",
      id: "r1",
      by: "ann",
      reason: null,
      tasks: { phase: "a", handler: "a", numbers: [1] },
    });
    expect(run.of("tasks.settled").filter(({ tasks }) => tasks.includes(1))).toHaveLength(2);
  });
});
