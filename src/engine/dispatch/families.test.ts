// Children of executions at a node: they are started, many at a time, wait for their workflow, and are steered.
import { describe, expect, test } from "vitest";
import { expectFamilyDone, family, home, KID, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;

describe("a child", () => {
  test("runs with its task as input, and its output is the task's result", () => {
    const bench = new NodeFixture();
    bench.plan({ name: "kid", phases: KID, returns: { use: "sum" } });
    bench.join("w1", ["w.b", "sum"]);
    bench.start(bench.plan(family(2)), "e1");
    const seen = bench.work(({ grant }) => (grant.use === "sum" ? { payload: `${grant.input}0` } : {}));
    expect(seen.filter(({ grant }) => grant.use === "w.b").map(({ grant }) => grant.input)).toEqual([
      "0",
      "1",
    ]);
    expect(bench.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual(["00", "10"]);
    expectFamilyDone(bench, 2);
  });

  test("is started only after its parent's commit, and its letter is gone with its own", () => {
    const { bench, plan } = home(1, { isServed: false });
    bench.start(plan, "e1");
    bench.holdsCommits = true;
    bench.settle();
    // The parent itself, then its children.
    bench.commit();
    bench.settle();
    expect(bench.tables.load([kid(0)])).toEqual([null]);
    expect(bench.letters).toEqual([]);
    bench.commit();
    expect(bench.letters).toEqual([`${kid(0)} start`]);
    bench.settle();
    expect(bench.waiting.map(({ content }) => content.mailTaken?.length)).toEqual([1]);
    bench.commit();
    expect(bench.status(kid(0))).toBe("running");
    expect(bench.letters).toEqual([]);
  });

  test("is of the newest definition of its workflow at the time", () => {
    const { bench, plan } = home(2, { handler: { concurrency: 1 }, isServed: false });
    bench.start(plan, "e1");
    bench.settle();
    const newer = bench.plan([phase("b"), phase("c")], "kid");
    bench.input({ kind: "definition-stored", workflow: "kid" });
    bench.join("w1", ["w.b"], { capacity: 1 });
    bench.work();
    const hashes = [0, 1].map((task) => bench.tables.load([kid(task)])[0]?.head.hash);
    expect(hashes[0]).not.toBe(newer.hash);
    expect(hashes[1]).toBe(newer.hash);
  });

  test("comes from an enumeration too, page by page", () => {
    const bench = new NodeFixture();
    bench.plan(KID, "kid");
    bench.join("w1", ["list", "w.b"]);
    bench.start(
      bench.plan([{ name: "a", handlers: { a: { workflow: "kid", enumerate: { use: "list" } } } }]),
      "e1",
    );
    bench.settle();
    const listing = last(bench);
    expect(listing.grant).toMatchObject({ do: "enumerate", use: "list" });
    bench.page(listing, 0, [1, 2]);
    bench.settle();
    expect(bench.status(kid(1))).toBe("running");
    bench.page(listing, 2, [3]);
    bench.settle();
    for (const attempt of bench.attempts().filter(({ grant }) => grant.do === "process"))
      bench.receipt(attempt);
    bench.seal(listing, { total: 3 });
    expectFamilyDone(bench, 3);
  });

  test("beside others of its phase: the phase ends with the last of all", () => {
    const bench = new NodeFixture();
    bench.plan(KID, "kid");
    bench.join("w1", ["w.b", "u"]);
    bench.start(bench.plan([{ name: "a", handlers: { a: { workflow: "kid" }, c: { use: "u" } } }]), "e1");
    const seen = bench.work(({ grant }) => (grant.use === "u" ? null : {}));
    expect(bench.status("e1")).toBe("running");
    bench.receipt(seen.find(({ grant }) => grant.use === "u") as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("of a child, to the depth that is allowed", () => {
    const bench = new NodeFixture();
    bench.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }], "kid");
    bench.start(
      bench.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }]),
      "e1",
    );
    bench.settle();
    const heads = bench.tables.listHeads({}, { before: null, max: 100 });
    expect(heads).toHaveLength(17);
    expect(new Set(heads.map(({ status }) => status))).toEqual(new Set(["failed"]));
    expect(heads.at(-1)?.error).toContain("child_failed");
    expect(heads[0]?.error).toContain("too_deep");
    expect(bench.letters).toEqual([]);
  });
});

