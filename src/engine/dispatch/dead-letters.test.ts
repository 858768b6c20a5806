// Dead letters of executions, and words that changed nothing.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { tasks, working } from "../../../test/fixtures/engine/records-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const fatal = { ...failed, fatal: true } as const;

const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;

describe("dead letters", () => {
  const dead = (fixture: NodeFixture) =>
    fixture.tables
      .listDeadLetters({}, { before: null, max: 100 })
      .map(({ execution, workflow, project, tasks: of }) => ({ execution, workflow, project, tasks: of }));

  test("name the tasks that failed for good, by the event that says so", () => {
    const { fixture } = working(tasks(5, { tolerate: 5, retry: { attempts: 1 } }));
    fixture.report("w1", {
      kind: "receipts",
      ...(({ execution, phase: p, visit, handler, round, epoch }) => ({
        execution,
        phase: p,
        visit,
        handler,
        round,
        epoch,
      }))(fixture.attempts()[0]?.grant as Attempt["grant"]),
      receipts: fixture.attempts().map(({ item }) => ({
        task: item.number,
        attempt: 1,
        claim: 0,
        ms: 1,
        outcome: item.number % 2 === 0 ? fatal : { status: "done", payload: "null" },
      })),
    });
    fixture.settle();
    expect(dead(fixture)).toEqual([{ execution: "e1", workflow: "w", project: "default", tasks: [0, 2, 4] }]);
    const [{ seq } = { seq: 0 }] = fixture.tables.listDeadLetters({}, { before: null, max: 1 });
    expect(fixture.journal("e1").find((recorded) => recorded.seq === seq)?.event.kind).toBe("tasks.settled");
  });

  test("are written once where a commit's outcome is not known", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { fixture, first } = working();
      fixture.holdsCommits = true;
      fixture.receipt(first, fatal);
      fixture.settle();
      fixture[outcome]();
      fixture.holdsCommits = false;
      fixture.settle();
      expect(dead(fixture), outcome).toHaveLength(1);
    }
  });

  test("come of lost attempts and of children too, and not of retries and cancels", () => {
    const { fixture, first } = working(phase("a", { retry: { crashes: 1 } }), { local: false });
    fixture.started(first);
    fixture.sleep(60_000);
    expect(dead(fixture)).toMatchObject([{ tasks: [0] }]);
    const retried = working(tasks(2));
    retried.fixture.receipt(retried.first, failed);
    retried.fixture.control("cancel", "e1");
    retried.fixture.settle();
    for (const attempt of retried.fixture.attempts())
      retried.fixture.receipt(attempt, { status: "cancelled" });
    retried.fixture.settle();
    expect([retried.fixture.status("e1"), dead(retried.fixture)]).toEqual(["cancelled", []]);
  });

  test("are cleared by a retry, and come back if it fails again", () => {
    const { fixture, first } = working(phase("a", { retry: { attempts: 1 } }));
    fixture.receipt(first, failed);
    fixture.settle();
    expect(dead(fixture)).toHaveLength(1);
    fixture.control("retry", "e1");
    fixture.settle();
    expect(dead(fixture)).toEqual([]);
    fixture.receipt(last(fixture), failed);
    fixture.settle();
    expect(dead(fixture)).toMatchObject([{ tasks: [0] }]);
  });
});

describe("dead letters of phases before the one that is tried again", () => {
  test("stay: nothing of theirs is done again", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a", "w.b"], { capacity: 100 });
    fixture.start(fixture.plan([tasks(3, { tolerate: 2 }), phase("b")]), "e1");
    fixture.settle();
    fixture.receipt(fixture.attempts()[0] as Attempt, fatal);
    fixture.receipt(fixture.attempts()[1] as Attempt);
    fixture.receipt(fixture.attempts()[2] as Attempt, fatal);
    fixture.settle();
    const dead = () =>
      fixture.tables
        .listDeadLetters({ execution: "e1" }, { before: null, max: 9 })
        .map(({ tasks: numbers }) => numbers.join());
    fixture.receipt(last(fixture), fatal);
    fixture.settle();
    expect([fixture.status("e1"), dead()]).toEqual(["failed", ["0", "2", "0"]]);
    fixture.control("retry", "e1");
    fixture.settle();
    expect(dead()).toEqual(["2", "0"]);
    fixture.receipt(last(fixture));
    fixture.settle();
    expect([fixture.status("e1"), dead()]).toEqual(["done", ["2", "0"]]);
  });
});

describe("words that changed nothing", () => {
  test("are listed with their verdict, newest last", () => {
    const { fixture, first } = working(tasks(2));
    fixture.receipt(first);
    fixture.settle();
    fixture.now += 5;
    fixture.receipt(first);
    fixture.step({ ...first, item: { ...first.item, claim: 3 } }, "s");
    fixture.settle();
    const { worker } = first;
    const place = { phase: "a", visit: 1, handler: "a", task: 0, attempt: 1, worker };
    expect(fixture.node.dropped("e1")).toEqual([
      { at: fixture.now, what: "receipts", verdict: "duplicate", ...place },
      { at: fixture.now, what: "step", verdict: "stale", ...place },
    ]);
    expect(fixture.node.dropped("nobody")).toEqual([]);
  });

  test("are listed when the execution is over too, until it is purged", () => {
    const { fixture, first } = working(tasks(1));
    fixture.receipt(first);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    fixture.receipt(first);
    fixture.settle();
    expect(fixture.node.dropped("e1").map(({ verdict }) => verdict)).toEqual(["gone"]);
    fixture.node.input({ kind: "purge", ids: ["e1"] }, fixture.now);
    fixture.settle();
    expect(fixture.node.dropped("e1")).toEqual([]);
  });

  test("are at most a hundred", () => {
    const { fixture, first } = working(tasks(2));
    fixture.receipt(first);
    fixture.settle();
    for (let i = 0; i < 150; i++) {
      fixture.now = 2_000_000 + i;
      fixture.receipt(first);
      fixture.settle();
    }
    const dropped = fixture.node.dropped("e1");
    expect([dropped.length, dropped[0]?.at, dropped.at(-1)?.at]).toEqual([100, 2_000_050, 2_000_149]);
  });
});
