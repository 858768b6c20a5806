// What is in the store and has work comes into memory, whatever happens while the store is being looked at; and what is
// being purged does not come in between (DESIGN 2.8, 4). All of these were found by the simulator.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;
const executions = (fixture: NodeFixture) => fixture.attempts().map(({ grant }) => grant.execution);

describe("a scan for work", () => {
  test("that is under way when a worker joins is followed by another", () => {
    const fixture = new NodeFixture({ windowMax: 1, idleMax: 0 });
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { use: "rare" } } }], "rare"), "r1");
    fixture.settle();
    // The scan reads all executions with work, and skips r1, which no worker serves.
    fixture.join("w3", ["other"]);
    const plan = fixture.plan([phase("a")]);
    fixture.start(plan, "e0");
    fixture.start(plan, "e1");
    fixture.settle();
    // The next scan continues where the first one ended, so it does not see r1.
    fixture.held.add("scan-work");
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(fixture.heldReads).toBe(1);
    fixture.join("w2", ["rare"]);
    fixture.settle();
    fixture.held.clear();
    fixture.answer("scan-work");
    fixture.settle();
    expect(executions(fixture)).toEqual(["e0", "e1", "r1"]);
  });

  test("that passed over what was in memory does not lose it when it is let go of", () => {
    const fixture = new NodeFixture({ idleMax: 1 });
    const rare = fixture.plan([{ name: "a", handlers: { a: { use: "rare" } } }], "rare");
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.start(rare, "r1");
    fixture.settle();
    // A worker serves the code now, but has no free capacity.
    fixture.join("w1", ["w.a", "rare"], { capacity: 1 });
    fixture.settle();
    const nap = fixture.plan([{ name: "n", handlers: { n: { waitFor: "go" } } }], "nap");
    for (let i = 0; i < 3; i++) {
      fixture.start(nap, `n${i}`);
      fixture.settle();
      fixture.signal(`n${i}`, "other");
      fixture.settle();
    }
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(executions(fixture)).toEqual(["e1", "r1"]);
  });

  test("that saw new executions before their commit was heard does not keep them out", () => {
    const fixture = new NodeFixture({ windowMax: 2, idleMax: 0 });
    const plan = fixture.plan([phase("a")]);
    fixture.join("w1", ["w.a"], { capacity: 2 });
    for (let i = 0; i < 3; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    fixture.holdsCommits = true;
    for (const attempt of fixture.attempts()) fixture.receipt(attempt);
    fixture.settle();
    for (let i = 3; i < 7; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    const [, created] = fixture.waiting;
    if (created === undefined) throw new Error("they are being written");
    // They are in the store when the cache has room for more, but the answer of their commit comes after that.
    const verdict = fixture.tables.commit(created.content);
    fixture.commit();
    fixture.settle();
    fixture.input({ kind: "committed", commit: created.commit, verdict });
    fixture.holdsCommits = false;
    fixture.settle();
    for (let done = 2; done < fixture.attempts().length; done++) {
      fixture.receipt(fixture.attempts()[done] as Attempt);
      fixture.settle();
    }
    expect(executions(fixture).sort()).toEqual(["e0", "e1", "e2", "e3", "e4", "e5", "e6"]);
  });
});

describe("what is being purged", () => {
  test("is not read before that is done: a retry that comes between finds nothing", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a", { retry: { attempts: 1 } })]), "e1");
    fixture.settle();
    fixture.receipt(last(fixture), { status: "failed", payload: "{}" });
    fixture.settle();
    fixture.held.add("purge");
    fixture.input({ kind: "purge", ids: ["e1"] });
    const request = fixture.control("retry", "e1");
    fixture.outputs = [];
    fixture.settle();
    expect([fixture.of("purge").length, fixture.of("load").length]).toEqual([1, 0]);
    fixture.answer("purge");
    fixture.settle();
    expect(fixture.of("load")).toHaveLength(1);
    expect(fixture.reply(request)).toMatchObject({ code: "not_found" });
  });
});

test("a retry time that changes nothing does not stay in the store, where it would keep others from their time", () => {
  const fixture = new NodeFixture({ timersMax: 1, timerHorizonMs: 1_000 });
  fixture.plan([phase("b", { retry: { attempts: 1 } })], "kid");
  fixture.join("w1", ["w.b"], { capacity: 1 });
  const retry = { attempts: 3, backoff: "constant", min: 1_000 };
  const family = { workflow: "kid", tasks: [0, 1], concurrency: 1, retry };
  fixture.start(fixture.plan([{ name: "a", handlers: { a: family } }]), "e1");
  fixture.settle();
  // The first child fails; the second takes its place, and the first has to wait for it, whatever its time.
  fixture.receipt(last(fixture), { status: "failed", payload: "{}" });
  fixture.settle();
  fixture.start(fixture.plan([{ name: "n", handlers: { n: { sleep: 5_000 } } }], "nap"), "n1");
  fixture.sleep(60_000);
  expect(fixture.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 10, partitions: null })).toEqual(
    [],
  );
  expect([fixture.status("e1"), fixture.status("n1")]).toEqual(["running", "done"]);
  fixture.receipt(last(fixture));
  fixture.settle();
  fixture.receipt(last(fixture));
  fixture.settle();
  expect(fixture.status("e1")).toBe("done");
});

describe("what fails is brought to its end by its next owner, though nobody serves its phase", () => {
  /** The owner goes right after this commit, and comes back with an empty memory that knows the plan. */
  function comesBack(fixture: NodeFixture): void {
    fixture.commit();
    const [own] = fixture.tables.open().owned;
    fixture.input({ kind: "lost", partitions: [0] });
    fixture.holdsCommits = false;
    fixture.settle();
    const left = { leases: [], quotas: new Map(), declared: {} };
    fixture.input({ kind: "taken", owned: own === undefined ? [] : [own], left });
    fixture.settle();
  }

  test("because it is a wait that is over", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1s" } } }]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.sleep(1_000);
    comesBack(fixture);
    expect(fixture.status("e1")).toBe("failed");
    expect(fixture.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual(
      [],
    );
  });

  test("because its worker is gone", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 2 });
    fixture.start(fixture.plan([phase("a", { tasks: [1, 2] })]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", fatal: true, payload: "{}" });
    fixture.leave("w1");
    fixture.settle();
    comesBack(fixture);
    expect(fixture.status("e1")).toBe("failed");
    expect(fixture.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual(
      [],
    );
  });
});
