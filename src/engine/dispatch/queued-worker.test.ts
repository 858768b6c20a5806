// A worker that passes work on to queues: it gets what nobody else serves, its leases do not lapse, and nothing that
// waits in a queue has begun (DESIGN 8).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const QUEUE = { local: false, queued: true, fallback: true, capacity: 100_000 } as const;
const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 5_000 };
const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

function queueFixture(options: object = {}, settings: object = {}): NodeFixture {
  const bench = new NodeFixture({ ...SETTINGS, ...settings });
  bench.join("queue", [], { ...QUEUE, ...options });
  bench.claim("queue", 1);
  return bench;
}

function begin(bench: NodeFixture, definition: object, id = "e1"): Attempt[] {
  bench.start(bench.plan([definition]), id);
  bench.settle();
  return bench.attempts("queue").filter(({ grant }) => grant.execution === id);
}

describe("what nobody else serves", () => {
  test("goes to the queue", () => {
    const bench = queueFixture();
    expect(begin(bench, tasks(3))).toHaveLength(3);
    expect(bench.inspect("e1").why).toContain("3 tasks at the broker");
  });

  test("waits if a version is asked for, and says so; a worker with another version changes nothing", () => {
    const bench = queueFixture();
    expect(begin(bench, tasks(3, { version: "^2.0.0" }))).toHaveLength(0);
    expect(bench.inspect("e1").why).toContain("^2.0.0");
    bench.join("w1", [{ use: "w.a", version: "1.0.0" }]);
    bench.settle();
    expect(bench.attempts()).toHaveLength(0);
    expect(bench.inspect("e1").why).toContain("^2.0.0");
    bench.join("w2", [{ use: "w.a", version: "2.1.0" }]);
    bench.settle();
    expect(bench.attempts("w2")).toHaveLength(3);
  });

  test("is left to whoever serves it", () => {
    const bench = queueFixture();
    bench.join("w1", ["w.a"]);
    expect(begin(bench, tasks(3))).toHaveLength(0);
    expect(bench.attempts("w1")).toHaveLength(3);
  });

  test("goes to both where the queue serves it by name", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.join("queue", ["w.a"], { ...QUEUE, capacity: 2 });
    bench.claim("queue", 1);
    bench.join("w1", ["w.a"], { capacity: 2 });
    begin(bench, tasks(4));
    expect(bench.attempts("queue")).toHaveLength(2);
    expect(bench.attempts("w1")).toHaveLength(2);
  });

  test("waits while the broker is away, and says so", () => {
    const bench = queueFixture();
    bench.claim("queue", 0);
    expect(begin(bench, tasks(2))).toHaveLength(0);
    expect(bench.inspect("e1").why).toContain('none serves "w.a"');
    bench.claim("queue", 1);
    bench.settle();
    expect(bench.attempts("queue")).toHaveLength(2);
  });

  test("2.04 is a script, too", () => {
    const bench = queueFixture();
    const script = { name: "a", handlers: { a: { script: [{ name: "one", expression: "s => s" }] } } };
    expect(begin(bench, script)).toHaveLength(1);
  });
});

