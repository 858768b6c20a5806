// Watches of executions of other nodes: one stream for all who watch one, wherever it moves, and none when nobody does.
import { describe, expect, test } from "vitest";
import { go, PeerWorld, start } from "../../fixtures/cluster/peer-world-fixture.ts";

async function two(streamsMax = 1_000) {
  const world = new PeerWorld();
  const [a, b] = [await world.node("a", { streamsMax }), await world.node("b")];
  await a.take(0, 1, 2);
  await b.take(3, 4, 5);
  await a.renew();
  const watch = (execution: string) => {
    const ends: unknown[] = [];
    const stop = a.cluster.watch(execution, (_, end) => ends.push(end));
    return { ends, stop, isOver: () => ends.some((end) => end !== null) };
  };
  return { world, a, b, watch };
}

const DONE = { status: "done" };

describe("an execution of another node is watched", () => {
  test("to its end, by one stream for all, which is gone with the last of them", async () => {
    const { world, a, watch } = await two();
    const id = world.idIn(3);
    await start(a, id);
    const [first, second] = [watch(id), watch(id)];
    await world.until(() => first.ends.length > 0 && second.ends.length > 0);
    expect(a.cluster.watches).toEqual({ executions: 1, streams: 1 });
    await a.cluster.send(id, go("m1"));
    await world.until(() => first.isOver() && second.isOver());
    expect(first.ends.at(-1)).toMatchObject(DONE);
    first.stop();
    expect(a.cluster.watches).toEqual({ executions: 1, streams: 1 });
    second.stop();
    second.stop();
    await world.until(() => a.cluster.watches.streams === 0);
    expect(a.cluster.watches).toEqual({ executions: 0, streams: 0 });
  });

  test("before it is there, and after it has ended", async () => {
    const { world, a, watch } = await two();
    const id = world.idIn(4);
    const early = watch(id);
    await world.until(() => world.requests.includes("b watch 200"));
    expect(early.ends).toEqual([]);
    await start(a, id);
    await world.until(() => early.ends.length > 0);
    await a.cluster.send(id, go("m1"));
    await world.until(() => early.isOver());
    early.stop();
    const late = watch(id);
    await world.until(() => late.isOver());
    expect(late.ends).toMatchObject([DONE]);
    late.stop();
  });

  test("its logs too", async () => {
    const { world, a, b } = await two();
    const id = world.idIn(5);
    await start(a, id);
    let logged = 0;
    const stop = a.cluster.watchLogs(id, () => logged++);
    // Whoever begins to watch looks at once.
    await world.until(() => logged === 1);
    expect(a.cluster.watches).toEqual({ executions: 1, streams: 1 });
    stop();
    await world.until(() => a.cluster.watches.streams === 0);
    expect(b.engine.hasStopped).toBe(false);
  });

  test("while nothing happens the stream is kept alive", async () => {
    const { world, a, b, watch } = await two();
    const id = world.idIn(3);
    await start(a, id);
    const { ends, stop } = watch(id);
    await world.until(() => ends.length === 1);
    for (let i = 0; i < 8; i++) {
      await world.clock.advance(5_000);
      for (const node of [a, b]) await node.renew();
      await turns(200);
    }
    expect(ends).toEqual([null]);
    expect(world.requests.filter((request) => request === "b watch 200")).toHaveLength(1);
    stop();
  });

  test("by another stream after one that ended, or that says nothing at all", async () => {
    const { world, a, b, watch } = await two();
    const id = world.idIn(3);
    await start(a, id);
    const { ends, stop } = watch(id);
    await world.until(() => ends.length === 1);
    b.mood = "hangs";
    b.routes.close();
    await world.passUntil(() => b.hung === 1, 10);
    const before = world.clock.now();
    await world.passUntil(() => b.hung === 2);
    expect(world.clock.now() - before).toBeGreaterThanOrEqual(14_000);
    b.mood = "answers";
    await world.passUntil(() => ends.length === 2);
    stop();
  });

  test("without a stream of its own if there are too many, only later", async () => {
    const { world, a, watch } = await two(1);
    const [one, other] = [world.idIn(3), world.idIn(4)];
    await start(a, one);
    await start(a, other);
    const [first, second] = [watch(one), watch(other)];
    await world.until(() => first.ends.length === 1 && second.ends.length === 1);
    expect(a.cluster.watches).toEqual({ executions: 2, streams: 1 });
    await a.cluster.send(other, go("m1"));
    await world.passUntil(() => second.isOver());
    expect(second.ends.at(-1)).toMatchObject(DONE);
    first.stop();
    second.stop();
    await world.until(() => a.cluster.watches.streams === 0);
    expect(a.cluster.watches.executions).toBe(0);
  });
});

describe("a watch goes along with its execution", () => {
  test("from here to another node, and back", async () => {
    const { world, a, b, watch } = await two();
    const id = world.idIn(0);
    await start(a, id);
    const { ends, isOver, stop } = watch(id);
    expect(a.cluster.watches).toEqual({ executions: 1, streams: 0 });
    await a.release(0);
    await b.take(0);
    await a.renew();
    await world.until(() => ends.length === 1);
    expect(a.cluster.watches.streams).toBe(1);
    await b.release(0);
    await a.take(0);
    await world.until(() => a.cluster.watches.streams === 0);
    await a.cluster.send(id, go("m1"));
    await world.until(isOver);
    expect(ends.at(-1)).toMatchObject(DONE);
    stop();
  });

  test("an end that came while nobody listened is told all the same", async () => {
    const { world, a, b, watch } = await two();
    const id = world.idIn(0);
    await start(a, id);
    const { ends, isOver, stop } = watch(id);
    a.isBlind = true;
    await a.release(0);
    await b.take(0);
    await b.cluster.send(id, go("m1"));
    await b.release(0);
    expect(ends).toEqual([]);
    await a.take(0);
    await world.until(isOver);
    expect(ends).toMatchObject([DONE]);
    stop();
  });

  test("that another node had it for a while shows by its epoch", async () => {
    const { world, a, b, watch } = await two();
    const id = world.idIn(0);
    await start(a, id);
    const { ends, isOver, stop } = watch(id);
    const term = a.owners.termOf(id);
    a.isBlind = true;
    // Its process stood still meanwhile: it neither let go nor noticed.
    await world.clock.advance(10_001);
    await b.take(0);
    await b.cluster.send(id, go("m1"));
    await b.release(0);
    expect(a.owners.termOf(id)).toBe(term);
    await a.keepLease();
    const owned = await a.store.take([0]);
    await a.engine.cluster.taken(owned);
    a.owners.taken(owned);
    await world.until(isOver);
    expect(ends).toMatchObject([DONE]);
    stop();
  });
});

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}
