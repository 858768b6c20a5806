// Dead letters of executions, and words that changed nothing.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { tasks, working } from "../../../test/fixtures/engine/records-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const fatal = { ...failed, fatal: true } as const;

const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;

describe("dead letters", () => {
  const dead = (bench: NodeFixture) =>
    bench.tables
      .listDeadLetters({}, { before: null, max: 100 })
      .map(({ execution, workflow, project, tasks: of }) => ({ execution, workflow, project, tasks: of }));

  test("name the tasks that failed for good, by the event that says so", () => {
    const { bench } = working(tasks(5, { tolerate: 5, retry: { attempts: 1 } }));
    bench.report("w1", {
      kind: "receipts",
      ...(({ execution, phase: p, visit, handler, round, epoch }) => ({
        execution,
        phase: p,
        visit,
        handler,
        round,
        epoch,
      }))(bench.attempts()[0]?.grant as Attempt["grant"]),
      receipts: bench.attempts().map(({ item }) => ({
        task: item.number,
        attempt: 1,
        claim: 0,
        ms: 1,
        outcome: item.number % 2 === 0 ? fatal : { status: "done", payload: "null" },
      })),
    });
    bench.settle();
    expect(dead(bench)).toEqual([{ execution: "e1", workflow: "w", project: "default", tasks: [0, 2, 4] }]);
    const [{ seq } = { seq: 0 }] = bench.tables.listDeadLetters({}, { before: null, max: 1 });
    expect(bench.journal("e1").find((recorded) => recorded.seq === seq)?.event.kind).toBe("tasks.settled");
  });

  test("are written once where a commit's outcome is not known", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { bench, first } = working();
      bench.holdsCommits = true;
      bench.receipt(first, fatal);
      bench.settle();
      bench[outcome]();
      bench.holdsCommits = false;
      bench.settle();
      expect(dead(bench), outcome).toHaveLength(1);
    }
  });

  test("come of lost attempts and of children too, and not of retries and cancels", () => {
    const { bench, first } = working(phase("a", { retry: { crashes: 1 } }), { local: false });
    bench.started(first);
    bench.sleep(60_000);
    expect(dead(bench)).toMatchObject([{ tasks: [0] }]);
    const retried = working(tasks(2));
    retried.bench.receipt(retried.first, failed);
    retried.bench.control("cancel", "e1");
    retried.bench.settle();
    for (const attempt of retried.bench.attempts()) retried.bench.receipt(attempt, { status: "cancelled" });
    retried.bench.settle();
    expect([retried.bench.status("e1"), dead(retried.bench)]).toEqual(["cancelled", []]);
  });

  test("are cleared by a retry, and come back if it fails again", () => {
    const { bench, first } = working(phase("a", { retry: { attempts: 1 } }));
    bench.receipt(first, failed);
    bench.settle();
    expect(dead(bench)).toHaveLength(1);
    bench.control("retry", "e1");
    bench.settle();
    expect(dead(bench)).toEqual([]);
    bench.receipt(last(bench), failed);
    bench.settle();
    expect(dead(bench)).toMatchObject([{ tasks: [0] }]);
  });
});

describe("dead letters of phases before the one that is tried again", () => {
  test("stay: nothing of theirs is done again", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a", "w.b"], { capacity: 100 });
    bench.start(bench.plan([tasks(3, { tolerate: 2 }), phase("b")]), "e1");
    bench.settle();
    bench.receipt(bench.attempts()[0] as Attempt, fatal);
    bench.receipt(bench.attempts()[1] as Attempt);
    bench.receipt(bench.attempts()[2] as Attempt, fatal);
    bench.settle();
    const dead = () =>
      bench.tables
        .listDeadLetters({ execution: "e1" }, { before: null, max: 9 })
        .map(({ tasks: numbers }) => numbers.join());
    bench.receipt(last(bench), fatal);
    bench.settle();
    expect([bench.status("e1"), dead()]).toEqual(["failed", ["0", "2", "0"]]);
    bench.control("retry", "e1");
    bench.settle();
    expect(dead()).toEqual(["2", "0"]);
    bench.receipt(last(bench));
    bench.settle();
    expect([bench.status("e1"), dead()]).toEqual(["done", ["2", "0"]]);
  });
});

describe("words that changed nothing", () => {
  test("are listed with their verdict, newest last", () => {
    const { bench, first } = working(tasks(2));
    bench.receipt(first);
    bench.settle();
    bench.now += 5;
    bench.receipt(first);
    bench.step({ ...first, item: { ...first.item, claim: 3 } }, "s");
    bench.settle();
    const { worker } = first;
    const place = { phase: "a", visit: 1, handler: "a", task: 0, attempt: 1, worker };
    expect(bench.node.dropped("e1")).toEqual([
      { at: bench.now, what: "receipts", verdict: "duplicate", ...place },
      { at: bench.now, what: "step", verdict: "stale", ...place },
    ]);
    expect(bench.node.dropped("nobody")).toEqual([]);
  });

  test("are listed when the execution is over too, until it is purged", () => {
    const { bench, first } = working(tasks(1));
    bench.receipt(first);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    bench.receipt(first);
    bench.settle();
    expect(bench.node.dropped("e1").map(({ verdict }) => verdict)).toEqual(["gone"]);
    bench.node.input({ kind: "purge", ids: ["e1"] }, bench.now);
    bench.settle();
    expect(bench.node.dropped("e1")).toEqual([]);
  });

  test("are at most a hundred", () => {
    const { bench, first } = working(tasks(2));
    bench.receipt(first);
    bench.settle();
    for (let i = 0; i < 150; i++) {
      bench.now = 2_000_000 + i;
      bench.receipt(first);
      bench.settle();
    }
    const dropped = bench.node.dropped("e1");
    expect([dropped.length, dropped[0]?.at, dropped.at(-1)?.at]).toEqual([100, 2_000_050, 2_000_149]);
  });
});
