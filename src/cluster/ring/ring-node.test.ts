// A ring of a few nodes, joined by hand: the ways of the token, of hints, of deaths and of timers.
import { describe, expect, test } from "vitest";
import {
  executionIn,
  type Logged,
  RingFixture,
  reading,
} from "../../../test/fixtures/cluster/ring-fixture.ts";
import { parseRingState, parseToken } from "./ring-driver.ts";
import { isNewer, type Token } from "./token.ts";

const route = (log: readonly Logged[]): string[] =>
  log.flatMap(({ url, output }) => (output.kind === "post-token" ? [`${url}>${output.to}`] : []));
const tokens = (log: readonly Logged[]): Token[] =>
  log.flatMap(({ output }) => (output.kind === "post-token" ? [output.token] : []));
const letters = (log: readonly Logged[]): [string, readonly number[]][] =>
  log.flatMap(({ url, output }) =>
    output.kind === "scan-mailbox" ? [[url, output.partitions] as [string, readonly number[]]] : [],
  );

/** A ring at rest: it has its token. */
function running(urls: readonly string[]): RingFixture {
  const fixture = new RingFixture(urls);
  fixture.sleep(10_000);
  fixture.take();
  return fixture;
}

describe("the token", () => {
  test("goes round once a second when there is nothing to carry, and nobody wakes for anything else", () => {
    const fixture = running(["a", "b", "c"]);
    const log = fixture.sleep(30_000);
    expect(route(log).length).toBeGreaterThanOrEqual(87);
    expect(route(log).length).toBeLessThanOrEqual(93);
    const cycle = fixture.node("b").view().cycle;
    expect([cycle.lastMs, cycle.averageMs]).toEqual([1_000, 1_000]);
    expect(new Set(log.map(({ output }) => output.kind))).toEqual(new Set(["post-token"]));
    expect(tokens(log).every(({ parcels }) => parcels.length === 0)).toBe(true);
  });

  test("is made by a node that is alone at once, and goes round in it once a second", () => {
    const fixture = new RingFixture(["a"]);
    expect(fixture.node("a").view().token).toMatchObject({ epoch: 1, at: "a" });
    const log = fixture.sleep(10_000);
    expect(log).toEqual([]);
    expect(fixture.node("a").view().cycle).toMatchObject({ count: 11, lastMs: 1_000 });
    expect(fixture.node("a").view().nodes).toMatchObject([{ url: "a", partitions: 8, clockworkers: ["a"] }]);
    fixture.input("a", { kind: "hint", partition: 3, count: 1 });
    expect(letters(fixture.take())).toEqual([["a", [3]]]);
  });

  test("is made by the first in order, once it has not come for a few cycles", () => {
    const fixture = new RingFixture(["b", "a", "c"]);
    expect(route(fixture.sleep(3_900))).toEqual([]);
    expect(route(fixture.sleep(200))[0]).toBe("a>b");
    expect([...fixture.nodes.values()].map((node) => node.view().made)).toEqual([0, 1, 0]);
  });

  test("is made anew by the next ones if the first has died with it", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.down.add("a");
    const log = fixture.sleep(10_000);
    const numbers = tokens(log).map(({ number }) => number);
    expect(numbers.slice(-5)).toEqual(numbers.slice(-6, -1).map((number) => number + 1));
    expect(route(log).slice(-2).toSorted()).toEqual(["b>c", "c>b"]);
    expect(fixture.node("b").view().made + fixture.node("c").view().made).toBeLessThanOrEqual(1);
  });

  test("that is older than what was seen is dropped: of two tokens the greater lives", () => {
    const at = (epoch: number, maker: string, number: number) => ({ epoch, maker, number });
    expect(isNewer(at(1, "a", 0), null)).toBe(true);
    expect(isNewer(at(2, "a", 0), at(1, "b", 9))).toBe(true);
    expect(isNewer(at(1, "b", 0), at(1, "a", 9))).toBe(true);
    expect(isNewer(at(1, "a", 9), at(1, "b", 0))).toBe(false);
    expect(isNewer(at(1, "a", 4), at(1, "a", 4))).toBe(false);

    const fixture = running(["a", "b", "c"]);
    const [last] = fixture.of("a", "post-token").slice(-1);
    fixture.input("b", { kind: "token", from: "a", token: last?.token as Token });
    expect(fixture.take()).toEqual([]);
    expect(fixture.node("b").view().dropped).toBe(1);
    // Another node created a token at the same time. That token wins; the first one is dropped by a node that has seen the winner.
    fixture.input("c", {
      kind: "token",
      from: "b",
      token: { ...(last?.token as Token), maker: "b#1", number: 0 },
    });
    const log = fixture.sleep(5_000);
    expect(
      new Set(
        tokens(log)
          .slice(-9)
          .map(({ maker }) => maker),
      ),
    ).toEqual(new Set(["b#1"]));
    expect(
      tokens(log)
        .slice(-9)
        .every(({ number }, i, all) => i === 0 || number === (all[i - 1]?.number ?? 0) + 1),
    ).toBe(true);
  });

  test("skips a successor that does not answer, says so to all, and tries it again later", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.down.add("b");
    const log = fixture.sleep(3_000);
    expect(route(log).filter((hop) => hop === "a>b")).toHaveLength(1);
    expect(route(log)).toContain("a>c");
    expect(fixture.node("c").view().deaths).toMatchObject([{ url: "b", incarnation: "b#1", by: "a" }]);
    expect(fixture.node("a").view().nodes[1]).toMatchObject({ suspect: true });
    expect(fixture.node("c").view().nodes[1]).toMatchObject({ suspect: false });
    for (const url of ["a", "c"])
      expect(fixture.of(url, "read-members").map(({ why }) => why)).toContain("b does not answer");
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    fixture.down.delete("b");
    expect(route(fixture.sleep(5_000)).slice(-3).toSorted()).toEqual(["a>b", "b>c", "c>a"]);
    expect(fixture.node("a").view().nodes[1]).toMatchObject({ suspect: false });
  });

  test("goes past several that are dead, each reported, and a node whose peers are all dead keeps it", () => {
    const fixture = running(["a", "b", "c", "d"]);
    fixture.down.add("b").add("c");
    fixture.sleep(3_000);
    expect(
      fixture
        .node("d")
        .view()
        .deaths.map(({ url }) => url)
        .toSorted(),
    ).toEqual(["b", "c"]);
    fixture.down.add("d");
    const before = fixture.node("a").view();
    fixture.sleep(10_000);
    const after = fixture.node("a").view();
    expect(after.token).toMatchObject({ maker: "a#1", at: "a" });
    expect(after.cycle.count).toBeGreaterThan(before.cycle.count + 5);
  });

  test("goes on when no answer to its posting is ever heard", () => {
    const fixture = new RingFixture(["a", "b", "c"]);
    fixture.now += 4_000;
    fixture.advance("a");
    expect(route(fixture.take())).toEqual(["a>b"]);
    fixture.now = fixture.node("a").nextWakeAt();
    fixture.advance("a");
    const log = fixture.take();
    expect(route(log)).toEqual(["a>c"]);
    expect(tokens(log)).toMatchObject([{ epoch: 2, maker: "a#1" }]);
  });

  test("heard from a node that is skipped ends that, even an old one", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.down.add("b");
    fixture.sleep(2_000);
    expect(fixture.node("a").view().nodes[1]?.suspect).toBe(true);
    const [old] = fixture.of("b", "post-token");
    fixture.input("a", { kind: "token", from: "b", token: old?.token as Token });
    expect(fixture.node("a").view().nodes[1]?.suspect).toBe(false);
  });

  test("leaves at once with a node that leaves, which makes none any more", () => {
    const fixture = running(["a", "b"]);
    const holder = fixture.node("a").view().token?.at === "a" ? "a" : "b";
    fixture.input(holder, { kind: "leaving" });
    const log = fixture.take();
    expect(route(log)).toHaveLength(1);
    expect(tokens(log)[0]?.parcels[0]?.deaths).toMatchObject([{ url: holder, by: holder }]);
    expect(fixture.node(holder).nextWakeAt()).toBeLessThan(Number.POSITIVE_INFINITY);
    fixture.settle();
    fixture.down.add(holder === "a" ? "b" : "a");
    expect(
      route(fixture.sleep(30_000)).filter((hop) => hop.startsWith(`${holder}>`)).length,
    ).toBeLessThanOrEqual(3);
    expect(fixture.node(holder).view().made).toBeLessThanOrEqual(1);
  });
});

