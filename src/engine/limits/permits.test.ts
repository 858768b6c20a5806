// Limits between nodes: messages are lost, repeated and reordered; quota servers and nodes die.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";
import { SeededRandom } from "../../std/random.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import { partitionOf } from "../../store/partition-of.ts";
import { QuotaClient, type Usage } from "./quota-client.ts";
import { QuotaServer } from "./quota-server.ts";

const PATIENCE_MS = 100;

/** The limits of a node whose use the test sets. */
function queueWith(use: { held: number; waiting: number; isRate?: boolean }) {
  const usage = (): Usage => ({ reserved: 0, priority: 0, moved: 0, adopted: 0, isRate: false, ...use });
  const client = new QuotaClient(PATIENCE_MS, usage);
  client.declare("l", { max: 2, declaredAt: 1, silenceMs: 50 }, false);
  return client;
}

const HOME = {
  epoch: 1,
  marginMs: 0,
  takeoverMs: 1_000,
  reminderMs: 500,
  unstoredSince: null,
  live: [],
  ended: {},
};

function homeSince(undeclaredSince: number | null, awaited: readonly string[] = []): QuotaServer {
  return new QuotaServer({ ...HOME, undeclaredSince, awaited, now: 0 });
}

/** The home to which this one hands over, at a time. */
function nextOf(home: QuotaServer, now: number, live: readonly string[]): QuotaServer {
  const { limits, undeclaredMs, awaited = [] } = home.toHandover(now);
  const undeclaredSince = undeclaredMs === undefined ? null : now - undeclaredMs;
  const next = new QuotaServer({ ...HOME, undeclaredSince, awaited, now }, limits);
  next.members(new Set(live), {}, now);
  return next;
}

function ask(over: Partial<PermitAsk>): PermitAsk {
  return {
    name: "l",
    max: 2,
    declaredAt: 1,
    n: 1,
    quota: 0,
    wants: 0,
    silenceMs: 50,
    isLasting: false,
    ...over,
  };
}

function quotaOf(told: ReadonlyMap<string, PermitGrant>, node: string): number | undefined {
  return told.get(node)?.quota;
}

