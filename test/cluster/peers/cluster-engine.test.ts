// Nodes that talk to each other: whatever is asked at one about an execution of another.
import { describe, expect, test } from "vitest";
import { PeerFaults } from "../../../src/cluster/peers/peer-faults.ts";
import { newOwnId } from "../../../src/engine/engine-port.ts";
import { isRejection, reject } from "../../../src/std/rejection.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { StoreFault } from "../../../src/store/store.ts";
import { go, PARTITIONS, PeerNode, PeerWorld, start } from "../../fixtures/cluster/peer-world-fixture.ts";

async function two() {
  const world = new PeerWorld();
  const [a, b] = [await world.node("a"), await world.node("b")];
  await a.take(0, 1, 2);
  await b.take(3, 4, 5);
  for (const node of [a, b]) await node.renew();
  return { world, a, b };
}

const cancel = (id: string) => ({ kind: "cancel", id, by: "me", reason: null }) as const;

describe("an execution of another node", () => {
  test("is started, signalled and seen from here; what is here needs no network", async () => {
    const { world, a, b } = await two();
    const [theirs, mine] = [world.idIn(3), world.idIn(0)];
    expect(await start(a, theirs)).toMatchObject({ answer: { kind: "applied" }, existed: false });
    expect(await start(a, theirs)).toMatchObject({ answer: { kind: "applied" }, existed: true });
    expect(await start(a, theirs, { input: "2" })).toMatchObject({ answer: { code: "conflict" } });
    expect([a.engine.residentCount, b.engine.residentCount]).toEqual([0, 1]);
    expect(await a.cluster.inspect(theirs)).toMatchObject({ view: { id: theirs, status: "running" } });
    expect(await a.cluster.send(theirs, go("m1", '"x"'))).toMatchObject({ answer: { kind: "applied" } });
    expect(await a.cluster.inspect(theirs)).toMatchObject({ view: { status: "done" } });
    expect(await a.cluster.dropped(theirs)).toEqual([]);
    const asked = world.requests.length;
    await start(a, mine);
    await a.cluster.send(mine, go("m1"));
    expect(await a.cluster.inspect(mine)).toMatchObject({ view: { status: "done" } });
    expect(world.requests.length).toBe(asked);
    expect(await b.cluster.inspect(mine)).toMatchObject({ view: { status: "done" } });
  });

  test("shares its request with other messages of the same turn, and each has its own answer", async () => {
    const { world, a, b } = await two();
    const ids = Array.from({ length: 40 }, (_, i) => world.idIn(3 + (i % 3)));
    world.requests.length = 0;
    const replies = await Promise.all([
      ...ids.map((id) => start(a, id)),
      ...ids.slice(0, 2).map((id) => a.cluster.send(id, go("m1"))),
      a.cluster.send(world.idIn(4), go("m1")),
    ]);
    expect(replies.slice(0, 40).every(({ answer }) => answer.kind === "applied")).toBe(true);
    // Whether a signal or its start is first is not said.
    expect(replies.at(-1)?.answer).toMatchObject({ code: "not_found" });
    expect(world.requests.filter((request) => request.startsWith("b send ")).length).toBeLessThan(4);
    expect(world.requests.filter((request) => request === "b sends 200").length).toBeLessThan(4);
    for (const id of ids) expect(await b.engine.inspect(id)).toMatchObject({ view: { id } });
  });

  test("waits for the first read of the store before it decides whether an older node is there", async () => {
    const world = new PeerWorld();
    const node = await PeerNode.open(world, "a", {});
    world.nodes.push(node);
    // Nodes of version 0.2 cannot read an id with a space.
    const started = start(node, "an id");
    await node.take(partitionOf("an id", PARTITIONS));
    expect(await world.passing(started)).toMatchObject({ answer: { kind: "applied" }, existed: false });
  });

  test("refuses as it would there", async () => {
    const { world, a } = await two();
    const id = world.idIn(3);
    expect((await a.cluster.send(id, go("m1"))).answer).toMatchObject({ code: "not_found" });
    expect(await a.cluster.inspect(id)).toMatchObject({ kind: "rejection", code: "not_found" });
    await start(a, id);
    expect((await a.cluster.send(id, cancel("c1"))).answer).toMatchObject({ kind: "applied" });
    expect((await a.cluster.send(id, go("m1"))).answer).toMatchObject({ code: "gone" });
    expect((await a.cluster.send(id, cancel("c1"))).answer).toMatchObject({ kind: "applied" });
  });

  test("gets a message once, though its answer was lost", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(4);
    b.mood = "loses";
    const started = start(a, id, { fresh: true });
    await world.until(() => world.requests.includes("b send -1"));
    b.mood = "answers";
    expect(await world.passing(started)).toMatchObject({ answer: { kind: "applied" }, existed: false });
    b.mood = "loses";
    const paused = a.cluster.send(id, { kind: "pause", id: "p1", by: "me", reason: null });
    await world.until(() => world.requests.filter((request) => request === "b send -1").length === 2);
    b.mood = "answers";
    expect(await world.passing(paused)).toMatchObject({ answer: { kind: "applied" } });
    const entries = await a.store.readJournal({ execution: id, from: 1 });
    expect(
      entries
        .map(({ body }) => body)
        .join()
        .match(/"?paused"?/g),
    ).toHaveLength(1);
  });

  test("is found where it has moved to", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(5);
    await start(b, id);
    await b.release(5);
    await a.take(5);
    // b has not read the store since: it believes that nobody has it.
    expect(b.owners.ownerOf(id)).toEqual({ kind: "nobody" });
    expect(await world.passing(b.cluster.send(id, go("m1")))).toMatchObject({ answer: { kind: "applied" } });
    expect(await a.cluster.inspect(id)).toMatchObject({ view: { status: "done" } });
  });

  test("that nobody has is refused after a while, with a hint", async () => {
    const { world, a } = await two();
    const before = world.clock.now();
    const { answer } = await world.passing(start(a, world.idIn(9)));
    expect(answer).toMatchObject({ code: "not_ready", hint: expect.stringContaining("again") });
    expect(world.clock.now() - before).toBeGreaterThanOrEqual(15_000);
  });
});

