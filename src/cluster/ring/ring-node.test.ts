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
  const bench = new RingFixture(urls);
  bench.sleep(10_000);
  bench.take();
  return bench;
}

describe("the token", () => {
  test("goes round once a second when there is nothing to carry, and nobody wakes for anything else", () => {
    const bench = running(["a", "b", "c"]);
    const log = bench.sleep(30_000);
    expect(route(log).length).toBeGreaterThanOrEqual(87);
    expect(route(log).length).toBeLessThanOrEqual(93);
    const cycle = bench.node("b").view().cycle;
    expect([cycle.lastMs, cycle.averageMs]).toEqual([1_000, 1_000]);
    expect(new Set(log.map(({ output }) => output.kind))).toEqual(new Set(["post-token"]));
    expect(tokens(log).every(({ parcels }) => parcels.length === 0)).toBe(true);
  });

  test("is made by a node that is alone at once, and goes round in it once a second", () => {
    const bench = new RingFixture(["a"]);
    expect(bench.node("a").view().token).toMatchObject({ epoch: 1, at: "a" });
    const log = bench.sleep(10_000);
    expect(log).toEqual([]);
    expect(bench.node("a").view().cycle).toMatchObject({ count: 11, lastMs: 1_000 });
    expect(bench.node("a").view().nodes).toMatchObject([{ url: "a", partitions: 8, clockworkers: ["a"] }]);
    bench.input("a", { kind: "hint", partition: 3, count: 1 });
    expect(letters(bench.take())).toEqual([["a", [3]]]);
  });

  test("is made by the first in order, once it has not come for a few cycles", () => {
    const bench = new RingFixture(["b", "a", "c"]);
    expect(route(bench.sleep(3_900))).toEqual([]);
    expect(route(bench.sleep(200))[0]).toBe("a>b");
    expect([...bench.nodes.values()].map((node) => node.view().made)).toEqual([0, 1, 0]);
  });

  test("is made anew by the next ones if the first has died with it", () => {
    const bench = running(["a", "b", "c"]);
    bench.down.add("a");
    const log = bench.sleep(10_000);
    const numbers = tokens(log).map(({ number }) => number);
    expect(numbers.slice(-5)).toEqual(numbers.slice(-6, -1).map((number) => number + 1));
    expect(route(log).slice(-2).toSorted()).toEqual(["b>c", "c>b"]);
    expect(bench.node("b").view().made + bench.node("c").view().made).toBeLessThanOrEqual(1);
  });

  test("that is older than what was seen is dropped: of two tokens the greater lives", () => {
    const at = (epoch: number, maker: string, number: number) => ({ epoch, maker, number });
    expect(isNewer(at(1, "a", 0), null)).toBe(true);
    expect(isNewer(at(2, "a", 0), at(1, "b", 9))).toBe(true);
    expect(isNewer(at(1, "b", 0), at(1, "a", 9))).toBe(true);
    expect(isNewer(at(1, "a", 9), at(1, "b", 0))).toBe(false);
    expect(isNewer(at(1, "a", 4), at(1, "a", 4))).toBe(false);

    const bench = running(["a", "b", "c"]);
    const [last] = bench.of("a", "post-token").slice(-1);
    bench.input("b", { kind: "token", from: "a", token: last?.token as Token });
    expect(bench.take()).toEqual([]);
    expect(bench.node("b").view().dropped).toBe(1);
    // Another node created a token at the same time. That token wins; the first one is dropped by a node that has seen the winner.
    bench.input("c", {
      kind: "token",
      from: "b",
      token: { ...(last?.token as Token), maker: "b#1", number: 0 },
    });
    const log = bench.sleep(5_000);
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
    const bench = running(["a", "b", "c"]);
    bench.down.add("b");
    const log = bench.sleep(3_000);
    expect(route(log).filter((hop) => hop === "a>b")).toHaveLength(1);
    expect(route(log)).toContain("a>c");
    expect(bench.node("c").view().deaths).toMatchObject([{ url: "b", incarnation: "b#1", by: "a" }]);
    expect(bench.node("a").view().nodes[1]).toMatchObject({ suspect: true });
    expect(bench.node("c").view().nodes[1]).toMatchObject({ suspect: false });
    for (const url of ["a", "c"])
      expect(bench.of(url, "read-members").map(({ why }) => why)).toContain("b does not answer");
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    bench.down.delete("b");
    expect(route(bench.sleep(5_000)).slice(-3).toSorted()).toEqual(["a>b", "b>c", "c>a"]);
    expect(bench.node("a").view().nodes[1]).toMatchObject({ suspect: false });
  });

  test("goes past several that are dead, each reported, and a node whose peers are all dead keeps it", () => {
    const bench = running(["a", "b", "c", "d"]);
    bench.down.add("b").add("c");
    bench.sleep(3_000);
    expect(
      bench
        .node("d")
        .view()
        .deaths.map(({ url }) => url)
        .toSorted(),
    ).toEqual(["b", "c"]);
    bench.down.add("d");
    const before = bench.node("a").view();
    bench.sleep(10_000);
    const after = bench.node("a").view();
    expect(after.token).toMatchObject({ maker: "a#1", at: "a" });
    expect(after.cycle.count).toBeGreaterThan(before.cycle.count + 5);
  });

  test("goes on when no answer to its posting is ever heard", () => {
    const bench = new RingFixture(["a", "b", "c"]);
    bench.now += 4_000;
    bench.advance("a");
    expect(route(bench.take())).toEqual(["a>b"]);
    bench.now = bench.node("a").nextWakeAt();
    bench.advance("a");
    const log = bench.take();
    expect(route(log)).toEqual(["a>c"]);
    expect(tokens(log)).toMatchObject([{ epoch: 2, maker: "a#1" }]);
  });

  test("heard from a node that is skipped ends that, even an old one", () => {
    const bench = running(["a", "b", "c"]);
    bench.down.add("b");
    bench.sleep(2_000);
    expect(bench.node("a").view().nodes[1]?.suspect).toBe(true);
    const [old] = bench.of("b", "post-token");
    bench.input("a", { kind: "token", from: "b", token: old?.token as Token });
    expect(bench.node("a").view().nodes[1]?.suspect).toBe(false);
  });

  test("leaves at once with a node that leaves, which makes none any more", () => {
    const bench = running(["a", "b"]);
    const holder = bench.node("a").view().token?.at === "a" ? "a" : "b";
    bench.input(holder, { kind: "leaving" });
    const log = bench.take();
    expect(route(log)).toHaveLength(1);
    expect(tokens(log)[0]?.parcels[0]?.deaths).toMatchObject([{ url: holder, by: holder }]);
    expect(bench.node(holder).nextWakeAt()).toBeLessThan(Number.POSITIVE_INFINITY);
    bench.settle();
    bench.down.add(holder === "a" ? "b" : "a");
    expect(
      route(bench.sleep(30_000)).filter((hop) => hop.startsWith(`${holder}>`)).length,
    ).toBeLessThanOrEqual(3);
    expect(bench.node(holder).view().made).toBeLessThanOrEqual(1);
  });
});

