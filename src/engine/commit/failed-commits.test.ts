// What a node does when a commit fails, is fenced, or has happened already.
import { describe, expect, test } from "vitest";
import { outside, running } from "../../../test/fixtures/engine/gate-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("a commit that failed", () => {
  const ways = {
    "nothing written": (bench: NodeFixture) => bench.loseCommit(true),
    "unknown, and it was not written": (bench: NodeFixture) => bench.loseCommit(false),
    "unknown, and it was written": (bench: NodeFixture) => bench.commitUnheard(),
  };

  describe.each(Object.entries(ways))("(%s)", (_name, fail) => {
    test("lets a start be stepped again, once: one execution, one answer", () => {
      const bench = new NodeFixture();
      bench.holdsCommits = true;
      const request = bench.start(bench.plan([phase("a")]), "e1");
      bench.settle();
      fail(bench);
      expect(outside(bench)).toEqual([]);
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.of("reply").filter((output) => output.request === request)).toHaveLength(1);
      expect(bench.reply(request)).toMatchObject({ kind: "applied", seq: 3 });
      expect(bench.kinds("e1")).toEqual(["created", "phase.started", "handler.started"]);
    });

    test("counts a receipt once, and goes on", () => {
      const { bench, first } = running([phase("a", { tasks: [0, 1] }), phase("b")]);
      bench.holdsCommits = true;
      const report = bench.receipt(first[0] as Attempt, { payload: "7" });
      bench.settle();
      fail(bench);
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.verdicts(report)?.flat()).toHaveLength(1);
      expect(bench.events("e1", "tasks.settled")).toHaveLength(1);
      bench.receipt(first[1] as Attempt);
      bench.settle();
      expect(bench.attempts().at(-1)?.grant.phase).toBe("b");
      bench.work();
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
      expect(bench.status("e1")).toBe("done");
    });

    test("keeps the leases of attempts that run on, and takes their receipts", () => {
      const { bench, first } = running([phase("a", { tasks: [0, 1, 2] })]);
      bench.started(...first);
      bench.settle();
      bench.holdsCommits = true;
      bench.receipt(first[0] as Attempt);
      bench.settle();
      fail(bench);
      bench.settle();
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.attempts()).toHaveLength(3);
      const reports = [1, 2].map((i) => bench.receipt(first[i] as Attempt));
      bench.settle();
      expect(reports.map((report) => bench.verdicts(report))).toEqual([[["accepted"]], [["accepted"]]]);
      expect(bench.status("e1")).toBe("done");
      expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    });

    test("applies a signal once", () => {
      const bench = new NodeFixture();
      bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "go" } } }, phase("b")]), "e1");
      bench.settle();
      bench.holdsCommits = true;
      const request = bench.signal("e1", "go", 1, "s1");
      bench.settle();
      fail(bench);
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.reply(request)).toMatchObject({ kind: "applied" });
      expect(bench.events("e1", "signalled")).toHaveLength(1);
      expect(bench.events("e1", "phase.started")).toHaveLength(2);
    });

    test("ends one execution as another goes on: each by its own rows", () => {
      const bench = new NodeFixture();
      bench.join("w1", ["w.a"]);
      const plan = bench.plan([phase("a")]);
      for (const id of ["e1", "e2", "e3"]) bench.start(plan, id);
      bench.settle();
      bench.holdsCommits = true;
      for (const attempt of bench.attempts()) bench.receipt(attempt);
      bench.settle();
      fail(bench);
      bench.holdsCommits = false;
      bench.settle();
      expect(["e1", "e2", "e3"].map((id) => bench.status(id))).toEqual(["done", "done", "done"]);
      for (const id of ["e1", "e2", "e3"]) expect(bench.events(id, "finished")).toHaveLength(1);
    });

    test("can fail again and again", () => {
      const bench = new NodeFixture();
      bench.join("w1", ["w.a"]);
      bench.holdsCommits = true;
      const request = bench.start(bench.plan([phase("a")]), "e1");
      for (let i = 0; i < 5; i++) {
        bench.settle();
        if (bench.waiting.length > 0) fail(bench);
      }
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.reply(request)).toMatchObject({ kind: "applied" });
      expect(bench.attempts()).toHaveLength(1);
    });
  });
});

test("a fenced commit ends everything: nothing goes out any more", () => {
  const { bench, first } = running([phase("a", { tasks: [0, 1] })]);
  bench.holdsCommits = true;
  const report = bench.receipt(first[0] as Attempt);
  bench.settle();
  bench.tables.open();
  const before = outside(bench).length;
  bench.commit();
  bench.settle();
  expect(bench.of("fenced")).toHaveLength(1);
  expect(bench.verdicts(report)).toEqual([["elsewhere"]]);
  // What its worker does is of no use any more: it is told so, besides the verdict.
  expect(outside(bench)).toHaveLength(before + 2);
  bench.start(bench.plan([phase("a")]), "e9");
  bench.holdsCommits = false;
  bench.settle();
  expect(bench.attempts().filter(({ grant }) => grant.execution === "e9")).toHaveLength(0);
});