describe("a home", () => {
  test("gives out no more than the limit to all nodes together", () => {
    const home = homeSince(null);
    expect(quotaOf(home.asked("a", ask({ wants: 5 }), 0), "a")).toBe(2);
    expect(quotaOf(home.asked("b", ask({ wants: 1 }), 0), "b")).toBe(0);
    const told = home.asked("a", ask({ n: 2, quota: 1 }), 0);
    expect([quotaOf(told, "a"), quotaOf(told, "b")]).toEqual([1, 1]);
  });

  test("believes a newer word only", () => {
    const home = homeSince(null);
    home.asked("a", ask({ n: 5, quota: 1 }), 0);
    expect(home.asked("a", ask({ n: 4, quota: 2 }), 0).size).toBe(0);
    expect(home.toHandover(0).limits[0]?.holders).toEqual([{ node: "a", quota: 1, n: 5 }]);
  });

  test("keeps what a dead node had until nothing of it can run", () => {
    const home = homeSince(null);
    home.asked("a", ask({ wants: 2 }), 0);
    home.asked("b", ask({ wants: 1 }), 0);
    home.members(new Set(["b"]), {}, 100);
    expect(home.tick(1_149)).toEqual([]);
    expect(home.tick(1_150).map(({ node, grant }) => [node, grant.quota])).toEqual([["b", 1]]);
  });

  test("gives nothing out after a crash until all have spoken and what nobody declared is over", () => {
    const home = homeSince(0, ["a"]);
    expect(quotaOf(home.asked("b", ask({ wants: 1 }), 10), "b")).toBe(0);
    home.declared("a");
    expect(home.tick(1_049)).toEqual([]);
    expect(home.nextAt(1_049)).toBe(1_050);
    expect(home.tick(1_050).map(({ grant }) => grant.quota)).toEqual([1]);
    expect(home.nextAt(1_050)).toBe(Number.POSITIVE_INFINITY);
  });

  test("passes on what living nodes had, from the first moment after a crash, and nothing beyond it", () => {
    const home = homeSince(0, ["a", "b", "c"]);
    home.asked("a", ask({ max: 3, quota: 2, moved: 0 }), 10);
    expect(quotaOf(home.asked("b", ask({ max: 3, wants: 3, moved: 0 }), 20), "b")).toBe(0);
    const told = home.asked("a", ask({ max: 3, n: 2, quota: 1, wants: 1, moved: 0 }), 30);
    expect([quotaOf(told, "a"), quotaOf(told, "b")]).toEqual([1, 1]);
    // The dead node may still use the third permit: it is granted when the lease of that node is over.
    expect(home.tick(1_049).map(({ grant }) => grant.quota)).not.toContain(2);
    for (const node of ["a", "b", "c"]) home.declared(node);
    expect(home.tick(1_050).map(({ node, grant }) => [node, grant.quota])).toContainEqual(["a", 2]);
  });

  test("does not take for a living node's what has moved on from it", () => {
    const home = homeSince(0);
    home.asked("a", ask({ quota: 2, moved: 1 }), 10);
    home.asked("b", ask({ wants: 2, moved: 0 }), 20);
    const told = home.asked("a", ask({ n: 2, quota: 0, moved: 0 }), 30);
    expect(quotaOf(told, "b")).toBe(1);
  });

  test("sleeps until it may give out again, also when it could remind those who have permits", () => {
    const home = homeSince(0);
    home.asked("a", ask({ quota: 1 }), 600);
    home.asked("b", ask({ wants: 1 }), 600);
    expect(home.nextAt(600)).toBe(1_050);
    home.tick(1_050);
    expect(home.nextAt(1_050)).toBeGreaterThan(1_050);
  });

  test("that is handed over goes on waiting for what a dead node had, and does not begin anew", () => {
    const home = homeSince(null);
    home.asked("a", ask({ wants: 2 }), 0);
    home.asked("b", ask({ wants: 1 }), 0);
    home.members(new Set(["b", "c"]), {}, 100);
    const next = nextOf(nextOf(home, 600, ["b", "c"]), 1_100, ["b", "c"]);
    // Their quotas stay the same; they learn only that others wait.
    expect(next.tick(1_149).map(({ node, grant }) => [node, grant.quota])).toEqual([
      ["a", 2],
      ["b", 0],
    ]);
    expect(next.tick(1_150).map(({ node, grant }) => [node, grant.quota])).toEqual([["b", 1]]);
  });

  test("that is handed over gives what is free to those who waited at the last one, without being asked again", () => {
    const home = homeSince(0);
    home.asked("b", ask({ n: 7, wants: 1 }), 10);
    const next = nextOf(home, 1_050, ["a", "b"]);
    expect(next.nextAt(1_050)).toBe(1_050);
    expect(next.tick(1_050)).toEqual([
      { node: "b", grant: { name: "l", n: 7, quota: 1, isContended: false } },
    ]);
    expect(next.nextAt(1_050)).toBe(Number.POSITIVE_INFINITY);
  });

  test("that is handed over awaits whom the last one awaited, and nobody else", () => {
    const home = homeSince(0, ["a", "b"]);
    home.asked("b", ask({ quota: 1 }), 10);
    home.declared("b");
    const next = nextOf(home, 1_100, ["a", "b", "c"]);
    expect(quotaOf(next.asked("c", ask({ wants: 2 }), 1_100), "c")).toBe(0);
    next.declared("a");
    expect(next.tick(1_100).map(({ node, grant }) => [node, grant.quota])).toContainEqual(["c", 1]);
    // A node that ends without a message may have held any number of permits.
    const other = nextOf(home, 1_100, ["b", "c"]);
    expect(quotaOf(other.asked("c", ask({ wants: 2 }), 1_100), "c")).toBe(0);
    expect(other.tick(2_149)).toEqual([]);
    expect(other.tick(2_150).map(({ node, grant }) => [node, grant.quota])).toContainEqual(["c", 1]);
  });

  test("hands over how long it has waited for what nobody declared, also where it knows of no limit", () => {
    expect(homeSince(0).toHandover(400)).toEqual({ limits: [], undeclaredMs: 400 });
    expect(homeSince(null).toHandover(400)).toEqual({ limits: [] });
  });
});

