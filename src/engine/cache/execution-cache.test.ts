// What is in the store and has work comes into memory, whatever happens while the store is being looked at; and what is
// being purged does not come in between (DESIGN 2.8, 4). All of these were found by the simulator.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;
const executions = (bench: NodeFixture) => bench.attempts().map(({ grant }) => grant.execution);

describe("a scan for work", () => {
  test("that is under way when a worker joins is followed by another", () => {
    const bench = new NodeFixture({ windowMax: 1, idleMax: 0 });
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.start(bench.plan([{ name: "a", handlers: { a: { use: "rare" } } }], "rare"), "r1");
    bench.settle();
    // Looks at everything, and goes past r1, which nobody serves.
    bench.join("w3", ["other"]);
    const plan = bench.plan([phase("a")]);
    bench.start(plan, "e0");
    bench.start(plan, "e1");
    bench.settle();
    // Looks for the last of the others only.
    bench.held.add("scan-work");
    bench.receipt(last(bench));
    bench.settle();
    expect(bench.heldReads).toBe(1);
    bench.join("w2", ["rare"]);
    bench.settle();
    bench.held.clear();
    bench.answer("scan-work");
    bench.settle();
    expect(executions(bench)).toEqual(["e0", "e1", "r1"]);
  });

  test("that passed over what was in memory does not lose it when it is let go of", () => {
    const bench = new NodeFixture({ idleMax: 1 });
    const rare = bench.plan([{ name: "a", handlers: { a: { use: "rare" } } }], "rare");
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.start(bench.plan([phase("a")]), "e1");
    bench.start(rare, "r1");
    bench.settle();
    // Somebody serves it now, but has no hand free.
    bench.join("w1", ["w.a", "rare"], { capacity: 1 });
    bench.settle();
    const nap = bench.plan([{ name: "n", handlers: { n: { waitFor: "go" } } }], "nap");
    for (let i = 0; i < 3; i++) {
      bench.start(nap, `n${i}`);
      bench.settle();
      bench.signal(`n${i}`, "other");
      bench.settle();
    }
    bench.receipt(last(bench));
    bench.settle();
    expect(executions(bench)).toEqual(["e1", "r1"]);
  });

  test("that saw new executions before their commit was heard does not keep them out", () => {
    const bench = new NodeFixture({ windowMax: 2, idleMax: 0 });
    const plan = bench.plan([phase("a")]);
    bench.join("w1", ["w.a"], { capacity: 2 });
    for (let i = 0; i < 3; i++) bench.start(plan, `e${i}`);
    bench.settle();
    bench.holdsCommits = true;
    for (const attempt of bench.attempts()) bench.receipt(attempt);
    bench.settle();
    for (let i = 3; i < 7; i++) bench.start(plan, `e${i}`);
    bench.settle();
    const [, created] = bench.waiting;
    if (created === undefined) throw new Error("they are being written");
    // They are in the store when room is found for others, and their commit is heard of after that.
    const verdict = bench.tables.commit(created.content);
    bench.commit();
    bench.settle();
    bench.input({ kind: "committed", commit: created.commit, verdict });
    bench.holdsCommits = false;
    bench.settle();
    for (let done = 2; done < bench.attempts().length; done++) {
      bench.receipt(bench.attempts()[done] as Attempt);
      bench.settle();
    }
    expect(executions(bench).sort()).toEqual(["e0", "e1", "e2", "e3", "e4", "e5", "e6"]);
  });
});

describe("what is being purged", () => {
  test("is not read before that is done: a retry that comes between finds nothing", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([phase("a", { retry: { attempts: 1 } })]), "e1");
    bench.settle();
    bench.receipt(last(bench), { status: "failed", payload: "{}" });
    bench.settle();
    bench.held.add("purge");
    bench.input({ kind: "purge", ids: ["e1"] });
    const request = bench.control("retry", "e1");
    bench.outputs = [];
    bench.settle();
    expect([bench.of("purge").length, bench.of("load").length]).toEqual([1, 0]);
    bench.answer("purge");
    bench.settle();
    expect(bench.of("load")).toHaveLength(1);
    expect(bench.reply(request)).toMatchObject({ code: "not_found" });
  });
});

test("a retry time that changes nothing does not stay in the store, where it would keep others from their time", () => {
  const bench = new NodeFixture({ timersMax: 1, timerHorizonMs: 1_000 });
  bench.plan([phase("b", { retry: { attempts: 1 } })], "kid");
  bench.join("w1", ["w.b"], { capacity: 1 });
  const retry = { attempts: 3, backoff: "constant", min: 1_000 };
  const family = { workflow: "kid", tasks: [0, 1], concurrency: 1, retry };
  bench.start(bench.plan([{ name: "a", handlers: { a: family } }]), "e1");
  bench.settle();
  // The first child fails; the second takes its place, and the first has to wait for it, whatever its time.
  bench.receipt(last(bench), { status: "failed", payload: "{}" });
  bench.settle();
  bench.start(bench.plan([{ name: "n", handlers: { n: { sleep: 5_000 } } }], "nap"), "n1");
  bench.sleep(60_000);
  expect(bench.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 10, partitions: null })).toEqual([]);
  expect([bench.status("e1"), bench.status("n1")]).toEqual(["running", "done"]);
  bench.receipt(last(bench));
  bench.settle();
  bench.receipt(last(bench));
  bench.settle();
  expect(bench.status("e1")).toBe("done");
});

describe("what fails is brought to its end by its next owner, though nobody serves its phase", () => {
  /** The owner goes right after this commit, and comes back with an empty memory that knows the plan. */
  function comesBack(bench: NodeFixture): void {
    bench.commit();
    const [own] = bench.tables.open().owned;
    bench.input({ kind: "lost", partitions: [0] });
    bench.holdsCommits = false;
    bench.settle();
    const left = { leases: [], quotas: new Map(), declared: {} };
    bench.input({ kind: "taken", owned: own === undefined ? [] : [own], left });
    bench.settle();
  }

  test("because it is a wait that is over", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1s" } } }]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.sleep(1_000);
    comesBack(bench);
    expect(bench.status("e1")).toBe("failed");
    expect(bench.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual([]);
  });

  test("because its worker is gone", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 2 });
    bench.start(bench.plan([phase("a", { tasks: [1, 2] })]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", fatal: true, payload: "{}" });
    bench.leave("w1");
    bench.settle();
    comesBack(bench);
    expect(bench.status("e1")).toBe("failed");
    expect(bench.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual([]);
  });
});
