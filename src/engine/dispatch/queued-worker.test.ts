// A worker that passes work on to queues: it gets the tasks that no other worker serves, its leases do not lapse, and nothing that
// waits in a queue has begun (DESIGN 8).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const QUEUE = { local: false, queued: true, fallback: true, capacity: 100_000 } as const;
const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 5_000 };
const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

function queueFixture(options: object = {}, settings: object = {}): NodeFixture {
  const fixture = new NodeFixture({ ...SETTINGS, ...settings });
  fixture.join("queue", [], { ...QUEUE, ...options });
  fixture.claim("queue", 1);
  return fixture;
}

function begin(fixture: NodeFixture, definition: object, id = "e1"): Attempt[] {
  fixture.start(fixture.plan([definition]), id);
  fixture.settle();
  return fixture.attempts("queue").filter(({ grant }) => grant.execution === id);
}

describe("what nobody else serves", () => {
  test("goes to the queue", () => {
    const fixture = queueFixture();
    expect(begin(fixture, tasks(3))).toHaveLength(3);
    expect(fixture.inspect("e1").why).toContain("3 tasks at the broker");
  });

  test("waits if a version is asked for, and says so; a worker with another version changes nothing", () => {
    const fixture = queueFixture();
    expect(begin(fixture, tasks(3, { version: "^2.0.0" }))).toHaveLength(0);
    expect(fixture.inspect("e1").why).toContain("^2.0.0");
    fixture.join("w1", [{ use: "w.a", version: "1.0.0" }]);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(0);
    expect(fixture.inspect("e1").why).toContain("^2.0.0");
    fixture.join("w2", [{ use: "w.a", version: "2.1.0" }]);
    fixture.settle();
    expect(fixture.attempts("w2")).toHaveLength(3);
  });

  test("is left to whoever serves it", () => {
    const fixture = queueFixture();
    fixture.join("w1", ["w.a"]);
    expect(begin(fixture, tasks(3))).toHaveLength(0);
    expect(fixture.attempts("w1")).toHaveLength(3);
  });

  test("goes to both where the queue serves it by name", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.join("queue", ["w.a"], { ...QUEUE, capacity: 2 });
    fixture.claim("queue", 1);
    fixture.join("w1", ["w.a"], { capacity: 2 });
    begin(fixture, tasks(4));
    expect(fixture.attempts("queue")).toHaveLength(2);
    expect(fixture.attempts("w1")).toHaveLength(2);
  });

  test("waits while the broker is away, and says so", () => {
    const fixture = queueFixture();
    fixture.claim("queue", 0);
    expect(begin(fixture, tasks(2))).toHaveLength(0);
    expect(fixture.inspect("e1").why).toContain('none serves "w.a"');
    fixture.claim("queue", 1);
    fixture.settle();
    expect(fixture.attempts("queue")).toHaveLength(2);
  });

  test("2.04 is a script, too", () => {
    const fixture = queueFixture();
    const script = { name: "a", handlers: { a: { script: [{ name: "one", expression: "s => s" }] } } };
    expect(begin(fixture, script)).toHaveLength(1);
  });
});

