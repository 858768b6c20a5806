// Children of executions at a node: they are started, many at a time, wait for their workflow, and are steered.
import { describe, expect, test } from "vitest";
import { expectFamilyDone, family, home, KID, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { compilePlan } from "../../kernel/definition/plan.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;

/** Stores the definition of a shape of command documents, which only a submission may start. */
function storeShape(fixture: NodeFixture): string {
  const handlers = { "step-0": { command: { cmd_type: "ADD" }, topic: "ADD_CMD" } };
  const phases = [
    { name: "step-0", handlers },
    { name: "step-1", handlers: { "step-1": handlers["step-0"] } },
  ];
  const { definition } = fixture.plan({ name: "commands-of-0123456789abcdef", phases });
  const plan = compilePlan({ ...definition, commands: "input" });
  fixture.tables.putDefinition(definition.name, plan.hash, JSON.stringify(plan.definition));
  fixture.know(plan);
  return definition.name;
}

describe("a child", () => {
  test.each([[null], [{ steps: null }], [{ steps: [{ cmd_type: "OTHER" }] }]])(
    "is not of a shape of command documents: its input %j could have anything for commands",
    (task) => {
      const fixture = new NodeFixture();
      const workflow = storeShape(fixture);
      fixture.join("w1", ["topic:ADD_CMD"]);
      const parent = fixture.plan([{ name: "a", handlers: { a: { workflow, tasks: [task] } } }]);
      fixture.start(parent, "e1");
      fixture.settle();
      expect(fixture.kinds("e1")).not.toContain("child.started");
      expect(fixture.inspect("e1").why).toContain(workflow);
    },
  );

  test("runs with its task as input, and its output is the task's result", () => {
    const fixture = new NodeFixture();
    fixture.plan({ name: "kid", phases: KID, returns: { use: "sum" } });
    fixture.join("w1", ["w.b", "sum"]);
    fixture.start(fixture.plan(family(2)), "e1");
    const seen = fixture.work(({ grant }) => (grant.use === "sum" ? { payload: `${grant.input}0` } : {}));
    expect(seen.filter(({ grant }) => grant.use === "w.b").map(({ grant }) => grant.input)).toEqual([
      "0",
      "1",
    ]);
    expect(fixture.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual(["00", "10"]);
    expectFamilyDone(fixture, 2);
  });

  test("is started only after its parent's commit, and its letter is gone with its own", () => {
    const { fixture, plan } = home(1, { isServed: false });
    fixture.start(plan, "e1");
    fixture.holdsCommits = true;
    fixture.settle();
    // The parent itself, then its children.
    fixture.commit();
    fixture.settle();
    expect(fixture.tables.load([kid(0)])).toEqual([null]);
    expect(fixture.mail).toEqual([]);
    fixture.commit();
    expect(fixture.mail).toEqual([`${kid(0)} start`]);
    fixture.settle();
    expect(fixture.waiting.map(({ content }) => content.mailTaken?.length)).toEqual([1]);
    fixture.commit();
    expect(fixture.status(kid(0))).toBe("running");
    expect(fixture.mail).toEqual([]);
  });

  test("is of the newest definition of its workflow at the time", () => {
    const { fixture, plan } = home(2, { handler: { concurrency: 1 }, isServed: false });
    fixture.start(plan, "e1");
    fixture.settle();
    const newer = fixture.plan([phase("b"), phase("c")], "kid");
    fixture.input({ kind: "definition-stored", workflow: "kid" });
    fixture.join("w1", ["w.b"], { capacity: 1 });
    fixture.work();
    const hashes = [0, 1].map((task) => fixture.tables.load([kid(task)])[0]?.head.hash);
    expect(hashes[0]).not.toBe(newer.hash);
    expect(hashes[1]).toBe(newer.hash);
  });

  test("comes from an enumeration too, page by page", () => {
    const fixture = new NodeFixture();
    fixture.plan(KID, "kid");
    fixture.join("w1", ["list", "w.b"]);
    fixture.start(
      fixture.plan([{ name: "a", handlers: { a: { workflow: "kid", enumerate: { use: "list" } } } }]),
      "e1",
    );
    fixture.settle();
    const listing = last(fixture);
    expect(listing.grant).toMatchObject({ do: "enumerate", use: "list" });
    fixture.page(listing, 0, [1, 2]);
    fixture.settle();
    expect(fixture.status(kid(1))).toBe("running");
    fixture.page(listing, 2, [3]);
    fixture.settle();
    for (const attempt of fixture.attempts().filter(({ grant }) => grant.do === "process"))
      fixture.receipt(attempt);
    fixture.seal(listing, { total: 3 });
    expectFamilyDone(fixture, 3);
  });

  test("beside others of its phase: the phase ends with the last of all", () => {
    const fixture = new NodeFixture();
    fixture.plan(KID, "kid");
    fixture.join("w1", ["w.b", "u"]);
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { workflow: "kid" }, c: { use: "u" } } }]), "e1");
    const seen = fixture.work(({ grant }) => (grant.use === "u" ? null : {}));
    expect(fixture.status("e1")).toBe("running");
    fixture.receipt(seen.find(({ grant }) => grant.use === "u") as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("of a child, to the depth that is allowed", () => {
    const fixture = new NodeFixture();
    fixture.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }], "kid");
    fixture.start(
      fixture.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }]),
      "e1",
    );
    fixture.settle();
    const heads = fixture.tables.listHeads({}, { before: null, max: 100 });
    expect(heads).toHaveLength(17);
    expect(new Set(heads.map(({ status }) => status))).toEqual(new Set(["failed"]));
    expect(heads.at(-1)?.error).toContain("child_failed");
    expect(heads[0]?.error).toContain("too_deep");
    expect(fixture.mail).toEqual([]);
  });
});