describe("many children", () => {
  test("hold no lease, and their parent no place in memory while it waits for them", () => {
    const { bench, plan } = home(50, { isServed: false, settings: { idleMax: 0 } });
    bench.start(plan, "e1");
    bench.settle();
    expect(bench.tables.load(["e1"])[0]?.head.want).toBe("time");
    expect(bench.node.openLeases).toBe(0);
    bench.join("w1", ["w.b"], { capacity: 7 });
    expectFamilyDone(bench, 50);
    expect(bench.node.residentCount).toBe(0);
  });

  test("are at most as many at a time as the handler says, and start in order", () => {
    const { bench, plan } = home(7, { handler: { concurrency: 3 } });
    bench.start(plan, "e1");
    let most = 0;
    const seen = bench.work(() => {
      const { phases } = bench.inspect("e1").view;
      most = Math.max(most, phases[0]?.handlers[0]?.running ?? 0);
      return {};
    });
    expect(most).toBe(3);
    expect(seen.map(({ grant }) => grant.input)).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
    expectFamilyDone(bench, 7);
  });

  test("start at most at the handler's rate, over all executions", () => {
    const { bench, plan } = home(3, { handler: { rate: { limit: 2, per: "10s" } }, isServed: false });
    for (const id of ["e1", "e2"]) bench.start(plan, id);
    const started = () => ["e1", "e2"].flatMap((id) => bench.events(id, "child.started")).length;
    bench.settle();
    expect(started()).toBe(2);
    expect(bench.inspect("e2").why).toBe('"a" runs 0; 3 more wait 10 s because of the rate of 2 in 10 s.');
    for (const total of [4, 6]) {
      bench.sleep(9_999);
      expect(started()).toBe(total - 2);
      bench.sleep(1);
      expect(started()).toBe(total);
    }
    bench.join("w1", ["w.b"]);
    bench.work();
    expect([bench.status("e1"), bench.status("e2")]).toEqual(["done", "done"]);
  });

  test("more than fit one message, beyond the first page, all come", () => {
    const { bench, plan } = home(1_200, { settings: { windowMax: 64, idleMax: 8, openTasksAhead: 500 } });
    bench.start(plan, "e1");
    expectFamilyDone(bench, 1_200);
  });

  test("come after a restart too, from pages that are not in memory", () => {
    const { bench, plan } = home(1_100, { handler: { concurrency: 100 }, settings: { pageCacheChars: 100 } });
    bench.start(plan, "e1");
    bench.settle();
    bench.restart();
    bench.join("w1", ["w.b"], { capacity: 100 });
    expectFamilyDone(bench, 1_100);
  });
});