describe("a hint", () => {
  test("goes to the owner of its partition in less than a cycle and a bit, who reads the letters and takes it out", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.input("a", { kind: "hint", partition: 1, count: 3 });
    fixture.input("c", { kind: "hint", partition: 1, count: 1 });
    fixture.input("c", { kind: "hint", partition: 0, count: 1 });
    const log = fixture.sleep(1_500);
    expect(letters(log).map(String).toSorted()).toEqual(expect.arrayContaining(["a,0", "b,1"]));
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    expect(fixture.node("a").view().queued.hints + fixture.node("c").view().queued.hints).toBe(0);
  });

  test("stays until there is an owner, without haste", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.input("b", { kind: "owned", partitions: [4, 7] });
    fixture.input("a", { kind: "hint", partition: 1, count: 3 });
    const log = fixture.sleep(10_000);
    expect(letters(log)).toEqual([]);
    expect(route(log).length).toBeLessThanOrEqual(40);
    expect(tokens(log).at(-1)?.parcels).toMatchObject([{ hints: [{ partition: 1, count: 3 }] }]);
    fixture.input("c", { kind: "owned", partitions: [1] });
    expect(letters(fixture.sleep(2_000))).toEqual([["c", [1]]]);
    // A node that takes ownership of the partition itself needs no token to find the mail.
    fixture.input("c", { kind: "owned", partitions: [] });
    fixture.input("a", { kind: "hint", partition: 1, count: 1 });
    fixture.sleep(3_000);
    const from = fixture.log.length;
    fixture.input("a", { kind: "owned", partitions: [1] });
    fixture.sleep(2_000);
    expect(letters(fixture.log.slice(from))).toEqual([["a", [1]]]);
  });

  test("is not taken by a node whose lease is over", () => {
    const fixture = running(["a", "b", "c"]);
    const past = { ...reading(["a", "b", "c"], { now: fixture.now }), leaseUntil: 0 };
    fixture.join("b", past);
    fixture.input("a", { kind: "hint", partition: 1, count: 1 });
    expect(letters(fixture.sleep(3_000))).toEqual([]);
    fixture.input("c", { kind: "owned", partitions: [1] });
    expect(letters(fixture.sleep(3_000))).toEqual([["c", [1]]]);
  });

  test("is not lost with a token, and a parcel whose sender is gone does not go round for ever", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.input("b", { kind: "owned", partitions: [] });
    fixture.input("c", { kind: "owned", partitions: [] });
    fixture.input("c", { kind: "hint", partition: 1, count: 1 });
    fixture.sleep(2_000);
    // c dies, so its parcel is removed from the token.
    fixture.down.add("c");
    const log = fixture.sleep(10_000);
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    fixture.input("a", { kind: "hint", partition: 1, count: 1 });
    fixture.sleep(3_000);
    // b dies with the token and the parcel, and c is back and owns the partition.
    fixture.down.add("b");
    fixture.down.delete("c");
    fixture.input("c", { kind: "owned", partitions: [1] });
    expect(letters(fixture.sleep(15_000))).toContainEqual(["c", [1]]);
  });
});

