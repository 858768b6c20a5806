/**
 * What the port promises of a store that many nodes share, as one suite over memory and PostgreSQL. An adapter brings
 * a cluster: a place with `PARTITIONS` partitions where each call makes the store of another node, and a way to wait
 * until a node that does not renew has lapsed.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { EVENT_VERSION } from "../../../src/kernel/event.ts";
import {
  type Cluster,
  IN,
  idIn,
  Node,
  PARTITIONS,
  startIn,
} from "../../fixtures/store/cluster-node-fixture.ts";
import { headOf, step } from "../../fixtures/store/example-writes.ts";
import { describeHints, describeMail, describePartitions } from "./conformance-mail.ts";

export function describeCluster(name: string, makeCluster: () => Promise<Cluster>): void {
  describe(`${name}, as a cluster:`, () => {
    let cluster: Cluster;
    beforeEach(async () => {
      cluster = await makeCluster();
    });
    describeMembers(() => cluster);
    describeOwnership(() => cluster);
    describeFences(() => cluster);
    describePartitions(() => cluster);
    describeMail(() => cluster);
    describeHints(() => cluster);
  });
}

function describeMembers(get: () => Cluster): void {
  test("a store opens with nothing owned; its partitions are all there and free", async () => {
    const node = await Node.join(get(), "http://a");
    expect(node.info).toMatchObject({ partitions: PARTITIONS, owned: [] });
    const { partitions } = await node.renew();
    const free = Array.from({ length: PARTITIONS }, (_, partition) => ({ partition, owner: null, epoch: 0 }));
    expect(partitions).toEqual(free);
  });

  test("members are told of each other, by URL, and a renewal keeps the incarnation", async () => {
    const b = await Node.join(get(), "http://b");
    const a = await Node.join(get(), "http://a");
    const first = await a.renew();
    expect(first.nodes.map(({ url, incarnation }) => [url, incarnation])).toEqual([
      ["http://a", a.incarnation],
      ["http://b", b.incarnation],
    ]);
    expect(first.nodes.map(({ reads }) => reads)).toEqual([EVENT_VERSION, EVENT_VERSION]);
    const second = await a.renew();
    expect(second.incarnation).toBe(first.incarnation);
    expect(second.nodes[0]?.since).toBe(first.nodes[0]?.since);
    expect(second.leaseUntil).toBeGreaterThanOrEqual(first.leaseUntil);
    expect(second.leaseUntil).toBeGreaterThan(second.now);
    expect(Number.isInteger(second.now) && Number.isInteger(second.leaseUntil)).toBe(true);
  });

  test("a node that lapsed is no member, and comes back as another incarnation that owns nothing", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    const before = a.incarnation;
    await get().lapse(before);
    expect((await b.renew()).nodes.map(({ url }) => url)).toEqual(["http://b"]);
    await a.renew();
    expect(a.incarnation).not.toBe(before);
    expect(await a.commit([startIn(0)])).toMatchObject({ kind: "fenced", partitions: [0] });
    expect(await a.take([0, 1])).toMatchObject([
      { partition: 0, epoch: 2, uncleanEpoch: 1 },
      { partition: 1, epoch: 2, uncleanEpoch: 1 },
    ]);
    expect(await a.commit([startIn(0)])).toMatchObject({ kind: "ok" });
  });

  test("members are told when the lease of a node that has gone ended, by each renewal", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    const { leaseUntil, ended } = await a.renew();
    expect(ended).toEqual({});
    await get().lapse(a.incarnation);
    const { ended: first, now } = await b.renew();
    expect(Object.keys(first)).toEqual([a.incarnation]);
    expect(first[a.incarnation]).toBeLessThanOrEqual(Math.min(leaseUntil, now));
    expect((await b.renew()).ended).toEqual(first);
    await b.store.leave({ clean: true });
    const c = await Node.join(get(), "http://c");
    expect(Object.keys((await c.renew()).ended).toSorted()).toEqual(
      [a.incarnation, b.incarnation].toSorted(),
    );
  });

  test("a node that has left is no member, takes nothing, and what it had is free", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    await a.store.leave({ clean: true });
    expect(await a.store.take([0])).toEqual([]);
    const { nodes, partitions } = await b.renew();
    expect(nodes.map(({ url }) => url)).toEqual(["http://b"]);
    expect(partitions.filter(({ owner }) => owner !== null)).toEqual([]);
    expect(await b.take([0])).toMatchObject([{ partition: 0, epoch: 2, uncleanEpoch: 0 }]);
  });
}

function describeOwnership(get: () => Cluster): void {
  test("a partition is taken by one; a live owner keeps it, and takes its own anew", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    expect(await a.take([2, 0])).toMatchObject([
      { partition: 0, epoch: 1, uncleanEpoch: 0 },
      { partition: 2, epoch: 1, uncleanEpoch: 0 },
    ]);
    expect(await b.take([0, 1, 2])).toMatchObject([{ partition: 1, epoch: 1, uncleanEpoch: 0 }]);
    const { partitions } = await b.renew();
    expect(partitions.map(({ owner }) => owner)).toEqual([a.incarnation, b.incarnation, a.incarnation, null]);
    expect(await a.take([0])).toMatchObject([{ partition: 0, epoch: 2, uncleanEpoch: 1 }]);
  });

  test("two nodes that want everything at once get every partition exactly once", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    const all = [0, 1, 2, 3];
    const [ofA, ofB] = await Promise.all([a.take(all), b.take(all.toReversed())]);
    expect([...ofA, ...ofB].map(({ partition }) => partition).toSorted((x, y) => x - y)).toEqual(all);
  });

  test("a clean release leaves nothing unclean, another one its epoch; only the owner's own are released", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1, 2]);
    await b.take([3]);
    await a.store.release([0], { clean: true });
    await a.store.release([1, 3], { clean: false });
    expect(await b.take([0, 1, 2, 3])).toMatchObject([
      { partition: 0, epoch: 2, uncleanEpoch: 0 },
      { partition: 1, epoch: 2, uncleanEpoch: 1 },
      { partition: 3, epoch: 2, uncleanEpoch: 1 },
    ]);
  });

  test("a partition remembers when its unclean epochs ended, whoever has renewed since", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    expect(await a.take([0])).toMatchObject([{ uncleanEnds: [], limitsStoredFrom: 1 }]);
    await get().lapse(a.incarnation);
    await b.renew();
    const [second] = await b.take([0]);
    const { now } = await b.renew();
    expect(second?.uncleanEnds).toEqual([{ epoch: 1, at: expect.any(Number) }]);
    expect(second?.uncleanEnds?.[0]?.at).toBeLessThanOrEqual(now);
    await b.store.release([0], { clean: true });
    expect(await b.take([0])).toMatchObject([{ epoch: 3, uncleanEnds: second?.uncleanEnds }]);
    const ends = second?.uncleanEnds ?? [];
    for (let epoch = 4; epoch < 40; epoch++) await b.take([0]);
    const [last] = await b.take([0]);
    expect(last?.uncleanEnds).toHaveLength(32);
    expect(last?.uncleanEnds).not.toContainEqual(ends[0]);
    expect(last).toMatchObject({ epoch: 40, limitsStoredFrom: 1 });
    expect(last?.uncleanEnds?.at(-1)).toMatchObject({ epoch: 39 });
  });

  test("what a lapsed node had is taken by another, unclean in the epoch that it lapsed in", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    await a.store.release([0], { clean: true });
    await a.take([0]);
    await get().lapse(a.incarnation);
    expect(await b.take([0, 1, 2])).toMatchObject([
      { partition: 0, epoch: 3, uncleanEpoch: 2 },
      { partition: 1, epoch: 2, uncleanEpoch: 1 },
      { partition: 2, epoch: 1, uncleanEpoch: 0 },
    ]);
  });

  test("a lapsed node's write is taken as long as nobody took its partition, and refused from then on", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    await get().lapse(a.incarnation);
    expect(await a.commit([startIn(0), startIn(1)])).toMatchObject({ kind: "ok", fenced: [] });
    await b.take([1]);
    expect(await a.commit([step(idIn(0), 1), step(idIn(1), 1)])).toEqual({
      kind: "ok",
      exists: [],
      fenced: [1],
    });
  });

  test("closing gives everything back at once", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    await a.store.close({ clean: true });
    expect((await b.renew()).nodes.map(({ url }) => url)).toEqual(["http://b"]);
    expect(await b.take([0])).toMatchObject([{ partition: 0, epoch: 2, uncleanEpoch: 0 }]);
  });
}

function describeFences(get: () => Cluster): void {
  test("after a takeover the former owner writes nothing, and loses nothing of its other partitions", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    expect(await a.commit([startIn(0), startIn(1)])).toEqual({ kind: "ok", exists: [], fenced: [] });
    await a.store.release([0], { clean: true });
    expect(await a.commit([step(idIn(0), 1)])).toMatchObject({ kind: "fenced", partitions: [0] });
    await b.take([0]);
    expect(await b.commit([step(idIn(0), 1)])).toEqual({ kind: "ok", exists: [], fenced: [] });
    const verdict = await a.commit([step(idIn(0), 2), step(idIn(1), 1), step(idIn(0), 3)]);
    expect(verdict).toEqual({ kind: "ok", exists: [], fenced: [0] });
    const loaded = await b.store.load([idIn(0), idIn(1)]);
    expect(loaded.map((execution) => [execution?.entries.length, execution?.epoch])).toEqual([
      [2, 2],
      [2, 1],
    ]);
    // Nor does it after having been told.
    expect(await a.commit([step(idIn(0), 2)])).toEqual({
      kind: "fenced",
      why: expect.stringMatching(
        /partition 0 is in epoch 2, but the writer is in epoch 1|partition 0 was released/,
      ),
      partitions: [0],
    });
  });

  test("a partition that is not in the fence is refused, a partition of another owner too", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0]);
    await b.take([1]);
    expect(await a.commit([startIn(0), startIn(1), startIn(2)])).toEqual({
      kind: "ok",
      exists: [],
      fenced: [1, 2],
    });
    const forged = { generation: a.info.generation, epochs: { 0: 1, 1: 1 } };
    const verdict = await a.store.commit({ fence: forged, writes: [startIn(1)] });
    expect(verdict).toMatchObject({ kind: "fenced", partitions: [1] });
    expect(await a.store.load(IN)).toMatchObject([{ epoch: 1 }, null, null, null]);
  });

  test("what a former owner knew of an execution is forgotten when the partition comes back to it", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0]);
    await a.commit([startIn(0)]);
    await a.store.release([0], { clean: true });
    await b.take([0]);
    await b.commit([step(idIn(0), 1), step(idIn(0), 2)]);
    await b.store.release([0], { clean: true });
    await a.take([0]);
    expect(await a.commit([step(idIn(0), 1)])).toMatchObject({ kind: "fenced", partitions: [0] });
    expect(await a.commit([step(idIn(0), 3)])).toMatchObject({ kind: "ok" });
    expect((await a.store.load([idIn(0)]))[0]).toMatchObject({ epoch: 3, entries: { length: 4 } });
  });

  test("only the owner purges", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0]);
    await b.take([1]);
    const ended = (partition: number) =>
      startIn(partition, { head: headOf(idIn(partition), { partition, finishedAt: 1, want: "nothing" }) });
    await a.commit([ended(0)]);
    await b.commit([ended(1)]);
    await b.store.purge([idIn(0), idIn(1)]);
    expect(await a.store.load([idIn(0), idIn(1)])).toMatchObject([{ epoch: 1 }, null]);
    expect(await a.commit([step(idIn(0), 1)])).toMatchObject({ kind: "ok" });
  });
}