describe("control", () => {
  test("pause and resume reach the whole family", () => {
    const bench = new NodeFixture();
    bench.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    bench.plan(KID, "grandkid");
    bench.start(bench.plan(family(1)), "e1");
    bench.settle();
    const grandkid = kid(0, kid(0));
    bench.control("pause", "e1");
    bench.settle();
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual(["paused", "paused", "paused"]);
    bench.join("w1", ["w.b"]);
    bench.settle();
    expect(bench.attempts()).toEqual([]);
    bench.control("resume", "e1");
    bench.work();
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual(["done", "done", "done"]);
  });

  test("cancel reaches the whole family, and ends it from the youngest up", () => {
    const bench = new NodeFixture({ idleMax: 0 });
    bench.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    bench.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "grandkid");
    bench.start(bench.plan(family(1)), "e1");
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    const grandkid = kid(0, kid(0));
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual([
      "cancelled",
      "cancelled",
      "cancelled",
    ]);
    expect(bench.letters).toEqual([]);
    expect(bench.node.residentCount).toBe(0);
  });

  test("a pause that comes while the parent is about to ask for its children loses none of them", () => {
    const { bench, plan } = home(2);
    // The definition of the children is known by then.
    bench.start(plan, "e0");
    bench.work();
    bench.holdsCommits = true;
    bench.start(plan, "e1");
    bench.settle();
    bench.control("pause", "e1");
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.status("e1")).toBe("paused");
    expect(bench.events("e1", "child.started")).toEqual([]);
    bench.control("resume", "e1");
    expectFamilyDone(bench, 2);
  });

  test("a pause reaches children that are being started", () => {
    const { bench, plan } = home(1, { isServed: false });
    bench.holdsCommits = true;
    bench.start(plan, "e1");
    bench.settle();
    bench.commit();
    bench.settle();
    bench.control("pause", "e1");
    bench.holdsCommits = false;
    bench.settle();
    expect([bench.status("e1"), bench.status(kid(0))]).toEqual(["paused", "paused"]);
  });

  test("a child refuses a direct retry, and says whom to ask", () => {
    const { bench, plan } = home(1, { handler: { retry: { attempts: 1 } } });
    bench.start(plan, "e1");
    bench.work(() => failed);
    const request = bench.control("retry", kid(0));
    bench.settle();
    expect(bench.reply(request)).toMatchObject({
      code: "wrong_status",
      hint: "it is a child: retry its parent e1",
    });
  });

  test("a child that is cancelled by itself fails its task at once", () => {
    const { bench, plan } = home(1, { handler: { retry: { attempts: 9 } }, isServed: false });
    bench.start(plan, "e1");
    bench.settle();
    bench.control("cancel", kid(0));
    bench.settle();
    expect([bench.status(kid(0)), bench.status("e1")]).toEqual(["cancelled", "failed"]);
  });
});

describe("a workflow that is not there", () => {
  const missing = (settings: object = {}) => {
    const bench = new NodeFixture(settings);
    bench.join("w1", ["w.b"]);
    bench.start(bench.plan(family(2)), "e1");
    bench.settle();
    return bench;
  };

  test("is waited for with a why; nothing spins", () => {
    const bench = missing();
    const before = bench.outputs.length;
    bench.sleep(600_000);
    const asked = bench.outputs.slice(before).map(({ kind }) => kind);
    expect(asked.filter((kind) => kind === "find-workflow" || kind === "commit")).toEqual([]);
    expect(bench.inspect("e1").why).toBe('"a" waits for a workflow: there is none with the name "kid".');
  });

  test("goes on when its definition is stored, also if it was let go of meanwhile", () => {
    for (const settings of [{}, { idleMax: 0 }]) {
      const bench = missing(settings);
      if ("idleMax" in settings) expect(bench.node.residentCount).toBe(0);
      bench.plan(KID, "kid");
      bench.input({ kind: "definition-stored", workflow: "kid" });
      expectFamilyDone(bench, 2);
    }
  });

  test("is asked for again where others may have stored it, now and then", () => {
    const bench = missing();
    const members = {
      kind: "members",
      self: "n1",
      live: ["n1"],
      ended: {},
      epochs: new Map(),
      reads: 9,
    } as const;
    bench.input(members);
    bench.settle();
    bench.plan(KID, "kid");
    bench.input(members);
    bench.settle();
    expect(bench.status("e1")).toBe("running");
    bench.sleep(30_000);
    bench.input(members);
    expectFamilyDone(bench, 2);
  });

  test("that is stored while it is looked for is found", () => {
    const bench = new NodeFixture();
    bench.held.add("find-workflow");
    bench.join("w1", ["w.b"]);
    bench.start(bench.plan(family(2)), "e1");
    bench.settle();
    bench.plan(KID, "kid");
    bench.input({ kind: "definition-stored", workflow: "kid" });
    bench.settle();
    bench.held.clear();
    bench.answer("find-workflow");
    expectFamilyDone(bench, 2);
  });

  test("does not keep out what has a workflow", () => {
    const bench = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = bench.plan(family(1), "waiting");
    for (let i = 0; i < 30; i++) bench.start(plan, `x${i}`);
    bench.settle();
    expect(bench.node.residentCount).toBeLessThanOrEqual(8 + 4);
    bench.join("w1", ["w.b"]);
    for (let i = 0; i < 30; i++) bench.start(bench.plan(KID, "other"), `o${i}`);
    bench.work();
    for (let i = 0; i < 30; i++) expect(bench.status(`o${i}`)).toBe("done");
  });
});