describe("a hint", () => {
  test("goes to the owner of its partition in less than a cycle and a bit, who reads the letters and takes it out", () => {
    const bench = running(["a", "b", "c"]);
    bench.input("a", { kind: "hint", partition: 1, count: 3 });
    bench.input("c", { kind: "hint", partition: 1, count: 1 });
    bench.input("c", { kind: "hint", partition: 0, count: 1 });
    const log = bench.sleep(1_500);
    expect(letters(log).map(String).toSorted()).toEqual(expect.arrayContaining(["a,0", "b,1"]));
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    expect(bench.node("a").view().queued.hints + bench.node("c").view().queued.hints).toBe(0);
  });

  test("stays until there is an owner, without haste", () => {
    const bench = running(["a", "b", "c"]);
    bench.input("b", { kind: "owned", partitions: [4, 7] });
    bench.input("a", { kind: "hint", partition: 1, count: 3 });
    const log = bench.sleep(10_000);
    expect(letters(log)).toEqual([]);
    expect(route(log).length).toBeLessThanOrEqual(40);
    expect(tokens(log).at(-1)?.parcels).toMatchObject([{ hints: [{ partition: 1, count: 3 }] }]);
    bench.input("c", { kind: "owned", partitions: [1] });
    expect(letters(bench.sleep(2_000))).toEqual([["c", [1]]]);
    // A node that takes ownership of the partition itself needs no token to find the mail.
    bench.input("c", { kind: "owned", partitions: [] });
    bench.input("a", { kind: "hint", partition: 1, count: 1 });
    bench.sleep(3_000);
    const from = bench.log.length;
    bench.input("a", { kind: "owned", partitions: [1] });
    bench.sleep(2_000);
    expect(letters(bench.log.slice(from))).toEqual([["a", [1]]]);
  });

  test("is not taken by a node whose lease is over", () => {
    const bench = running(["a", "b", "c"]);
    const past = { ...reading(["a", "b", "c"], { now: bench.now }), leaseUntil: 0 };
    bench.join("b", past);
    bench.input("a", { kind: "hint", partition: 1, count: 1 });
    expect(letters(bench.sleep(3_000))).toEqual([]);
    bench.input("c", { kind: "owned", partitions: [1] });
    expect(letters(bench.sleep(3_000))).toEqual([["c", [1]]]);
  });

  test("is not lost with a token, and a parcel whose sender is gone does not go round for ever", () => {
    const bench = running(["a", "b", "c"]);
    bench.input("b", { kind: "owned", partitions: [] });
    bench.input("c", { kind: "owned", partitions: [] });
    bench.input("c", { kind: "hint", partition: 1, count: 1 });
    bench.sleep(2_000);
    // c dies, so its parcel is removed from the token.
    bench.down.add("c");
    const log = bench.sleep(10_000);
    expect(tokens(log).at(-1)?.parcels).toEqual([]);
    bench.input("a", { kind: "hint", partition: 1, count: 1 });
    bench.sleep(3_000);
    // b dies with the token and the parcel, and c is back and owns the partition.
    bench.down.add("b");
    bench.down.delete("c");
    bench.input("c", { kind: "owned", partitions: [1] });
    expect(letters(bench.sleep(15_000))).toContainEqual(["c", [1]]);
  });
});