describe("a node", () => {
  test("says a word again that is not answered", () => {
    const client = queueWith({ held: 0, waiting: 1 });
    client.noteUse("l");
    expect(client.asks(0)).toMatchObject([{ n: 1, wants: 2 }]);
    expect(client.asks(PATIENCE_MS - 1)).toEqual([]);
    expect(client.asks(PATIENCE_MS)).toMatchObject([{ n: 2, wants: 2 }]);
  });

  test("keeps what a home gave it when an earlier answer to the same word comes late", () => {
    const use = { held: 0, waiting: 1, isRate: true };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 2, isContended: false });
    use.held = 2;
    use.waiting = 0;
    client.granted({ name: "l", n: 1, quota: 0, isContended: true });
    expect(client.declarations(() => true, 10)).toMatchObject([{ quota: 2 }]);
  });

  test("does not get back what it has forfeited by a word that came before", () => {
    const use = { held: 2, waiting: 1 };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 2, isContended: false });
    use.held = 1;
    client.forfeit("l");
    client.granted({ name: "l", n: 1, quota: 2, isContended: false });
    expect(client.asks(10)).toMatchObject([{ quota: 1 }]);
  });

  test("has of a rate no more than its home gave it, whatever it counts", () => {
    const client = queueWith({ held: 1, waiting: 0, isRate: true });
    client.noteUse("l");
    expect(client.asks(0)).toEqual([]);
    expect(client.declarations(() => true, 0)).toMatchObject([{ quota: 0 }]);
    // An attempt that was taken over has its permit here.
    const other = queueWith({ held: 1, waiting: 0 });
    other.noteUse("l");
    expect(other.asks(0)).toMatchObject([{ quota: 1 }]);
  });

  test("says what it has when a home speaks of an older word than the last", () => {
    const use = { held: 0, waiting: 1 };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 2, isContended: false });
    use.waiting = 0;
    expect(client.asks(10)).toMatchObject([{ n: 2, quota: 0, wants: 0 }]);
    client.granted({ name: "l", n: 2, quota: 0, isContended: false });
    // The first grant is delivered again, after the second: the quota server believes that the node has two permits.
    expect(client.granted({ name: "l", n: 1, quota: 2, isContended: true })).toBe(false);
    expect(client.asks(20)).toMatchObject([{ n: 3, quota: 0, wants: 0 }]);
  });

  test("uses a permit once where others wait, and gives it back", () => {
    const use = { held: 0, waiting: 1 };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 1, isContended: true });
    expect(client.room("l", 0)).toBe(1);
    client.used("l");
    client.noteUse("l");
    expect(client.room("l", 0)).toBe(0);
    expect(client.asks(10)).toMatchObject([{ quota: 0, wants: 2 }]);
  });

  test("keeps what it has while the home is silent, and uses it again", () => {
    const use = { held: 0, waiting: 1 };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 2, isContended: true });
    client.used("l");
    client.used("l");
    use.held = 1;
    client.noteUse("l");
    expect(client.asks(10)).toMatchObject([{ quota: 1 }]);
    use.held = 0;
    client.noteUse("l");
    expect(client.room("l", 0)).toBe(0);
    expect(client.asks(10 + PATIENCE_MS)).toMatchObject([{ quota: 1 }]);
    expect(client.room("l", 0)).toBe(1);
  });

  test("gives back what it has forgotten", () => {
    const client = queueWith({ held: 0, waiting: 0 });
    client.granted({ name: "other", n: 7, quota: 1, isContended: true });
    expect(client.asks(0)).toMatchObject([{ name: "other", quota: 0, wants: 0 }]);
    expect(client.nextAt()).toBe(Number.POSITIVE_INFINITY);
  });

  test("gives up the permit of an attempt that went to another node, and says so", () => {
    const use = { held: 1, waiting: 1 };
    const client = queueWith(use);
    client.noteUse("l");
    client.asks(0);
    client.granted({ name: "l", n: 1, quota: 2, isContended: false });
    client.asks(0);
    use.held = 0;
    client.forfeit("l");
    expect(client.asks(10)).toMatchObject([{ quota: 1, wants: 1 }]);
  });
});

