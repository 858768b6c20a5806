// What a node does when a commit fails, is fenced, or has happened already.
import { describe, expect, test } from "vitest";
import { outside, running } from "../../../test/fixtures/engine/gate-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("a commit that failed", () => {
  const ways = {
    "nothing written": (fixture: NodeFixture) => fixture.loseCommit(true),
    "unknown, and it was not written": (fixture: NodeFixture) => fixture.loseCommit(false),
    "unknown, and it was written": (fixture: NodeFixture) => fixture.commitUnheard(),
  };

  describe.each(Object.entries(ways))("(%s)", (_name, fail) => {
    test("lets a start be stepped again, once: one execution, one answer", () => {
      const fixture = new NodeFixture();
      fixture.holdsCommits = true;
      const request = fixture.start(fixture.plan([phase("a")]), "e1");
      fixture.settle();
      fail(fixture);
      expect(outside(fixture)).toEqual([]);
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.of("reply").filter((output) => output.request === request)).toHaveLength(1);
      expect(fixture.reply(request)).toMatchObject({ kind: "applied", seq: 3 });
      expect(fixture.kinds("e1")).toEqual(["created", "phase.started", "handler.started"]);
    });

    test("counts a receipt once, and goes on", () => {
      const { fixture, first } = running([phase("a", { tasks: [0, 1] }), phase("b")]);
      fixture.holdsCommits = true;
      const report = fixture.receipt(first[0] as Attempt, { payload: "7" });
      fixture.settle();
      fail(fixture);
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.verdicts(report)?.flat()).toHaveLength(1);
      expect(fixture.events("e1", "tasks.settled")).toHaveLength(1);
      fixture.receipt(first[1] as Attempt);
      fixture.settle();
      expect(fixture.attempts().at(-1)?.grant.phase).toBe("b");
      fixture.work();
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
      expect(fixture.status("e1")).toBe("done");
    });

    test("keeps the leases of attempts that run on, and takes their receipts", () => {
      const { fixture, first } = running([phase("a", { tasks: [0, 1, 2] })]);
      fixture.started(...first);
      fixture.settle();
      fixture.holdsCommits = true;
      fixture.receipt(first[0] as Attempt);
      fixture.settle();
      fail(fixture);
      fixture.settle();
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.attempts()).toHaveLength(3);
      const reports = [1, 2].map((i) => fixture.receipt(first[i] as Attempt));
      fixture.settle();
      expect(reports.map((report) => fixture.verdicts(report))).toEqual([[["accepted"]], [["accepted"]]]);
      expect(fixture.status("e1")).toBe("done");
      expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    });

    test("applies a signal once", () => {
      const fixture = new NodeFixture();
      fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "go" } } }, phase("b")]), "e1");
      fixture.settle();
      fixture.holdsCommits = true;
      const request = fixture.signal("e1", "go", 1, "s1");
      fixture.settle();
      fail(fixture);
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.reply(request)).toMatchObject({ kind: "applied" });
      expect(fixture.events("e1", "signalled")).toHaveLength(1);
      expect(fixture.events("e1", "phase.started")).toHaveLength(2);
    });

    test("ends one execution as another goes on: each by its own rows", () => {
      const fixture = new NodeFixture();
      fixture.join("w1", ["w.a"]);
      const plan = fixture.plan([phase("a")]);
      for (const id of ["e1", "e2", "e3"]) fixture.start(plan, id);
      fixture.settle();
      fixture.holdsCommits = true;
      for (const attempt of fixture.attempts()) fixture.receipt(attempt);
      fixture.settle();
      fail(fixture);
      fixture.holdsCommits = false;
      fixture.settle();
      expect(["e1", "e2", "e3"].map((id) => fixture.status(id))).toEqual(["done", "done", "done"]);
      for (const id of ["e1", "e2", "e3"]) expect(fixture.events(id, "finished")).toHaveLength(1);
    });

    test("can fail again and again", () => {
      const fixture = new NodeFixture();
      fixture.join("w1", ["w.a"]);
      fixture.holdsCommits = true;
      const request = fixture.start(fixture.plan([phase("a")]), "e1");
      for (let i = 0; i < 5; i++) {
        fixture.settle();
        if (fixture.waiting.length > 0) fail(fixture);
      }
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.reply(request)).toMatchObject({ kind: "applied" });
      expect(fixture.attempts()).toHaveLength(1);
    });
  });
});

test("a fenced commit ends everything: nothing goes out any more", () => {
  const { fixture, first } = running([phase("a", { tasks: [0, 1] })]);
  fixture.holdsCommits = true;
  const report = fixture.receipt(first[0] as Attempt);
  fixture.settle();
  fixture.tables.open();
  const before = outside(fixture).length;
  fixture.commit();
  fixture.settle();
  expect(fixture.of("fenced")).toHaveLength(1);
  expect(fixture.verdicts(report)).toEqual([["elsewhere"]]);
  // The work of this worker does not count any more: the worker gets a cancel besides the verdict.
  expect(outside(fixture)).toHaveLength(before + 2);
  fixture.start(fixture.plan([phase("a")]), "e9");
  fixture.holdsCommits = false;
  fixture.settle();
  expect(fixture.attempts().filter(({ grant }) => grant.execution === "e9")).toHaveLength(0);
});
