// Gates open on commit and close on step (DESIGN 4): no answer, grant or notice before its commit; whatever becomes of
// a commit, the state in memory is dropped and the same messages are stepped once on the stored state.
import { describe, expect, test } from "vitest";
import { outside, running } from "../../../test/fixtures/engine/gate-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("before its commit", () => {
  test("a start is neither answered nor dispatched nor told of", () => {
    const fixture = new NodeFixture();
    fixture.holdsCommits = true;
    fixture.join("w1", ["w.a"]);
    const request = fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(fixture.waiting).toHaveLength(1);
    expect(outside(fixture)).toEqual([]);
    fixture.commit();
    fixture.settle();
    expect(fixture.reply(request)).toEqual({ kind: "applied", seq: 3 });
    expect(fixture.attempts()).toHaveLength(1);
    expect(fixture.of("progressed")).toMatchObject([{ execution: "e1", seq: 3, end: null }]);
  });

  test("a receipt has no verdict, and the next phase is not dispatched", () => {
    const { fixture, first } = running([phase("a"), phase("b")]);
    fixture.holdsCommits = true;
    const report = fixture.receipt(first[0] as Attempt);
    fixture.settle();
    expect(fixture.verdicts(report)).toBeUndefined();
    expect(fixture.attempts()).toHaveLength(1);
    fixture.commit();
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    expect(fixture.attempts().map(({ grant }) => grant.phase)).toEqual(["a", "b"]);
  });

  test("a page is not given out", () => {
    const { fixture, first } = running([phase("a", { enumerate: { use: "w.a" } })]);
    fixture.holdsCommits = true;
    fixture.page(first[0] as Attempt, 0, ["x"]);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
    fixture.commit();
    fixture.settle();
    expect(fixture.attempts().map(({ item }) => item.task)).toEqual([null, '"x"']);
  });

  test("reads show committed state only", () => {
    const { fixture, first } = running([phase("a", { tasks: [0, 1] })]);
    fixture.holdsCommits = true;
    fixture.receipt(first[0] as Attempt);
    fixture.settle();
    fixture.input({ kind: "inspect", request: 99, execution: "e1" });
    fixture.settle();
    expect(fixture.of("inspected")).toHaveLength(0);
    fixture.commit();
    fixture.settle();
    const [inspected] = fixture.of("inspected");
    expect(inspected?.inspection).toMatchObject({ view: { phases: [{ handlers: [{ done: 1 }] }] } });
  });
});

describe("as soon as it is stepped", () => {
  test.each(["pause", "cancel"] as const)("%s stops grants, also from what was ready before", (kind) => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1, 2] })]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.control(kind, "e1");
    fixture.advance();
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(fixture.waiting).toHaveLength(1);
    expect(fixture.attempts()).toHaveLength(0);
    fixture.commit();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(0);
  });

  test("failing stops grants", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1, 2] })]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", fatal: true, payload: "{}" });
    fixture.settle();
    fixture.commit();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
    expect(fixture.status("e1")).toBe("failed");
  });

  test("a resume opens them again only after its commit", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.control("pause", "e1");
    fixture.settle();
    fixture.join("w1", ["w.a"]);
    fixture.holdsCommits = true;
    fixture.control("resume", "e1");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(0);
    fixture.commit();
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
  });
});

