// Versions of handlers: the highest that fits gets the work, as workers come and go (B9).
import fc from "fast-check";
import { gt, satisfies } from "semver";
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { RosterEntry, WorkerRoster } from "./worker-roster.ts";

const SERVED = ["0.9.0", "1.0.0", "1.0.1", "2.0.0"];
const serve = (version?: string) => ({ use: "w.a", ...(version === undefined ? {} : { version }) });
const ANY = "any";
const want = (range: string | null, use = "w.a") => ({
  use,
  range,
  enumerates: false,
  key: `${use} ${range}`,
});

/** A roster with one worker per entry; "" is code without a version. */
function roster(...versions: readonly string[]): WorkerRoster {
  const found = new WorkerRoster();
  versions.forEach((version, i) => {
    const serves = [serve(version === "" ? undefined : version)];
    found.join(new RosterEntry(`w${i}`, { local: true, serves, capacity: 1 }));
  });
  return found;
}

describe("the version that gets the work", () => {
  test.each([
    ["~1.0", "1.0.1"],
    [null, "2.0.0"],
    ["^1", "1.0.1"],
    ["1.0.0", "1.0.0"],
    ["<1", "0.9.0"],
    [">=1 <3", "2.0.0"],
    ["*", "2.0.0"],
    ["~3", null],
    ["0.9 || 1.0.0", "1.0.0"],
  ])("B9 of 0.9.0, 1.0.0, 1.0.1, 2.0.0 for %s is %s", (range, version) => {
    expect(roster(...SERVED).choose(want(range), ANY)).toBe(version);
    expect(roster(...SERVED.toReversed()).choose(want(range), ANY)).toBe(version);
  });

  test.each<[string[], string | null, string | null]>([
    [[], null, null],
    [[""], null, ""],
    [[""], "*", null],
    [["", "1.0.0"], null, "1.0.0"],
    [["not a version"], null, "not a version"],
    [["not a version", "0.1.0"], null, "0.1.0"],
    [["1.0.0-beta.1"], "^1", null],
    [["1.0.0-beta.1"], "1.0.0-beta.1", "1.0.0-beta.1"],
    [["1.10.0", "1.9.0"], "^1", "1.10.0"],
    [["1.5.0", "2.0.0-rc.1"], null, "1.5.0"],
    [["2.0.0-rc.1", "2.0.0-rc.2", "latest"], null, "2.0.0-rc.2"],
    [["1.0.0+a", "1.0.0+b"], null, "1.0.0"],
    [["1.0.0+z", "1.0.1+a"], "^1", "1.0.1"],
  ])("of %j for %s is %j", (versions, range, version) => {
    expect(roster(...versions).choose(want(range), ANY)).toBe(version);
    expect(roster(...versions).isServed(want(range), ANY)).toBe(version !== null);
  });

  test("fits, and none that fits is higher", () => {
    const version = fc
      .tuple(fc.nat(2), fc.nat(3), fc.nat(3))
      .map(([major, minor, patch]) => `${major}.${minor}.${patch}`);
    const range = fc.oneof(
      version.map((of) => `~${of}`),
      version.map((of) => `^${of}`),
      version.map((of) => `>=${of}`),
      version.map((of) => `<${of}`),
      version,
    );
    fc.assert(
      fc.property(fc.array(version, { maxLength: 6 }), range, (versions, of) => {
        const chosen = roster(...versions).choose(want(of), ANY);
        const fitting = versions.filter((one) => satisfies(one, of));
        if (chosen === null) expect(fitting).toEqual([]);
        else {
          expect(fitting).toContain(chosen);
          expect(fitting.some((one) => gt(one, chosen))).toBe(false);
        }
      }),
      { seed: 1 },
    );
  });

  test("follows who joins and who leaves", () => {
    const found = roster("1.0.0");
    expect(found.choose(want("^1"), ANY)).toBe("1.0.0");
    found.join(new RosterEntry("new", { local: true, serves: [serve("1.2.0")], capacity: 1 }));
    expect(found.choose(want("^1"), ANY)).toBe("1.2.0");
    found.leave("new", 0);
    expect(found.choose(want("^1"), ANY)).toBe("1.0.0");
    found.leave("w0", 0);
    expect(found.choose(want("^1"), ANY)).toBeNull();
    found.leave("nobody", 0);
  });

  test("two builds of one version are the same version, and each worker serves its own", () => {
    const found = roster("1.0.0+a", "1.0.0+b", "0.9.0");
    const served = [...found.workers.values()].map(
      (worker) => found.servedBy(worker, want("^1"), ANY)?.version,
    );
    expect(served).toEqual(["1.0.0+a", "1.0.0+b", undefined]);
  });

  test("of workers that are for one project only counts there, and nowhere else", () => {
    const found = roster("1.0.0");
    const scoped = new RosterEntry("scoped", {
      local: false,
      serves: [serve("2.0.0"), { use: "w.b" }],
      capacity: 1,
      project: "books",
    });
    found.join(scoped);
    expect(found.choose(want(null), "books")).toBe("2.0.0");
    expect(found.choose(want(null), "music")).toBe("1.0.0");
    expect(found.servedBy(scoped, want(null), "books")).toEqual(serve("2.0.0"));
    expect(found.servedBy(scoped, want(null), "music")).toBeUndefined();
    expect([found.isServed(want(null, "w.b"), "books"), found.isServed(want(null, "w.b"), "music")]).toEqual([
      true,
      false,
    ]);
    expect([...found.usesServed()]).toEqual(["w.a"]);
    found.leave("scoped", 0);
    expect(found.choose(want(null), "books")).toBe("1.0.0");
  });

  test("a worker with two versions serves both", () => {
    const found = new WorkerRoster();
    const both = new RosterEntry("both", {
      local: true,
      serves: [serve("1.0.0"), serve("2.0.0")],
      capacity: 1,
    });
    found.join(both);
    expect([...both.versionsOf("w.a")]).toEqual(["1.0.0", "2.0.0"]);
    expect(found.servedBy(both, want("^1"), ANY)).toEqual(serve("1.0.0"));
    expect(found.servedBy(both, want(null), ANY)).toEqual(serve("2.0.0"));
  });
});