describe("the members", () => {
  test("are those of the latest reading: an older one, late, changes nothing", () => {
    const bench = running(["a", "b"]);
    bench.members("a", reading(["a", "b", "c"], { now: 5_000 }));
    bench.members("a", reading(["a"], { now: 4_000 }));
    expect(
      bench
        .node("a")
        .view()
        .nodes.map(({ url }) => url),
    ).toEqual(["a", "b", "c"]);
  });

  test("that join wait for the token to come; all have the same map after a cycle", () => {
    const bench = running(["a", "c"]);
    const now = bench.now;
    bench.join("b", reading(["a", "b", "c"], { now }));
    bench.members("c", reading(["a", "b", "c"], { now }));
    bench.sleep(3_000);
    const views = [...bench.nodes.values()].map((node) => node.view());
    expect(views.reduce((sum, { made }) => sum + made, 0)).toBe(1);
    for (const view of views)
      expect(view.nodes.map(({ url, agrees }) => `${url} ${agrees}`)).toEqual(["a true", "b true", "c true"]);
  });
});

describe("a timer", () => {
  test("that its owner does not fire is told to it by its clockworker, after the grace and until it is over", () => {
    const bench = running(["a", "b", "c"]);
    const timer = { execution: executionIn(0), timer: "t", due: bench.now + 3_000 };
    bench.input("a", { kind: "timers-set", timers: [timer] });
    const due = (log: readonly Logged[]) => log.filter(({ output }) => output.kind === "timer-due");
    const log = bench.sleep(8_000);
    expect(due(log)).toEqual([
      { at: timer.due + 2_000, url: "b", output: { kind: "timer-due", to: "a", timers: [timer] } },
    ]);
    expect(due(bench.sleep(5_000))).toHaveLength(1);
    expect(bench.node("b").view().watch).toMatchObject({
      executors: ["a"],
      partitions: 3,
      timers: 1,
      lateness: { count: 1, maxMs: 2_000 },
    });
    bench.input("b", { kind: "timers-over", timers: [timer] });
    expect(due(bench.sleep(60_000))).toEqual([]);
  });

  test("goes round until its clockworker has read of it, who was skipped at first", () => {
    const bench = running(["a", "b", "c"]);
    bench.down.add("b");
    bench.sleep(2_000);
    bench.input("a", {
      kind: "timers-set",
      timers: [{ execution: executionIn(0), timer: "t", due: bench.now + 30_000 }],
    });
    const away = bench.sleep(2_000);
    expect(route(away).length).toBeLessThanOrEqual(8);
    expect(tokens(away).at(-1)?.parcels).toMatchObject([{ watchers: ["b"], urgent: false }]);
    bench.down.delete("b");
    const back = bench.sleep(5_000);
    expect(bench.node("b").view().watch.timers).toBe(1);
    expect(back.filter(({ output }) => output.kind === "scan-timers")).toEqual([]);
    expect(tokens(back).at(-1)?.parcels).toEqual([]);
  });

  test("that its owner fires in time is told to nobody, and its end is carried once", () => {
    const bench = running(["a", "b", "c"]);
    const timer = { execution: executionIn(0), timer: "t", due: bench.now + 3_000 };
    bench.input("a", {
      kind: "timers-set",
      timers: [timer, { ...timer, timer: "far", due: bench.now + 3_600_000 }],
    });
    bench.sleep(3_000);
    expect(bench.node("b").view().watch.timers).toBe(1);
    const from = bench.log.length;
    bench.input("a", { kind: "timers-ended", timers: [timer] });
    bench.sleep(10_000);
    const log = bench.log.slice(from);
    expect(log.filter(({ output }) => output.kind === "timer-due")).toEqual([]);
    expect(tokens(log).filter(({ parcels }) => parcels.length > 0)).toHaveLength(3);
    expect(bench.node("b").view().watch.timers).toBe(0);
  });

  test("is watched by whoever is its clockworker after the ring has changed, from the store", () => {
    const bench = running(["a", "b", "c"]);
    bench.rows = [{ execution: executionIn(0), timer: "t", due: bench.now + 20_000 }];
    expect(bench.node("c").view().watch.executors).toEqual(["b"]);
    bench.down.add("b");
    for (const url of ["a", "c"]) bench.members(url, reading(["a", "c"], { now: bench.now }));
    bench.sleep(6_000);
    expect(bench.node("c").view().watch).toMatchObject({ executors: ["a"], partitions: 4, timers: 1 });
    expect(bench.sleep(20_000).filter(({ output }) => output.kind === "timer-due")).toMatchObject([
      { url: "c", output: { to: "a" } },
    ]);
  });

  test("of a thousand more than a parcel holds is found by a scan, and the token stays small", () => {
    const bench = running(["a", "b", "c"]);
    const timers = Array.from({ length: 2_500 }, (_, i) => ({
      execution: executionIn(0),
      timer: `t${i}`,
      due: bench.now + 30_000,
    }));
    bench.rows = timers;
    bench.input("a", { kind: "timers-set", timers });
    const log = bench.sleep(10_000);
    expect(Math.max(...tokens(log).map((token) => JSON.stringify(token).length))).toBeLessThan(2_000);
    expect(bench.of("b", "scan-timers").length).toBeGreaterThanOrEqual(2);
    expect(bench.node("b").view().watch.timers).toBe(2_500);
  });
});

describe("what comes from the network", () => {
  test("is a token or a state as it was sent, or a rejection that says where it is wrong", () => {
    const bench = running(["a", "b"]);
    bench.input("a", { kind: "hint", partition: 1, count: 1 });
    bench.input("a", { kind: "timers-set", timers: [{ execution: "e", timer: "t", due: bench.now }] });
    const token = tokens(bench.sleep(1_500)).find(({ parcels }) => parcels.length > 0);
    const wire = JSON.parse(JSON.stringify(token));
    expect(parseToken(wire)).toEqual(token);
    expect(parseToken({ ...wire, number: -1 })).toMatchObject({
      kind: "rejection",
      code: "invalid_input",
      path: "number",
    });
    expect(parseToken({ ...wire, parcels: [{}] })).toMatchObject({ kind: "rejection" });
    expect(parseToken(null)).toMatchObject({ kind: "rejection" });
    const state = bench.node("a").state();
    expect(parseRingState(JSON.parse(JSON.stringify(state)))).toEqual(state);
    expect(parseRingState({ v: 2 })).toMatchObject({ kind: "rejection", path: "v" });
  });
});