describe("one hop", () => {
  test("who is not the owner says so, and asks nobody", async () => {
    const { world, a, b } = await two();
    const c = await world.node("c");
    const id = world.idIn(3);
    await start(c, id);
    await b.release(3);
    await c.take(3);
    world.requests.length = 0;
    // a believes that b has it still; b knows that it has not.
    expect(a.owners.ownerOf(id)).toMatchObject({ kind: "peer", url: b.url });
    expect(await world.passing(a.cluster.inspect(id))).toMatchObject({ view: { id } });
    expect(world.requests).toEqual(["b inspect 421", "c inspect 200"]);
  });
});

describe("the owner dies", () => {
  test("while a message is under way and a watch is open: both go on at the next one", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(3);
    await start(a, id);
    const seen: unknown[] = [];
    a.cluster.watch(id, (_, end) => seen.push(end));
    await world.until(() => seen.length > 0);
    b.mood = "hangs";
    const sent = a.cluster.send(id, go("m1", '"late"'));
    await world.until(() => b.hung === 1);
    b.kill();
    await world.until(() => a.cluster.watches.streams === 0);
    // Its lease still runs: nobody can take what it had.
    await a.take(3, 4, 5);
    expect(a.owners.isMine(id)).toBe(false);
    await world.passUntil(() => world.clock.now() >= b.diedAt + 10_000);
    await a.take(3, 4, 5);
    expect(await world.passing(sent)).toMatchObject({ answer: { kind: "applied" } });
    await world.passUntil(() => seen.some((end) => end !== null));
    expect(seen.at(-1)).toMatchObject({ status: "done" });
  });

  test("by standing still: who waits for its answer asks the next one as soon as there is one", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(4);
    await start(a, id);
    b.mood = "hangs";
    const sent = a.cluster.send(id, go("m1"));
    await world.until(() => b.hung === 1);
    b.isDead = true;
    await world.clock.advance(10_001);
    await a.take(4);
    expect(await world.passing(sent)).toMatchObject({ answer: { kind: "applied" } });
    expect(await a.cluster.inspect(id)).toMatchObject({ view: { status: "done" } });
  });

  test("and nobody takes over: the message is refused", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(4);
    b.kill();
    const { answer } = await world.passing(start(a, id));
    expect(answer).toMatchObject({ code: "not_ready" });
  });

  test.each([1_000, 10_000, 30_000])(
    "patience with the owner follows the lease of %i ms",
    async (leaseMs) => {
      const world = new PeerWorld();
      const [a, b] = [await world.node("a", { leaseMs }), await world.node("b")];
      await a.take(0);
      await b.take(4);
      for (const node of [a, b]) await node.renew();
      b.kill();
      const from = world.clock.now();
      const { answer } = await world.passing(start(a, world.idIn(4)));
      expect(answer).toMatchObject({ code: "not_ready" });
      // Virtual time, in which a retry waits a second at most.
      expect(world.clock.now() - from).toBeGreaterThanOrEqual(leaseMs + 5_000);
      expect(world.clock.now() - from).toBeLessThan(leaseMs + 8_000);
    },
  );
});