describe("a node that takes what another left when it died", () => {
  const MEMBERS = {
    kind: "members",
    self: "a",
    live: ["a"],
    ended: {},
    epochs: new Map(),
    reads: 9,
  } as const;
  const LEFT = { leases: [], quotas: new Map(), declared: {} };
  const limited = () => [phase("a", { tasks: [1, 2], concurrency: 1, heartbeat: "1m" })];
  const HOME = partitionOf("default/w.a", 2);

  function fixture() {
    const tables = new MemoryTables({ random: new SeededRandom(1), partitions: 2 });
    const one = new NodeFixture({ suspectMs: 1_000 }, tables);
    one.input(MEMBERS);
    one.join("w", ["w.a"]);
    one.settle();
    const id = ["e1", "e2", "e3", "e4", "e5"].find((name) => partitionOf(name, 2) === HOME) ?? "";
    return { fixture: one, id };
  }

  test("goes on under limits that are at home elsewhere: their homes keep what the dead one had", () => {
    const { fixture: one, id } = fixture();
    one.input({ kind: "taken", owned: [{ partition: 1 - HOME, epoch: 2, uncleanEpoch: 1 }], left: LEFT });
    one.start(one.plan(limited()), id);
    one.settle();
    expect(one.attempts()).toHaveLength(1);
  });

  test("records an adopted attempt only when the home of its limit has confirmed it, and else loses it in time", () => {
    for (const isConfirmed of [true, false]) {
      const tables = new MemoryTables({ random: new SeededRandom(1), partitions: 2 });
      const one = new NodeFixture({ suspectMs: 1_000, heartbeatMs: 1_000 }, tables);
      one.input({ ...MEMBERS, live: ["a", "b"] });
      // The home of the limit is at the other node.
      one.input({ kind: "lost", partitions: [HOME] });
      const id = ["e1", "e2", "e3", "e4", "e5"].find((name) => partitionOf(name, 2) !== HOME) ?? "";
      const plan = one.plan([phase("a", { tasks: [1, 2], concurrency: 2 })]);
      one.start(plan, id);
      one.join("w", ["w.a"], { local: false });
      one.claim("w", 1);
      one.settle();
      const confirm = (least: number) => {
        const { n = 0, quota = 0 } = one.of("ask-permits").at(-1)?.asks.at(-1) ?? {};
        const granted = { name: "default/w.a", n, quota: Math.max(least, quota), isContended: false };
        one.input({ kind: "permits-granted", grants: [granted] });
        one.settle();
      };
      confirm(1);
      const [attempt] = one.attempts() as [Attempt];
      // Another owner has the partition for a while, and dies; then the worker of the attempt reports to this node.
      one.input({ kind: "lost", partitions: [1 - HOME] });
      const ends = [{ epoch: attempt.grant.epoch, at: one.now }];
      const owned = one.tables
        .open()
        .owned.filter(({ partition }) => partition !== HOME)
        .map((own) => ({ ...own, uncleanEnds: ends }));
      one.input({ kind: "taken", owned, left: LEFT });
      one.beat(attempt);
      one.settle();
      expect(one.events(id, "tasks.started")).toEqual([]);
      if (isConfirmed) confirm(0);
      expect(one.events(id, "tasks.started")).toHaveLength(isConfirmed ? 1 : 0);
      one.sleep(999);
      one.beat(attempt);
      one.sleep(1);
      one.settle();
      expect(one.events(id, "tasks.lost")).toHaveLength(isConfirmed ? 0 : 1);
    }
  });

  test("keeps the permit of an adopted attempt that ends until the home of its limit has heard of it", () => {
    const tables = new MemoryTables({ random: new SeededRandom(1), partitions: 2 });
    const one = new NodeFixture({ suspectMs: 1_000, heartbeatMs: 1_000, permitPatienceMs: 100 }, tables);
    one.input({ ...MEMBERS, live: ["a", "b"] });
    one.input({ kind: "lost", partitions: [HOME] });
    const id = ["e1", "e2", "e3", "e4", "e5"].find((name) => partitionOf(name, 2) !== HOME) ?? "";
    one.start(one.plan([phase("a", { tasks: [1, 2], concurrency: 2 })]), id);
    one.join("w", ["w.a"], { local: false });
    one.claim("w", 1);
    one.settle();
    const last = () => one.of("ask-permits").at(-1)?.asks.at(-1);
    const grant = (quota: number) => {
      const granted = { name: "default/w.a", n: last()?.n ?? 0, quota, isContended: true };
      one.input({ kind: "permits-granted", grants: [granted] });
      one.settle();
    };
    grant(1);
    const [attempt] = one.attempts() as [Attempt];
    one.input({ kind: "lost", partitions: [1 - HOME] });
    const ends = [{ epoch: attempt.grant.epoch, at: one.now }];
    const owned = one.tables
      .open()
      .owned.filter(({ partition }) => partition !== HOME)
      .map((own) => ({ ...own, uncleanEnds: ends }));
    one.input({ kind: "taken", owned, left: LEFT });
    one.receipt(attempt);
    one.settle();
    expect(one.events(id, "tasks.settled")).toHaveLength(1);
    one.sleep(100);
    one.settle();
    expect(last()).toMatchObject({ adopted: 1 });
    const { quota: before = 0 } = last() ?? {};
    grant(before);
    expect(last()).toMatchObject({ quota: before - 1 });
    expect(last()?.adopted).toBeUndefined();
  });

  test("waits under those that had their home there, until nothing of it can run", () => {
    const { fixture: one, id } = fixture();
    one.input({ kind: "taken", owned: one.tables.open().owned, left: LEFT });
    one.start(one.plan(limited()), id);
    one.sleep(74_999);
    expect(one.attempts()).toEqual([]);
    one.sleep(1);
    expect(one.attempts()).toHaveLength(1);
  });
});
