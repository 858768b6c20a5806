// Gates open on commit and close on step (DESIGN 4): no answer, grant or notice before its commit; whatever becomes of
// a commit, what was in memory is dropped and the same messages are stepped once on what is stored.
import { describe, expect, test } from "vitest";
import { outside, running } from "../../../test/fixtures/engine/gate-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("before its commit", () => {
  test("a start is neither answered nor dispatched nor told of", () => {
    const bench = new NodeFixture();
    bench.holdsCommits = true;
    bench.join("w1", ["w.a"]);
    const request = bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(bench.waiting).toHaveLength(1);
    expect(outside(bench)).toEqual([]);
    bench.commit();
    bench.settle();
    expect(bench.reply(request)).toEqual({ kind: "applied", seq: 3 });
    expect(bench.attempts()).toHaveLength(1);
    expect(bench.of("progressed")).toMatchObject([{ execution: "e1", seq: 3, end: null }]);
  });

  test("a receipt has no verdict, and the next phase is not dispatched", () => {
    const { bench, first } = running([phase("a"), phase("b")]);
    bench.holdsCommits = true;
    const report = bench.receipt(first[0] as Attempt);
    bench.settle();
    expect(bench.verdicts(report)).toBeUndefined();
    expect(bench.attempts()).toHaveLength(1);
    bench.commit();
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    expect(bench.attempts().map(({ grant }) => grant.phase)).toEqual(["a", "b"]);
  });

  test("a page is not given out", () => {
    const { bench, first } = running([phase("a", { enumerate: { use: "w.a" } })]);
    bench.holdsCommits = true;
    bench.page(first[0] as Attempt, 0, ["x"]);
    bench.settle();
    expect(bench.attempts()).toHaveLength(1);
    bench.commit();
    bench.settle();
    expect(bench.attempts().map(({ item }) => item.task)).toEqual([null, '"x"']);
  });

  test("reads show committed state only", () => {
    const { bench, first } = running([phase("a", { tasks: [0, 1] })]);
    bench.holdsCommits = true;
    bench.receipt(first[0] as Attempt);
    bench.settle();
    bench.input({ kind: "inspect", request: 99, execution: "e1" });
    bench.settle();
    expect(bench.of("inspected")).toHaveLength(0);
    bench.commit();
    bench.settle();
    const [inspected] = bench.of("inspected");
    expect(inspected?.inspection).toMatchObject({ view: { phases: [{ handlers: [{ done: 1 }] }] } });
  });
});

describe("as soon as it is stepped", () => {
  test.each(["pause", "cancel"] as const)("%s stops grants, also from what was ready before", (kind) => {
    const bench = new NodeFixture();
    bench.start(bench.plan([phase("a", { tasks: [0, 1, 2] })]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.control(kind, "e1");
    bench.advance();
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(bench.waiting).toHaveLength(1);
    expect(bench.attempts()).toHaveLength(0);
    bench.commit();
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.attempts()).toHaveLength(0);
  });

  test("failing stops grants", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.start(bench.plan([phase("a", { tasks: [0, 1, 2] })]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", fatal: true, payload: "{}" });
    bench.settle();
    bench.commit();
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.attempts()).toHaveLength(1);
    expect(bench.status("e1")).toBe("failed");
  });

  test("a resume opens them again only after its commit", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([phase("a")]), "e1");
    bench.control("pause", "e1");
    bench.settle();
    bench.join("w1", ["w.a"]);
    bench.holdsCommits = true;
    bench.control("resume", "e1");
    bench.settle();
    expect(bench.attempts()).toHaveLength(0);
    bench.commit();
    bench.settle();
    expect(bench.attempts()).toHaveLength(1);
  });
});