describe("at a node", () => {
  const ranged = (version?: string) => [phase("a", version === undefined ? {} : { version })];
  const granted = (fixture: NodeFixture) =>
    fixture.attempts().map(({ worker, grant }) => [worker, grant.version]);
  const byWorker = (fixture: NodeFixture) => granted(fixture).sort((a, b) => (a.join() < b.join() ? -1 : 1));

  test("B9 each range goes to its worker, and the grant says which version it is of", () => {
    const fixture = new NodeFixture();
    for (const version of SERVED) fixture.join(`w${version}`, [serve(version)]);
    fixture.start(fixture.plan(ranged("~1.0"), "one"), "e1");
    fixture.start(fixture.plan(ranged(), "two"), "e2");
    fixture.start(fixture.plan(ranged("<1"), "three"), "e3");
    fixture.settle();
    expect(byWorker(fixture)).toEqual([
      ["w0.9.0", "0.9.0"],
      ["w1.0.1", "1.0.1"],
      ["w2.0.0", "2.0.0"],
    ]);
  });

  test("a grant names the build that its worker has", () => {
    const fixture = new NodeFixture();
    fixture.join("wa", [serve("1.0.0+a")], { capacity: 1 });
    fixture.join("wb", [serve("1.0.0+b")], { capacity: 1 });
    fixture.start(fixture.plan([phase("a", { tasks: [1, 2], version: "^1" })]), "e1");
    fixture.settle();
    expect(byWorker(fixture)).toEqual([
      ["wa", "1.0.0+a"],
      ["wb", "1.0.0+b"],
    ]);
  });

  test("B9 none matching: it waits and says why, nothing spins, and it goes on when one comes", () => {
    const fixture = new NodeFixture();
    for (const version of SERVED) fixture.join(`w${version}`, [serve(version)]);
    fixture.start(fixture.plan(ranged("~3.1")), "e1");
    fixture.settle();
    const before = fixture.outputs.length;
    fixture.sleep(600_000);
    expect(fixture.outputs.slice(before).filter(({ kind }) => kind !== "scan-timers")).toEqual([]);
    expect(fixture.inspect("e1").why).toBe(
      '"a" waits for a worker: none serves "w.a" in a version that fits "~3.1" (there are 0.9.0, 1.0.0, 1.0.1, 2.0.0) now.',
    );
    fixture.join("w3.1.4", [serve("3.1.4")]);
    fixture.settle();
    expect(granted(fixture)).toEqual([["w3.1.4", "3.1.4"]]);
  });

  test("B9 it is let go of while it waits, and comes back", () => {
    const fixture = new NodeFixture({ idleMax: 0 });
    fixture.join("old", [serve("1.0.0")]);
    fixture.start(fixture.plan(ranged("~3.1")), "e1");
    fixture.settle();
    expect(fixture.node.residentCount).toBe(0);
    fixture.join("new", [serve("3.1.4")]);
    fixture.settle();
    expect(granted(fixture)).toEqual([["new", "3.1.4"]]);
  });

  test("a worker with two versions gets each under its own", () => {
    const fixture = new NodeFixture();
    fixture.join("both", [serve("1.0.0"), serve("2.0.0")]);
    fixture.start(fixture.plan(ranged("^1"), "one"), "e1");
    fixture.start(fixture.plan(ranged(), "two"), "e2");
    fixture.settle();
    expect(byWorker(fixture)).toEqual([
      ["both", "1.0.0"],
      ["both", "2.0.0"],
    ]);
  });

  test("a higher one that joins gets what is not given out yet; when it leaves, the lower ones go on", () => {
    const fixture = new NodeFixture();
    fixture.join("old", [serve("1.0.0")], { capacity: 2 });
    fixture.start(fixture.plan([phase("a", { version: "^1", tasks: [0, 1, 2, 3, 4, 5] })]), "e1");
    fixture.settle();
    expect(granted(fixture)).toEqual([
      ["old", "1.0.0"],
      ["old", "1.0.0"],
    ]);
    fixture.join("new", [serve("1.1.0")], { capacity: 1 });
    fixture.settle();
    expect(granted(fixture).at(-1)).toEqual(["new", "1.1.0"]);
    // The old one has room again, and gets nothing more.
    for (const attempt of fixture.attempts("old")) fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.attempts("old")).toHaveLength(2);
    fixture.receipt(fixture.attempts("new")[0] as Attempt);
    fixture.settle();
    expect(fixture.attempts("new")).toHaveLength(2);
    fixture.leave("new");
    fixture.work();
    // The worker that has left may still finish the attempts that it held.
    fixture.receipt(fixture.attempts("new")[1] as Attempt);
    fixture.settle();
    for (const attempt of fixture.attempts("old").slice(2)) fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.attempts()).toHaveLength(6);
  });

  test("a retry may be done by another version", () => {
    const fixture = new NodeFixture();
    fixture.join("old", [serve("1.0.0")]);
    fixture.start(fixture.plan(ranged("^1")), "e1");
    fixture.settle();
    fixture.join("new", [serve("1.1.0")]);
    fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 0 });
    fixture.settle();
    expect(granted(fixture)).toEqual([
      ["old", "1.0.0"],
      ["new", "1.1.0"],
    ]);
  });

  test("code that enumerates keeps from a single task only who would get it in the same version", () => {
    const fixture = new NodeFixture();
    fixture.join("old", [{ ...serve("1.0.0"), enumerates: true }]);
    fixture.join("new", [serve("2.0.0")]);
    fixture.start(fixture.plan(ranged("^1"), "one"), "e1");
    fixture.start(fixture.plan(ranged(), "two"), "e2");
    fixture.settle();
    expect(fixture.attempts().map(({ worker, grant }) => [worker, grant.execution, grant.do])).toEqual([
      ["new", "e2", "process"],
    ]);
    expect(fixture.inspect("e1").why).toContain('the worker old enumerates "w.a"');
  });

  test("an enumerator of another name is served in any version", () => {
    const fixture = new NodeFixture();
    fixture.join("lister", [{ use: "list", version: "7.0.0" }]);
    fixture.start(fixture.plan([phase("a", { version: "^1", enumerate: { use: "list" } })]), "e1");
    fixture.settle();
    expect(granted(fixture)).toEqual([["lister", "7.0.0"]]);
  });

  test("two ranges of one handler in two executions do not hold each other up", () => {
    const fixture = new NodeFixture();
    fixture.join("one", [serve("1.0.0")], { capacity: 1 });
    for (let i = 0; i < 20; i++) fixture.start(fixture.plan(ranged("~9"), "stuck"), `s${i}`);
    for (let i = 0; i < 20; i++) fixture.start(fixture.plan(ranged("^1"), "fine"), `f${i}`);
    fixture.work();
    for (let i = 0; i < 20; i++) expect(fixture.status(`f${i}`)).toBe("done");
  });

  test("C15 a worker that serves only `fast` never gets other work", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["fast"], { capacity: 100 });
    fixture.start(
      fixture.plan([{ name: "a", handlers: { fast: { use: "fast" }, slow: { use: "slow" } } }]),
      "e1",
    );
    expect(fixture.work().map(({ grant }) => grant.use)).toEqual(["fast"]);
  });
});