describe("commits under way", () => {
  const writes = (fixture: NodeFixture) =>
    fixture.waiting.map(({ content }) => content.writes.map(({ execution }) => execution));

  test("are few, and what comes meanwhile goes into the next together", () => {
    const fixture = new NodeFixture({ commitsMax: 2 });
    fixture.holdsCommits = true;
    const plan = fixture.plan([phase("a")]);
    fixture.start(plan, "e1");
    fixture.settle();
    for (const id of ["e2", "e3"]) fixture.start(plan, id);
    fixture.settle();
    for (const id of ["e4", "e5", "e6"]) fixture.start(plan, id);
    fixture.settle();
    expect(writes(fixture)).toEqual([["e1"], ["e2", "e3"]]);
    fixture.commit();
    fixture.settle();
    expect(writes(fixture)).toEqual([
      ["e2", "e3"],
      ["e4", "e5", "e6"],
    ]);
  });

  test("are never two for one execution", () => {
    const fixture = new NodeFixture({ commitsMax: 4 });
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    for (let i = 0; i < 3; i++) {
      fixture.signal("e1", "x", i);
      fixture.settle();
    }
    expect(writes(fixture)).toEqual([["e1"]]);
    fixture.commit();
    fixture.settle();
    expect(writes(fixture)).toEqual([["e1"]]);
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.events("e1", "signalled").map(({ data }) => data)).toEqual(["0", "1", "2"]);
  });

  test.each(["loseCommit", "commitUnheard"] as const)("end each by itself (%s)", (fail) => {
    const fixture = new NodeFixture({ commitsMax: 2 });
    fixture.holdsCommits = true;
    const plan = fixture.plan([phase("a")]);
    const first = fixture.start(plan, "e1");
    fixture.settle();
    const second = fixture.start(plan, "e2");
    fixture.settle();
    fixture[fail]();
    fixture.commit();
    fixture.advance();
    expect(fixture.reply(second)).toMatchObject({ kind: "applied" });
    expect(fixture.reply(first)).toBeUndefined();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.reply(first)).toMatchObject({ kind: "applied" });
    expect([fixture.kinds("e1"), fixture.kinds("e2")].map((kinds) => kinds[0])).toEqual([
      "created",
      "created",
    ]);
  });

  test("several messages to one execution are one write", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    for (let i = 0; i < 5; i++) fixture.signal("e1", "x", i);
    fixture.settle();
    expect(fixture.waiting).toHaveLength(1);
    expect(fixture.waiting[0]?.content.writes).toHaveLength(1);
    fixture.commit();
    fixture.settle();
    expect(
      fixture
        .of("reply")
        .slice(1)
        .map(({ answer }) => answer.kind),
    ).toEqual(Array(5).fill("applied"));
  });

  test("a message that changes nothing needs no commit", () => {
    const { fixture } = running([phase("a")]);
    const before = fixture.of("commit").length;
    const request = fixture.control("resume", "e1");
    fixture.settle();
    expect(fixture.reply(request)).toMatchObject({ kind: "rejection", code: "wrong_status" });
    expect(fixture.of("commit")).toHaveLength(before);
  });
});

describe("messages with an id", () => {
  test("are applied once, also over a restart", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    const first = fixture.signal("e1", "x", 1, "s1");
    fixture.control("pause", "e1", "p1");
    fixture.control("resume", "e1", "r1");
    fixture.settle();
    const seq = fixture.reply(first);
    fixture.restart();
    const again = [fixture.signal("e1", "x", 1, "s1"), fixture.control("pause", "e1", "p1")];
    fixture.settle();
    expect(fixture.reply(again[0] as number)).toEqual(seq);
    expect(fixture.reply(again[1] as number)).toMatchObject({ kind: "applied" });
    expect(fixture.events("e1", "signalled")).toHaveLength(1);
    expect(fixture.status("e1")).toBe("running");
  });

  test("a start with the same content finds the same execution; with another it is a conflict", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a")]);
    const other = fixture.plan([phase("a")], "v");
    fixture.start(plan, "e1", { input: { a: 1, b: 2 } });
    fixture.settle();
    const same = fixture.start(plan, "e1", { input: { b: 2, a: 1 } });
    const input = fixture.start(plan, "e1", { input: { a: 1 } });
    const name = fixture.start(other, "e1", { input: { a: 1, b: 2 } });
    fixture.settle();
    expect(fixture.of("reply").find(({ request }) => request === same)).toMatchObject({
      existed: true,
      answer: { kind: "applied" },
    });
    expect(fixture.reply(input)).toMatchObject({
      code: "conflict",
      message: "execution e1 exists with another input",
    });
    expect(fixture.reply(name)).toMatchObject({
      code: "conflict",
      message: 'execution e1 exists with the workflow "w"',
    });
    expect(fixture.events("e1", "created")).toHaveLength(1);
  });

  test("two starts of one id at the same moment make one execution", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a")]);
    const requests = [
      fixture.start(plan, "e1"),
      fixture.start(plan, "e1"),
      fixture.start(plan, "e1", { input: 1 }),
    ];
    fixture.settle();
    expect(requests.map((request) => fixture.reply(request)?.kind)).toEqual([
      "applied",
      "applied",
      "rejection",
    ]);
    expect(fixture.events("e1", "created")).toHaveLength(1);
  });

  test("to an execution that does not exist are refused, and leave nothing behind", () => {
    const fixture = new NodeFixture();
    const requests = [fixture.signal("e9", "x"), fixture.control("cancel", "e9")];
    fixture.settle();
    for (const request of requests) expect(fixture.reply(request)).toMatchObject({ code: "not_found" });
    expect(fixture.node.residentCount).toBe(0);
  });
});