describe("many children", () => {
  test("hold no lease, and their parent no place in memory while it waits for them", () => {
    const { fixture, plan } = home(50, { isServed: false, settings: { idleMax: 0 } });
    fixture.start(plan, "e1");
    fixture.settle();
    expect(fixture.tables.load(["e1"])[0]?.head.want).toBe("time");
    expect(fixture.node.openLeases).toBe(0);
    fixture.join("w1", ["w.b"], { capacity: 7 });
    expectFamilyDone(fixture, 50);
    expect(fixture.node.residentCount).toBe(0);
  });

  test("are at most as many at a time as the handler says, and start in order", () => {
    const { fixture, plan } = home(7, { handler: { concurrency: 3 } });
    fixture.start(plan, "e1");
    let most = 0;
    const seen = fixture.work(() => {
      const { phases } = fixture.inspect("e1").view;
      most = Math.max(most, phases[0]?.handlers[0]?.running ?? 0);
      return {};
    });
    expect(most).toBe(3);
    expect(seen.map(({ grant }) => grant.input)).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
    expectFamilyDone(fixture, 7);
  });

  test("start at most at the handler's rate, over all executions", () => {
    const { fixture, plan } = home(3, { handler: { rate: { limit: 2, per: "10s" } }, isServed: false });
    for (const id of ["e1", "e2"]) fixture.start(plan, id);
    const started = () => ["e1", "e2"].flatMap((id) => fixture.events(id, "child.started")).length;
    fixture.settle();
    expect(started()).toBe(2);
    expect(fixture.inspect("e2").why).toBe('"a" runs 0; 3 more wait 10 s because of the rate of 2 in 10 s.');
    for (const total of [4, 6]) {
      fixture.sleep(9_999);
      expect(started()).toBe(total - 2);
      fixture.sleep(1);
      expect(started()).toBe(total);
    }
    fixture.join("w1", ["w.b"]);
    fixture.work();
    expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["done", "done"]);
  });

  test("more than fit one message, beyond the first page, all come", () => {
    const { fixture, plan } = home(1_200, { settings: { windowMax: 64, idleMax: 8, openTasksAhead: 500 } });
    fixture.start(plan, "e1");
    expectFamilyDone(fixture, 1_200);
  });

  test("come after a restart too, from pages that are not in memory", () => {
    const { fixture, plan } = home(1_100, {
      handler: { concurrency: 100 },
      settings: { pageCacheChars: 100 },
    });
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.restart();
    fixture.join("w1", ["w.b"], { capacity: 100 });
    expectFamilyDone(fixture, 1_100);
  });
});

