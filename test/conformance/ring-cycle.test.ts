// Conformance, seed 004, the ring itself: F1, F5, F6 and F7 of the list of cases.
import { expect, test } from "vitest";
import { clockOffsets, clockworkersOf } from "../../src/cluster/ring/clockworkers.ts";
import { RingMap } from "../../src/cluster/ring/ring-map.ts";
import { executionIn, RingFixture, reading } from "../fixtures/cluster/ring-fixture.ts";

test("F1 URLs c, a, b join: ring a, b, c on every node; next(c) = a; a removal closes it again", () => {
  const map = RingMap.of(reading(["c", "a", "b"]));
  expect(map.members.map(({ url }) => url)).toEqual(["a", "b", "c"]);
  expect(["a", "b", "c"].map((url) => map.next(url)?.url)).toEqual(["b", "c", "a"]);
  const closed = RingMap.of(reading(["c", "a"]));
  expect(["a", "c"].map((url) => closed.next(url)?.url)).toEqual(["c", "a"]);

  const fixture = new RingFixture(["c", "a", "b"]);
  fixture.sleep(10_000);
  for (const node of fixture.nodes.values())
    expect(node.view().nodes.map(({ url, agrees }) => [url, agrees])).toEqual([
      ["a", true],
      ["b", true],
      ["c", true],
    ]);
  const route = (from: number) =>
    fixture.log
      .slice(from)
      .flatMap(({ url, output }) => (output.kind === "post-token" ? [`${url}>${output.to}`] : []));
  expect(route(0).slice(0, 4)).toEqual(["a>b", "b>c", "c>a", "a>b"]);
  // b is gone: the store says so, and the token goes from a to c.
  fixture.nodes.delete("b");
  for (const url of ["a", "c"]) fixture.members(url, reading(["a", "c"], { now: fixture.now }));
  const from = fixture.log.length;
  fixture.sleep(10_000);
  expect(new Set(route(from))).toEqual(new Set(["a>c", "c>a"]));
});

test("F5 a cycle with another ring hash: full state requested before applying; same: delta only", () => {
  const fixture = new RingFixture(["a", "b"]);
  fixture.sleep(6_000);
  // The same map on both: tokens are applied as they come.
  expect(fixture.log.filter(({ output }) => output.kind === "ask-state")).toEqual([]);

  // a has read of c; b has not, and a has letters for b.
  fixture.join("c", reading(["a", "b", "c"], { now: 5_000 }));
  fixture.members("a", reading(["a", "b", "c"], { now: 5_000 }));
  const old = fixture.node("b").view().hash;
  fixture.take();
  fixture.input("a", { kind: "hint", partition: 1, count: 2 });
  fixture.now += 1_000;
  fixture.advance("a");
  const [post] = fixture.of("a", "post-token").slice(-1);
  expect(post?.to).toBe("b");
  expect(post?.token.hash).not.toBe(old);
  fixture.take();
  fixture.input("b", { kind: "token", from: "a", token: post?.token as never });
  const asked = fixture.take().map(({ output }) => output.kind);
  expect(asked).toContain("ask-state");
  expect(asked).not.toContain("scan-mailbox");
  expect(asked).not.toContain("post-token");
  const [ask] = fixture.of("b", "ask-state");
  fixture.input("b", { kind: "state", ask: ask?.ask as number, state: fixture.node("a").state() });
  const after = fixture.take();
  expect(after.map(({ output }) => output)).toContainEqual({ kind: "scan-mailbox", partitions: [1] });
  expect(fixture.node("b").view()).toMatchObject({ hash: fixture.node("a").view().hash });
  expect(after.flatMap(({ output }) => (output.kind === "post-token" ? [output.to] : []))).toEqual(["c"]);
});

test("F5 of two maps the one that was read later counts, and no answer does not hold up the token", () => {
  const fixture = new RingFixture(["a", "b"]);
  fixture.sleep(6_000);
  fixture.members("b", reading(["a", "b"], { now: 5_000, life: 2 }));
  const newer = fixture.node("b").view().hash;
  fixture.sleep(3_000);
  expect(fixture.node("a").view().hash).toBe(newer);
  expect(fixture.node("b").view().hash).toBe(newer);

  fixture.members("b", reading(["a", "b"], { now: 6_000, life: 3 }));
  fixture.take();
  const token = fixture.of("a", "post-token").at(-1)?.token as never as { number: number };
  fixture.input("b", { kind: "token", from: "a", token: { ...token, number: token.number + 10 } as never });
  expect(fixture.take().map(({ output }) => output.kind)).toEqual(["ask-state", "read-members"]);
  fixture.now += 2_000;
  fixture.advance("b");
  expect(fixture.take().map(({ output }) => output.kind)).toContain("post-token");
});

test("F6 a tracker set on node 1 is known to its clockworkers after one full cycle, then no longer carried", () => {
  const urls = ["n0", "n1", "n2", "n3"];
  const fixture = new RingFixture(urls);
  fixture.sleep(8_000);
  expect(fixture.node("n1").view().nodes[1]?.clockworkers).toEqual(["n1", "n3"]);
  const timer = { execution: executionIn(1), timer: "t", due: fixture.now + 30_000 };
  const from = fixture.log.length;
  fixture.input("n1", { kind: "timers-set", timers: [timer] });
  fixture.sleep(1_500);
  const carried = fixture.log
    .slice(from)
    .flatMap(({ url, output }) =>
      output.kind === "post-token" && output.token.parcels.some(({ timers }) => timers.length > 0)
        ? [url]
        : [],
    );
  expect(carried).toEqual(["n1", "n2", "n3", "n0"]);
  expect(urls.map((url) => fixture.node(url).view().watch.timers)).toEqual([0, 0, 0, 1]);
  expect(fixture.node("n1").view().queued).toEqual({ hints: 0, timers: 0 });
  expect(fixture.node("n1").view().carried).toEqual({ hints: 0, timers: 0 });
});

test("F7 offsets: (10,3) -> 0,3,6; (2,3) -> 0,1; (1,5) -> 0; executor 8 of 10 with 0,3,6 -> clockworkers 8, 1, 4", () => {
  expect(clockOffsets(10, 3)).toEqual([0, 3, 6]);
  expect(clockOffsets(2, 3)).toEqual([0, 1]);
  expect(clockOffsets(1, 5)).toEqual([0]);
  expect(clockworkersOf(8, 10, 3)).toEqual([8, 1, 4]);
});

test("F7 every executor has its clockworkers, each once, whatever the length", () => {
  for (let length = 1; length <= 20; length++)
    for (let count = 1; count <= 5; count++)
      for (let executor = 0; executor < length; executor++) {
        const found = clockworkersOf(executor, length, count);
        expect(found).toHaveLength(Math.min(length, count));
        expect(new Set(found).size).toBe(found.length);
        expect(found[0]).toBe(executor);
        expect(found.every((one) => one < length)).toBe(true);
      }
});