describe("the members", () => {
  test("are those of the latest reading: an older one, late, changes nothing", () => {
    const fixture = running(["a", "b"]);
    fixture.members("a", reading(["a", "b", "c"], { now: 5_000 }));
    fixture.members("a", reading(["a"], { now: 4_000 }));
    expect(
      fixture
        .node("a")
        .view()
        .nodes.map(({ url }) => url),
    ).toEqual(["a", "b", "c"]);
  });

  test("that join wait for the token to come; all have the same map after a cycle", () => {
    const fixture = running(["a", "c"]);
    const now = fixture.now;
    fixture.join("b", reading(["a", "b", "c"], { now }));
    fixture.members("c", reading(["a", "b", "c"], { now }));
    fixture.sleep(3_000);
    const views = [...fixture.nodes.values()].map((node) => node.view());
    expect(views.reduce((sum, { made }) => sum + made, 0)).toBe(1);
    for (const view of views)
      expect(view.nodes.map(({ url, agrees }) => `${url} ${agrees}`)).toEqual(["a true", "b true", "c true"]);
  });
});

describe("a timer", () => {
  test("that its owner does not fire is told to it by its clockworker, after the grace and until it is over", () => {
    const fixture = running(["a", "b", "c"]);
    const timer = { execution: executionIn(0), timer: "t", due: fixture.now + 3_000 };
    fixture.input("a", { kind: "timers-set", timers: [timer] });
    const due = (log: readonly Logged[]) => log.filter(({ output }) => output.kind === "timer-due");
    const log = fixture.sleep(8_000);
    expect(due(log)).toEqual([
      { at: timer.due + 2_000, url: "b", output: { kind: "timer-due", to: "a", timers: [timer] } },
    ]);
    expect(due(fixture.sleep(5_000))).toHaveLength(1);
    expect(fixture.node("b").view().watch).toMatchObject({
      executors: ["a"],
      partitions: 3,
      timers: 1,
      lateness: { count: 1, maxMs: 2_000 },
    });
    fixture.input("b", { kind: "timers-over", timers: [timer] });
    expect(due(fixture.sleep(60_000))).toEqual([]);
  });

  test("goes round until its clockworker has read of it, who was skipped at first", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.down.add("b");
    fixture.sleep(2_000);
    fixture.input("a", {
      kind: "timers-set",
      timers: [{ execution: executionIn(0), timer: "t", due: fixture.now + 30_000 }],
    });
    const away = fixture.sleep(2_000);
    expect(route(away).length).toBeLessThanOrEqual(8);
    expect(tokens(away).at(-1)?.parcels).toMatchObject([{ watchers: ["b"], urgent: false }]);
    fixture.down.delete("b");
    const back = fixture.sleep(5_000);
    expect(fixture.node("b").view().watch.timers).toBe(1);
    expect(back.filter(({ output }) => output.kind === "scan-timers")).toEqual([]);
    expect(tokens(back).at(-1)?.parcels).toEqual([]);
  });

  test("that its owner fires in time is told to nobody, and its end is carried once", () => {
    const fixture = running(["a", "b", "c"]);
    const timer = { execution: executionIn(0), timer: "t", due: fixture.now + 3_000 };
    fixture.input("a", {
      kind: "timers-set",
      timers: [timer, { ...timer, timer: "far", due: fixture.now + 3_600_000 }],
    });
    fixture.sleep(3_000);
    expect(fixture.node("b").view().watch.timers).toBe(1);
    const from = fixture.log.length;
    fixture.input("a", { kind: "timers-ended", timers: [timer] });
    fixture.sleep(10_000);
    const log = fixture.log.slice(from);
    expect(log.filter(({ output }) => output.kind === "timer-due")).toEqual([]);
    expect(tokens(log).filter(({ parcels }) => parcels.length > 0)).toHaveLength(3);
    expect(fixture.node("b").view().watch.timers).toBe(0);
  });

  test("is watched by whoever is its clockworker after the ring has changed, from the store", () => {
    const fixture = running(["a", "b", "c"]);
    fixture.rows = [{ execution: executionIn(0), timer: "t", due: fixture.now + 20_000 }];
    expect(fixture.node("c").view().watch.executors).toEqual(["b"]);
    fixture.down.add("b");
    for (const url of ["a", "c"]) fixture.members(url, reading(["a", "c"], { now: fixture.now }));
    fixture.sleep(6_000);
    expect(fixture.node("c").view().watch).toMatchObject({ executors: ["a"], partitions: 4, timers: 1 });
    expect(fixture.sleep(20_000).filter(({ output }) => output.kind === "timer-due")).toMatchObject([
      { url: "c", output: { to: "a" } },
    ]);
  });

  test("of a thousand more than a parcel holds is found by a scan, and the token stays small", () => {
    const fixture = running(["a", "b", "c"]);
    const timers = Array.from({ length: 2_500 }, (_, i) => ({
      execution: executionIn(0),
      timer: `t${i}`,
      due: fixture.now + 30_000,
    }));
    fixture.rows = timers;
    fixture.input("a", { kind: "timers-set", timers });
    const log = fixture.sleep(10_000);
    expect(Math.max(...tokens(log).map((token) => JSON.stringify(token).length))).toBeLessThan(2_000);
    expect(fixture.of("b", "scan-timers").length).toBeGreaterThanOrEqual(2);
    expect(fixture.node("b").view().watch.timers).toBe(2_500);
  });
});

describe("what comes from the network", () => {
  test("is a token or a state as it was sent, or a rejection that says where it is wrong", () => {
    const fixture = running(["a", "b"]);
    fixture.input("a", { kind: "hint", partition: 1, count: 1 });
    fixture.input("a", { kind: "timers-set", timers: [{ execution: "e", timer: "t", due: fixture.now }] });
    const token = tokens(fixture.sleep(1_500)).find(({ parcels }) => parcels.length > 0);
    const wire = JSON.parse(JSON.stringify(token));
    expect(parseToken(wire)).toEqual(token);
    expect(parseToken({ ...wire, number: -1 })).toMatchObject({
      kind: "rejection",
      code: "invalid_input",
      path: "number",
    });
    expect(parseToken({ ...wire, parcels: [{}] })).toMatchObject({ kind: "rejection" });
    expect(parseToken(null)).toMatchObject({ kind: "rejection" });
    const state = fixture.node("a").state();
    expect(parseRingState(JSON.parse(JSON.stringify(state)))).toEqual(state);
    expect(parseRingState({ v: 2 })).toMatchObject({ kind: "rejection", path: "v" });
  });
});