describe("what nodes tell each other unasked", () => {
  test("stored mail is read after a notice; mail to an execution that does not exist is kept as undelivered", async () => {
    const { world, a } = await two();
    const [id, unknown] = [world.idIn(1), world.idIn(2)];
    await start(a, id);
    const body = JSON.stringify(cancel("c1"));
    await a.store.post([
      { id: "l1", to: id, body },
      { id: "l2", to: unknown, body },
    ]);
    a.engine.cluster.notify({ kind: "mail-stored" });
    const undelivered = () => a.store.listDocuments("undelivered", { max: 10 });
    let kept: Awaited<ReturnType<typeof undelivered>> = [];
    await world.passUntil(() => {
      undelivered().then((found) => {
        kept = found;
      }, world.faults.push);
      return kept.length > 0;
    });
    expect(kept.map((one) => JSON.parse(one.body) as unknown)).toMatchObject([
      { id: "l2", to: unknown, message: { kind: "cancel", id: "c1" } },
    ]);
    expect(await a.cluster.inspect(id)).toMatchObject({ view: { status: "cancelled" } });
    expect(await a.store.scanMail({ after: 0, max: 10, partitions: null })).toEqual([]);
  });

  test("a stored definition is told to all", async () => {
    const { world, a } = await two();
    a.cluster.definitionStored("w");
    await world.until(() => world.requests.length === 1);
    expect(world.requests).toEqual(["b definition 200"]);
  });
});

test("ids for fresh executions are of this node, as far as it has any", async () => {
  const { world, a, b } = await two();
  for (const [i, node] of [a, b].entries())
    await node.take(...Array.from({ length: PARTITIONS }, (_, at) => at).filter((at) => at % 2 === i));
  for (let i = 0; i < 20; i++) {
    expect(a.owners.isMine(newOwnId(a.cluster, 1_000, world.random))).toBe(true);
    expect(b.owners.isMine(newOwnId(b.cluster, 1_000, world.random))).toBe(true);
  }
  const c = await world.node("c");
  expect(newOwnId(c.cluster, 1_000, world.random)).toMatch(/^ex_/);
  expect(newOwnId(a.engine, 1_000, world.random)).toMatch(/^ex_/);
});

test("a node that is closed answers nobody, and says so to those who watch", async () => {
  const { world, a, b } = await two();
  const id = world.idIn(3);
  await start(a, id);
  const told: unknown[] = [];
  a.cluster.watch(id, (_, end) => told.push(end));
  await world.until(() => told.length > 0);
  await world.passing(a.cluster.close());
  expect(told.at(-1)).toBe("stopped");
  expect((await a.cluster.send(id, go("m1"))).answer).toMatchObject({ code: "not_ready" });
  expect(isRejection(await a.cluster.inspect(id))).toBe(true);
  expect(a.cluster.hasStopped).toBe(true);
  expect(await b.cluster.inspect(id)).toMatchObject({ view: { status: "running" } });
});

describe("a node that owns nothing", () => {
  test("knows from the owners that the store takes no writes, and from the next written message that it does", async () => {
    const { world, b } = await two();
    const c = await world.node("c");
    const commit = b.store.commit.bind(b.store);
    b.store.commit = () =>
      Promise.reject(new StoreFault("the disk is full", { retryable: true, nothingWritten: true }));
    expect(c.cluster.commitFault).toBeNull();
    const started = start(c, world.idIn(3));
    await world.passUntil(() => c.cluster.commitFault !== null);
    expect(c.cluster.commitFault?.message).toMatch(/the store takes no writes: the disk is full/);
    b.store.commit = commit;
    expect(await world.passing(started)).toMatchObject({ answer: { kind: "applied" } });
    expect(c.cluster.commitFault).toBeNull();
  });

  test("forgets what the owners said when it is old", async () => {
    let now = 0;
    const faults = new PeerFaults(() => now);
    const rejection = reject("store_unavailable", "the store takes no writes: full");
    expect(faults.recorded("http://b", { kind: "refused", rejection })).toMatchObject({ kind: "unreached" });
    expect(faults.fault?.message).toContain("http://b");
    now = 10_001;
    expect(faults.fault).toBeNull();
  });
});

test("an execution is not started under an id that a node of an older version could not work with", async () => {
  const { world, a, b } = await two();
  world.tables.renew(
    { url: "http://older", incarnation: null, next: "older", leaseMs: 10_000, reads: 3 },
    world.clock.now(),
  );
  for (const node of [a, b]) await node.renew();
  const odd = ["日本語", "a/b", "ä", "?#&", "%2F", "x y", "a b c", "🚀"];
  const id = odd.find((one) => [3, 4, 5].includes(partitionOf(one, PARTITIONS))) ?? odd[0] ?? "";
  expect((await start(a, id)).answer).toMatchObject({
    code: "not_ready",
    message: expect.stringContaining("older"),
  });
  expect(world.requests).toEqual([]);
});