describe("control", () => {
  test("pause and resume reach the whole family", () => {
    const fixture = new NodeFixture();
    fixture.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    fixture.plan(KID, "grandkid");
    fixture.start(fixture.plan(family(1)), "e1");
    fixture.settle();
    const grandkid = kid(0, kid(0));
    fixture.control("pause", "e1");
    fixture.settle();
    expect(["e1", kid(0), grandkid].map((id) => fixture.status(id))).toEqual(["paused", "paused", "paused"]);
    fixture.join("w1", ["w.b"]);
    fixture.settle();
    expect(fixture.attempts()).toEqual([]);
    fixture.control("resume", "e1");
    fixture.work();
    expect(["e1", kid(0), grandkid].map((id) => fixture.status(id))).toEqual(["done", "done", "done"]);
  });

  test("cancel reaches the whole family, and ends it from the youngest up", () => {
    const fixture = new NodeFixture({ idleMax: 0 });
    fixture.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    fixture.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "grandkid");
    fixture.start(fixture.plan(family(1)), "e1");
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    const grandkid = kid(0, kid(0));
    expect(["e1", kid(0), grandkid].map((id) => fixture.status(id))).toEqual([
      "cancelled",
      "cancelled",
      "cancelled",
    ]);
    expect(fixture.mail).toEqual([]);
    expect(fixture.node.residentCount).toBe(0);
  });

  test("a pause that comes while the parent is about to ask for its children loses none of them", () => {
    const { fixture, plan } = home(2);
    // The definition of the children is known by then.
    fixture.start(plan, "e0");
    fixture.work();
    fixture.holdsCommits = true;
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.control("pause", "e1");
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.status("e1")).toBe("paused");
    expect(fixture.events("e1", "child.started")).toEqual([]);
    fixture.control("resume", "e1");
    expectFamilyDone(fixture, 2);
  });

  test("a pause reaches children that are being started", () => {
    const { fixture, plan } = home(1, { isServed: false });
    fixture.holdsCommits = true;
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.commit();
    fixture.settle();
    fixture.control("pause", "e1");
    fixture.holdsCommits = false;
    fixture.settle();
    expect([fixture.status("e1"), fixture.status(kid(0))]).toEqual(["paused", "paused"]);
  });

  test("a child refuses a direct retry, and says whom to ask", () => {
    const { fixture, plan } = home(1, { handler: { retry: { attempts: 1 } } });
    fixture.start(plan, "e1");
    fixture.work(() => failed);
    const request = fixture.control("retry", kid(0));
    fixture.settle();
    expect(fixture.reply(request)).toMatchObject({
      code: "wrong_status",
      hint: "the execution is a child: retry its parent e1",
    });
  });

  test("a child that is cancelled by itself fails its task at once", () => {
    const { fixture, plan } = home(1, { handler: { retry: { attempts: 9 } }, isServed: false });
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.control("cancel", kid(0));
    fixture.settle();
    expect([fixture.status(kid(0)), fixture.status("e1")]).toEqual(["cancelled", "failed"]);
  });
});

describe("a workflow that is not there", () => {
  const missing = (settings: object = {}) => {
    const fixture = new NodeFixture(settings);
    fixture.join("w1", ["w.b"]);
    fixture.start(fixture.plan(family(2)), "e1");
    fixture.settle();
    return fixture;
  };

  test("is waited for with a why; nothing spins", () => {
    const fixture = missing();
    const before = fixture.outputs.length;
    fixture.sleep(600_000);
    const asked = fixture.outputs.slice(before).map(({ kind }) => kind);
    expect(asked.filter((kind) => kind === "find-workflow" || kind === "commit")).toEqual([]);
    expect(fixture.inspect("e1").why).toBe('"a" waits for a workflow: there is none with the name "kid".');
  });

  test("goes on when its definition is stored, also if it was let go of meanwhile", () => {
    for (const settings of [{}, { idleMax: 0 }]) {
      const fixture = missing(settings);
      if ("idleMax" in settings) expect(fixture.node.residentCount).toBe(0);
      fixture.plan(KID, "kid");
      fixture.input({ kind: "definition-stored", workflow: "kid" });
      expectFamilyDone(fixture, 2);
    }
  });

  test("is asked for again where others may have stored it, now and then", () => {
    const fixture = missing();
    const members = {
      kind: "members",
      self: "n1",
      live: ["n1"],
      ended: {},
      epochs: new Map(),
      reads: 9,
    } as const;
    fixture.input(members);
    fixture.settle();
    fixture.plan(KID, "kid");
    fixture.input(members);
    fixture.settle();
    expect(fixture.status("e1")).toBe("running");
    fixture.sleep(30_000);
    fixture.input(members);
    expectFamilyDone(fixture, 2);
  });

  test("that is stored while it is looked for is found", () => {
    const fixture = new NodeFixture();
    fixture.held.add("find-workflow");
    fixture.join("w1", ["w.b"]);
    fixture.start(fixture.plan(family(2)), "e1");
    fixture.settle();
    fixture.plan(KID, "kid");
    fixture.input({ kind: "definition-stored", workflow: "kid" });
    fixture.settle();
    fixture.held.clear();
    fixture.answer("find-workflow");
    expectFamilyDone(fixture, 2);
  });

  test("does not keep out what has a workflow", () => {
    const fixture = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = fixture.plan(family(1), "waiting");
    for (let i = 0; i < 30; i++) fixture.start(plan, `x${i}`);
    fixture.settle();
    expect(fixture.node.residentCount).toBeLessThanOrEqual(8 + 4);
    fixture.join("w1", ["w.b"]);
    for (let i = 0; i < 30; i++) fixture.start(fixture.plan(KID, "other"), `o${i}`);
    fixture.work();
    for (let i = 0; i < 30; i++) expect(fixture.status(`o${i}`)).toBe("done");
  });
});