describe("commits under way", () => {
  const writes = (bench: NodeFixture) =>
    bench.waiting.map(({ content }) => content.writes.map(({ execution }) => execution));

  test("are few, and what comes meanwhile goes into the next together", () => {
    const bench = new NodeFixture({ commitsMax: 2 });
    bench.holdsCommits = true;
    const plan = bench.plan([phase("a")]);
    bench.start(plan, "e1");
    bench.settle();
    for (const id of ["e2", "e3"]) bench.start(plan, id);
    bench.settle();
    for (const id of ["e4", "e5", "e6"]) bench.start(plan, id);
    bench.settle();
    expect(writes(bench)).toEqual([["e1"], ["e2", "e3"]]);
    bench.commit();
    bench.settle();
    expect(writes(bench)).toEqual([
      ["e2", "e3"],
      ["e4", "e5", "e6"],
    ]);
  });

  test("are never two for one execution", () => {
    const bench = new NodeFixture({ commitsMax: 4 });
    bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    for (let i = 0; i < 3; i++) {
      bench.signal("e1", "x", i);
      bench.settle();
    }
    expect(writes(bench)).toEqual([["e1"]]);
    bench.commit();
    bench.settle();
    expect(writes(bench)).toEqual([["e1"]]);
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.events("e1", "signalled").map(({ data }) => data)).toEqual(["0", "1", "2"]);
  });

  test.each(["loseCommit", "commitUnheard"] as const)("end each by itself (%s)", (fail) => {
    const bench = new NodeFixture({ commitsMax: 2 });
    bench.holdsCommits = true;
    const plan = bench.plan([phase("a")]);
    const first = bench.start(plan, "e1");
    bench.settle();
    const second = bench.start(plan, "e2");
    bench.settle();
    bench[fail]();
    bench.commit();
    bench.advance();
    expect(bench.reply(second)).toMatchObject({ kind: "applied" });
    expect(bench.reply(first)).toBeUndefined();
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.reply(first)).toMatchObject({ kind: "applied" });
    expect([bench.kinds("e1"), bench.kinds("e2")].map((kinds) => kinds[0])).toEqual(["created", "created"]);
  });

  test("several messages to one execution are one write", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    for (let i = 0; i < 5; i++) bench.signal("e1", "x", i);
    bench.settle();
    expect(bench.waiting).toHaveLength(1);
    expect(bench.waiting[0]?.content.writes).toHaveLength(1);
    bench.commit();
    bench.settle();
    expect(
      bench
        .of("reply")
        .slice(1)
        .map(({ answer }) => answer.kind),
    ).toEqual(Array(5).fill("applied"));
  });

  test("a message that changes nothing needs no commit", () => {
    const { bench } = running([phase("a")]);
    const before = bench.of("commit").length;
    const request = bench.control("resume", "e1");
    bench.settle();
    expect(bench.reply(request)).toMatchObject({ kind: "rejection", code: "wrong_status" });
    expect(bench.of("commit")).toHaveLength(before);
  });
});

describe("messages with an id", () => {
  test("are applied once, also over a restart", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1");
    const first = bench.signal("e1", "x", 1, "s1");
    bench.control("pause", "e1", "p1");
    bench.control("resume", "e1", "r1");
    bench.settle();
    const seq = bench.reply(first);
    bench.restart();
    const again = [bench.signal("e1", "x", 1, "s1"), bench.control("pause", "e1", "p1")];
    bench.settle();
    expect(bench.reply(again[0] as number)).toEqual(seq);
    expect(bench.reply(again[1] as number)).toMatchObject({ kind: "applied" });
    expect(bench.events("e1", "signalled")).toHaveLength(1);
    expect(bench.status("e1")).toBe("running");
  });

  test("a start with the same content finds the same execution; with another it is a conflict", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([phase("a")]);
    const other = bench.plan([phase("a")], "v");
    bench.start(plan, "e1", { input: { a: 1, b: 2 } });
    bench.settle();
    const same = bench.start(plan, "e1", { input: { b: 2, a: 1 } });
    const input = bench.start(plan, "e1", { input: { a: 1 } });
    const name = bench.start(other, "e1", { input: { a: 1, b: 2 } });
    bench.settle();
    expect(bench.of("reply").find(({ request }) => request === same)).toMatchObject({
      existed: true,
      answer: { kind: "applied" },
    });
    expect(bench.reply(input)).toMatchObject({
      code: "conflict",
      message: "execution e1 exists with another input",
    });
    expect(bench.reply(name)).toMatchObject({
      code: "conflict",
      message: 'execution e1 exists with the workflow "w"',
    });
    expect(bench.events("e1", "created")).toHaveLength(1);
  });

  test("two starts of one id at the same moment make one execution", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([phase("a")]);
    const requests = [
      bench.start(plan, "e1"),
      bench.start(plan, "e1"),
      bench.start(plan, "e1", { input: 1 }),
    ];
    bench.settle();
    expect(requests.map((request) => bench.reply(request)?.kind)).toEqual([
      "applied",
      "applied",
      "rejection",
    ]);
    expect(bench.events("e1", "created")).toHaveLength(1);
  });

  test("to an execution that does not exist are refused, and leave nothing behind", () => {
    const bench = new NodeFixture();
    const requests = [bench.signal("e9", "x"), bench.control("cancel", "e9")];
    bench.settle();
    for (const request of requests) expect(bench.reply(request)).toMatchObject({ code: "not_found" });
    expect(bench.node.residentCount).toBe(0);
  });
});