describe("a lease in a queue", () => {
  test("does not lapse by silence, and no beat is waited for", () => {
    const fixture = queueFixture();
    const [first] = begin(fixture, tasks(2));
    fixture.sleep(10 * 86_400_000);
    expect(fixture.of("cancel")).toHaveLength(0);
    expect(fixture.attempts("queue")).toHaveLength(2);
    fixture.receipt(first as Attempt);
    fixture.receipt(fixture.attempts("queue")[1] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.kinds("e1")).not.toContain("tasks.lost");
  });

  test("that is given back is pending at once, burns nothing, and writes nothing", () => {
    const fixture = queueFixture();
    const [first] = begin(fixture, tasks(1));
    const rows = fixture.journal("e1").length;
    fixture.release("queue", first as Attempt);
    fixture.settle();
    expect(fixture.journal("e1")).toHaveLength(rows);
    const second = fixture.attempts("queue")[1] as Attempt;
    expect(second.item).toMatchObject({ number: 0, attempt: 1, claim: 1 });
    fixture.release("queue", first as Attempt);
    fixture.settle();
    expect(fixture.attempts("queue")).toHaveLength(2);
    fixture.receipt(first as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("goes to another worker once that serves it and the queue gives it back", () => {
    const fixture = queueFixture();
    const [first] = begin(fixture, tasks(1));
    fixture.join("w1", ["w.a"]);
    fixture.release("queue", first as Attempt);
    fixture.settle();
    expect(fixture.attempts("w1")).toHaveLength(1);
  });

  test("after an unclean end is a suspect: a receipt in time is taken, the rest is published again", () => {
    const fixture = queueFixture({}, { suspectMs: 30_000 });
    const [first, second] = begin(fixture, tasks(2)) as [Attempt, Attempt];
    fixture.restart();
    fixture.join("queue", [], QUEUE);
    fixture.claim("queue", 1);
    fixture.settle();
    expect(fixture.attempts("queue")).toHaveLength(0);
    const report = fixture.receipt(first);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    fixture.sleep(31_000);
    expect(fixture.attempts("queue").map(({ item }) => item.number)).toEqual([1]);
    expect(fixture.kinds("e1")).not.toContain("tasks.started");
    fixture.receipt(second);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("of the crash budget nothing is used, however often the engine dies", () => {
    const fixture = queueFixture();
    begin(fixture, tasks(1));
    for (let i = 0; i < 8; i++) {
      fixture.restart();
      fixture.join("queue", [], QUEUE);
      fixture.claim("queue", 1);
      fixture.settle();
      expect(fixture.attempts("queue")).toHaveLength(1);
    }
    fixture.receipt(fixture.attempts("queue")[0] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("of a compensated task uses up no crash either, and its task counts as one that may have begun", () => {
    const fixture = queueFixture({}, { suspectMs: 30_000 });
    const compensated = tasks(2, { compensate: { use: "undo" }, retry: { crashes: 2 } });
    expect(begin(fixture, compensated)).toHaveLength(2);
    for (let life = 1; life <= 5; life++) {
      fixture.restart();
      fixture.join("queue", [], QUEUE);
      fixture.claim("queue", 1);
      fixture.settle();
      fixture.sleep(31_000);
      const given = fixture.attempts("queue").map(({ item }) => [item.number, item.attempt]);
      expect(given).toEqual([
        [0, life + 1],
        [1, life + 1],
      ]);
    }
    expect(fixture.kinds("e1")).not.toContain("tasks.lost");
    fixture.receipt(fixture.attempts("queue")[0] as Attempt);
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.release("queue", fixture.attempts("queue")[1] as Attempt);
    fixture.settle();
    const undone = fixture.attempts("queue").slice(2);
    expect(new Map(undone.map(({ item }) => [item.number, item.compensates?.outcome]))).toEqual(
      new Map([
        [0, "done"],
        [1, "unknown"],
      ]),
    );
  });

  test("of a task that crashed once is to have nobody beside it, and does not hold up the queue", () => {
    const fixture = queueFixture();
    const [first] = begin(fixture, tasks(2, { retry: { min: 0, max: 0 } }));
    fixture.receipt(first as Attempt, { status: "crashed", payload: "{}" });
    fixture.sleep(100);
    expect(fixture.attempts("queue").at(-1)?.item).toMatchObject({ number: 0, alone: true });
    fixture.receipt(fixture.attempts("queue").at(-1) as Attempt, { status: "crashed", payload: "{}" });
    fixture.sleep(100);
    expect(fixture.attempts("queue").at(-1)?.item).toMatchObject({ number: 0, alone: true });
    expect(begin(fixture, tasks(5), "e2")).toHaveLength(5);
  });
});

describe("room", () => {
  test("at most so many leases of one handler at a time, and others are not held up by it", () => {
    const fixture = queueFixture({ perQueue: 3 });
    const first = begin(fixture, tasks(10));
    expect(first).toHaveLength(3);
    expect(begin(fixture, tasks(2), "e2")).toHaveLength(2);
    fixture.receipt(first[0] as Attempt);
    fixture.settle();
    expect(fixture.attempts("queue").filter(({ grant }) => grant.execution === "e1")).toHaveLength(4);
    for (let answered = 1; answered < fixture.attempts().length; answered++) {
      fixture.receipt(fixture.attempts()[answered] as Attempt);
      fixture.settle();
    }
    expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["done", "done"]);
    expect(fixture.attempts()).toHaveLength(12);
  });

  test("what the queue has no room for goes to another worker that serves it", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.join("queue", ["w.a"], { ...QUEUE, perQueue: 1 });
    fixture.claim("queue", 1);
    fixture.join("w1", ["w.a"], { capacity: 10 });
    begin(fixture, tasks(5));
    expect(fixture.attempts("w1").length + fixture.attempts("queue").length).toBe(5);
    expect(fixture.attempts("w1").length).toBeGreaterThan(0);
  });

  test("at most so many handlers of visits; the others wait with a why, and come when one is over", () => {
    const fixture = queueFixture({ queuesMax: 1 });
    const [first] = begin(fixture, tasks(1));
    expect(begin(fixture, tasks(1), "e2")).toHaveLength(0);
    expect(fixture.inspect("e2").why).toContain("waits for queues at the broker");
    fixture.receipt(first as Attempt);
    fixture.settle();
    expect(fixture.of("queue-closed")).toMatchObject([
      { worker: "queue", place: { execution: "e1", phase: "a" } },
    ]);
    expect(fixture.attempts("queue").at(-1)?.grant.execution).toBe("e2");
  });

  test("commands have no queues of their own: however many wait for a topic, handlers are not held up, nor they", () => {
    const fixture = queueFixture({ queuesMax: 1 });
    expect(begin(fixture, command("c"), "c1")).toHaveLength(1);
    expect(begin(fixture, command("c"), "c2")).toHaveLength(1);
    expect(begin(fixture, tasks(1), "e1")).toHaveLength(1);
    expect(begin(fixture, command("c"), "c3")).toHaveLength(1);
    expect(fixture.inspect("c3").why).not.toContain("waits for queues");
    expect(begin(fixture, tasks(1), "e2")).toHaveLength(0);
  });
});

describe("what is not to begin", () => {
  test.each(["pause", "cancel"] as const)("%s asks the queue to give back what nobody has taken", (kind) => {
    const fixture = queueFixture();
    const [first, second] = begin(fixture, tasks(2)) as [Attempt, Attempt];
    fixture.control(kind, "e1");
    fixture.settle();
    expect(fixture.of("withdraw")[0]).toMatchObject({
      worker: "queue",
      from: { execution: "e1", handler: "a" },
    });
    fixture.release("queue", first, second);
    fixture.settle();
    expect(fixture.attempts("queue")).toHaveLength(2);
    expect(fixture.status("e1")).toBe(kind === "pause" ? "paused" : "cancelled");
    if (kind === "cancel") return;
    fixture.control("resume", "e1");
    fixture.settle();
    expect(fixture.attempts("queue")).toHaveLength(4);
  });
});

test("a worker that queues learns of takeovers from its first join on, also of those before it", () => {
  const fixture = new NodeFixture(SETTINGS);
  const joinQueue = (uses: string[]) => {
    fixture.join("queue", uses, QUEUE);
    fixture.settle();
  };
  const takeOver = () => {
    const left = { leases: [], quotas: new Map(), declared: {} };
    fixture.input({ kind: "taken", owned: [{ partition: 0, epoch: 2, uncleanEpoch: 0 }], left });
    fixture.settle();
  };
  takeOver();
  fixture.join("w1", ["w.a"]);
  fixture.settle();
  expect(fixture.of("took-over")).toHaveLength(0);
  joinQueue([]);
  expect(fixture.of("took-over")).toEqual([{ kind: "took-over", worker: "queue" }]);
  // It joins again when it serves something new.
  joinQueue(["w.b"]);
  expect(fixture.of("took-over")).toHaveLength(1);
  takeOver();
  expect(fixture.of("took-over")).toHaveLength(2);
});