describe("a lease in a queue", () => {
  test("does not lapse by silence, and no beat is waited for", () => {
    const bench = queueFixture();
    const [first] = begin(bench, tasks(2));
    bench.sleep(10 * 86_400_000);
    expect(bench.of("cancel")).toHaveLength(0);
    expect(bench.attempts("queue")).toHaveLength(2);
    bench.receipt(first as Attempt);
    bench.receipt(bench.attempts("queue")[1] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(bench.kinds("e1")).not.toContain("tasks.lost");
  });

  test("that is given back is pending at once, burns nothing, and writes nothing", () => {
    const bench = queueFixture();
    const [first] = begin(bench, tasks(1));
    const rows = bench.journal("e1").length;
    bench.release("queue", first as Attempt);
    bench.settle();
    expect(bench.journal("e1")).toHaveLength(rows);
    const second = bench.attempts("queue")[1] as Attempt;
    expect(second.item).toMatchObject({ number: 0, attempt: 1, claim: 1 });
    bench.release("queue", first as Attempt);
    bench.settle();
    expect(bench.attempts("queue")).toHaveLength(2);
    bench.receipt(first as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("goes to another worker once that serves it and the queue gives it back", () => {
    const bench = queueFixture();
    const [first] = begin(bench, tasks(1));
    bench.join("w1", ["w.a"]);
    bench.release("queue", first as Attempt);
    bench.settle();
    expect(bench.attempts("w1")).toHaveLength(1);
  });

  test("after an unclean end is a suspect: a receipt in time is taken, the rest is published again", () => {
    const bench = queueFixture({}, { suspectMs: 30_000 });
    const [first, second] = begin(bench, tasks(2)) as [Attempt, Attempt];
    bench.restart();
    bench.join("queue", [], QUEUE);
    bench.claim("queue", 1);
    bench.settle();
    expect(bench.attempts("queue")).toHaveLength(0);
    const report = bench.receipt(first);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    bench.sleep(31_000);
    expect(bench.attempts("queue").map(({ item }) => item.number)).toEqual([1]);
    expect(bench.kinds("e1")).not.toContain("tasks.started");
    bench.receipt(second);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("of the crash budget nothing is used, however often the engine dies", () => {
    const bench = queueFixture();
    begin(bench, tasks(1));
    for (let i = 0; i < 8; i++) {
      bench.restart();
      bench.join("queue", [], QUEUE);
      bench.claim("queue", 1);
      bench.settle();
      expect(bench.attempts("queue")).toHaveLength(1);
    }
    bench.receipt(bench.attempts("queue")[0] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("of a task that crashed once is to have nobody beside it, and does not hold up the queue", () => {
    const bench = queueFixture();
    const [first] = begin(bench, tasks(2, { retry: { min: 0, max: 0 } }));
    bench.receipt(first as Attempt, { status: "crashed", payload: "{}" });
    bench.sleep(100);
    expect(bench.attempts("queue").at(-1)?.item).toMatchObject({ number: 0, alone: true });
    bench.receipt(bench.attempts("queue").at(-1) as Attempt, { status: "crashed", payload: "{}" });
    bench.sleep(100);
    expect(bench.attempts("queue").at(-1)?.item).toMatchObject({ number: 0, alone: true });
    expect(begin(bench, tasks(5), "e2")).toHaveLength(5);
  });
});

describe("room", () => {
  test("at most so many leases of one handler at a time, and others are not held up by it", () => {
    const bench = queueFixture({ perQueue: 3 });
    const first = begin(bench, tasks(10));
    expect(first).toHaveLength(3);
    expect(begin(bench, tasks(2), "e2")).toHaveLength(2);
    bench.receipt(first[0] as Attempt);
    bench.settle();
    expect(bench.attempts("queue").filter(({ grant }) => grant.execution === "e1")).toHaveLength(4);
    for (let answered = 1; answered < bench.attempts().length; answered++) {
      bench.receipt(bench.attempts()[answered] as Attempt);
      bench.settle();
    }
    expect([bench.status("e1"), bench.status("e2")]).toEqual(["done", "done"]);
    expect(bench.attempts()).toHaveLength(12);
  });

  test("what the queue has no room for goes to another worker that serves it", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.join("queue", ["w.a"], { ...QUEUE, perQueue: 1 });
    bench.claim("queue", 1);
    bench.join("w1", ["w.a"], { capacity: 10 });
    begin(bench, tasks(5));
    expect(bench.attempts("w1").length + bench.attempts("queue").length).toBe(5);
    expect(bench.attempts("w1").length).toBeGreaterThan(0);
  });

  test("at most so many handlers of visits; the others wait with a why, and come when one is over", () => {
    const bench = queueFixture({ queuesMax: 1 });
    const [first] = begin(bench, tasks(1));
    expect(begin(bench, tasks(1), "e2")).toHaveLength(0);
    expect(bench.inspect("e2").why).toContain("waits for queues at the broker");
    bench.receipt(first as Attempt);
    bench.settle();
    expect(bench.of("queue-closed")).toMatchObject([
      { worker: "queue", place: { execution: "e1", phase: "a" } },
    ]);
    expect(bench.attempts("queue").at(-1)?.grant.execution).toBe("e2");
  });

  test("commands have no queues of their own: however many wait for a topic, handlers are not held up, nor they", () => {
    const bench = queueFixture({ queuesMax: 1 });
    expect(begin(bench, command("c"), "c1")).toHaveLength(1);
    expect(begin(bench, command("c"), "c2")).toHaveLength(1);
    expect(begin(bench, tasks(1), "e1")).toHaveLength(1);
    expect(begin(bench, command("c"), "c3")).toHaveLength(1);
    expect(bench.inspect("c3").why).not.toContain("waits for queues");
    expect(begin(bench, tasks(1), "e2")).toHaveLength(0);
  });
});

describe("what is not to begin", () => {
  test.each(["pause", "cancel"] as const)("%s asks the queue to give back what nobody has taken", (kind) => {
    const bench = queueFixture();
    const [first, second] = begin(bench, tasks(2)) as [Attempt, Attempt];
    bench.control(kind, "e1");
    bench.settle();
    expect(bench.of("withdraw")[0]).toMatchObject({
      worker: "queue",
      from: { execution: "e1", handler: "a" },
    });
    bench.release("queue", first, second);
    bench.settle();
    expect(bench.attempts("queue")).toHaveLength(2);
    expect(bench.status("e1")).toBe(kind === "pause" ? "paused" : "cancelled");
    if (kind === "cancel") return;
    bench.control("resume", "e1");
    bench.settle();
    expect(bench.attempts("queue")).toHaveLength(4);
  });
});

test("a worker that queues learns of takeovers from its first join on, also of those before it", () => {
  const bench = new NodeFixture(SETTINGS);
  const joinQueue = (uses: string[]) => {
    bench.join("queue", uses, QUEUE);
    bench.settle();
  };
  const takeOver = () => {
    const left = { leases: [], quotas: new Map(), declared: {} };
    bench.input({ kind: "taken", owned: [{ partition: 0, epoch: 2, uncleanEpoch: 0 }], left });
    bench.settle();
  };
  takeOver();
  bench.join("w1", ["w.a"]);
  bench.settle();
  expect(bench.of("took-over")).toHaveLength(0);
  joinQueue([]);
  expect(bench.of("took-over")).toEqual([{ kind: "took-over", worker: "queue" }]);
  // It joins again when it serves something new.
  joinQueue(["w.b"]);
  expect(bench.of("took-over")).toHaveLength(1);
  takeOver();
  expect(bench.of("took-over")).toHaveLength(2);
});
