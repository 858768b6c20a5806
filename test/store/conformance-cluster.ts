/**
 * What the port promises of a store that many nodes share, as one suite over memory and PostgreSQL. An adapter brings
 * a cluster: a place with `PARTITIONS` partitions where each call makes the store of another node, and a way to wait
 * until a node that does not renew has lapsed.
 */
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { EVENT_VERSION } from "../../src/kernel/event.ts";
import type { ClusterStore, Hint } from "../../src/store/cluster-store.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import { type ExecutionWrite, fenceOf, type Ownership, type StoreInfo } from "../../src/store/store.ts";
import { commit, headOf, start, step } from "./example-writes.ts";

export const PARTITIONS = 4;

export interface Cluster {
  makeStore(url: string): ClusterStore;
  /** Lets the lease of this incarnation end now. */
  lapse(incarnation: string): Promise<void>;
  /** Resolves when hints that are on their way have come. */
  hintsCome(seen: readonly Hint[], count: number): Promise<void>;
}

/** An execution's id in each partition. */
export const IN = Array.from({ length: PARTITIONS }, (_, partition) => {
  for (let n = 0; ; n++) if (partitionOf(`e${n}`, PARTITIONS) === partition) return `e${n}`;
});

const idIn = (partition: number): string => IN[partition] as string;

/** A write that creates the execution of a partition. */
export function startIn(partition: number, parts: Partial<ExecutionWrite> = {}): ExecutionWrite {
  return start(idIn(partition), { head: headOf(idIn(partition), { partition }), ...parts });
}

/** A node: its store, and what it owns. */
export class Node {
  readonly store: ClusterStore;
  incarnation = "";
  #info: StoreInfo = { generation: "", key: "", partitions: 0, owned: [] };

  private constructor(store: ClusterStore) {
    this.store = store;
  }

  static async join(cluster: Cluster, url: string): Promise<Node> {
    const node = new Node(cluster.makeStore(url));
    node.#info = await node.store.open();
    onTestFinished(() => node.store.close({ clean: false }));
    await node.renew();
    return node;
  }

  get info(): StoreInfo {
    return this.#info;
  }

  async renew() {
    const membership = await this.store.renew();
    this.incarnation = membership.incarnation;
    return membership;
  }

  async take(partitions: readonly number[]): Promise<readonly Ownership[]> {
    const taken = await this.store.take(partitions);
    const others = this.#info.owned.filter(
      (own) => !taken.some(({ partition }) => partition === own.partition),
    );
    this.#info = { ...this.#info, owned: [...others, ...taken] };
    return taken;
  }

  commit(writes: readonly ExecutionWrite[], lettersTaken?: readonly string[]) {
    return this.store.commit({
      fence: fenceOf(this.#info),
      writes,
      ...(lettersTaken === undefined ? {} : { lettersTaken }),
    });
  }

  /** The ids of all letters that are not taken. */
  async letters(): Promise<readonly string[]> {
    return (await this.store.scanLetters({ after: 0, max: 9, partitions: null })).map(({ id }) => id);
  }
}

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
    describeLetters(() => cluster);
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
    expect(await a.take([0, 1])).toEqual([
      { partition: 0, epoch: 2, uncleanEpoch: 1 },
      { partition: 1, epoch: 2, uncleanEpoch: 1 },
    ]);
    expect(await a.commit([startIn(0)])).toMatchObject({ kind: "ok" });
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
    expect(await b.take([0])).toEqual([{ partition: 0, epoch: 2, uncleanEpoch: 0 }]);
  });
}

function describeOwnership(get: () => Cluster): void {
  test("a partition is taken by one; a live owner keeps it, and takes its own anew", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    expect(await a.take([2, 0])).toEqual([
      { partition: 0, epoch: 1, uncleanEpoch: 0 },
      { partition: 2, epoch: 1, uncleanEpoch: 0 },
    ]);
    expect(await b.take([0, 1, 2])).toEqual([{ partition: 1, epoch: 1, uncleanEpoch: 0 }]);
    const { partitions } = await b.renew();
    expect(partitions.map(({ owner }) => owner)).toEqual([a.incarnation, b.incarnation, a.incarnation, null]);
    expect(await a.take([0])).toEqual([{ partition: 0, epoch: 2, uncleanEpoch: 1 }]);
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
    expect(await b.take([0, 1, 2, 3])).toEqual([
      { partition: 0, epoch: 2, uncleanEpoch: 0 },
      { partition: 1, epoch: 2, uncleanEpoch: 1 },
      { partition: 3, epoch: 2, uncleanEpoch: 1 },
    ]);
  });

  test("what a lapsed node had is taken by another, unclean in the epoch that it lapsed in", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0, 1]);
    await a.store.release([0], { clean: true });
    await a.take([0]);
    await get().lapse(a.incarnation);
    expect(await b.take([0, 1, 2])).toEqual([
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
    expect(await b.take([0])).toEqual([{ partition: 0, epoch: 2, uncleanEpoch: 0 }]);
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
      why: expect.stringMatching(/partition 0 is in epoch 2, the owner in 1|partition 0 was released/),
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

function describePartitions(get: () => Cluster): void {
  test("a wrong write refuses its partition only, with everything in it", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    await a.commit(IN.map((_, partition) => startIn(partition)));
    const other = Array.from({ length: 99 }, (_, n) => `x${n}`).find(
      (id) => partitionOf(id, PARTITIONS) === 1,
    );
    const beside = start(other as string, { head: headOf(other as string, { partition: 1 }) });
    const letters = [{ id: "l", to: idIn(0), body: "{}" }];
    const writes = [step(idIn(0), 1), beside, step(idIn(1), 7, { letters }), step(idIn(2), 1), startIn(3)];
    expect(await a.commit(writes)).toEqual({ kind: "ok", exists: [idIn(3)], fenced: [1] });
    const loaded = await a.store.load([...IN, other as string]);
    expect(loaded.map((execution) => execution?.entries.length)).toEqual([2, 1, 2, 1, undefined]);
    expect(await a.store.scanLetters({ after: 0, max: 9, partitions: null })).toEqual([]);
    expect(await a.commit([step(idIn(1), 7), step(idIn(2), 7)])).toMatchObject({
      kind: "fenced",
      partitions: [1, 2],
    });
  });

  test("scans are about the partitions they name", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    const letters = IN.map((to) => ({ id: `to ${to}`, to, body: "{}" }));
    await a.commit(
      IN.map((_, p) => startIn(p, { timersSet: [{ timer: "t", due: p }], ...(p === 0 ? { letters } : {}) })),
    );
    for (const partitions of [[], [2], [3, 1], [0, 1, 2, 3]]) {
      const ids = IN.filter((_, partition) => partitions.includes(partition));
      const work = await a.store.scanWork({ after: {}, each: 9, partitions });
      expect(work.map(({ id }) => id)).toEqual(ids);
      const timers = await a.store.scanTimers({ until: 9, max: 9, partitions });
      expect(timers.map(({ execution }) => execution)).toEqual(ids);
      const found = await a.store.scanLetters({ after: 0, max: 9, partitions });
      expect(found.map(({ to }) => to)).toEqual(ids);
    }
    expect((await a.store.scanLetters({ after: 0, max: 2, partitions: [1, 3] })).map(({ to }) => to)).toEqual(
      [idIn(1), idIn(3)],
    );
  });
}

function describeLetters(get: () => Cluster): void {
  test("a letter goes to any partition, and is taken by the owner of its receiver's only", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0]);
    await b.take([1]);
    const letters = [0, 1, 2].map((partition) => ({ id: `l${partition}`, to: idIn(partition), body: "{}" }));
    await a.commit([startIn(0, { letters })]);
    expect(await a.commit([], ["l1"])).toMatchObject({ kind: "fenced", partitions: [1] });
    expect(await a.commit([step(idIn(0), 1)], ["l0", "l1", "never"])).toEqual({
      kind: "ok",
      exists: [],
      fenced: [1],
    });
    expect(await a.letters()).toEqual(["l1", "l2"]);
    expect(await b.commit([], ["l1"])).toEqual({ kind: "ok", exists: [], fenced: [] });
    expect(await a.letters()).toEqual(["l2"]);
    expect(await a.commit([], ["never"])).toEqual({ kind: "ok", exists: [], fenced: [] });
  });

  test("a commit takes a letter that it stores if it writes beside it, whatever others write at the same time", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2]);
    const letters = [{ id: "l", to: idIn(1), body: "{}" }];
    await Promise.all([a.commit([startIn(0, { letters })], ["l"]), a.commit([startIn(1)])]);
    expect(await a.letters()).toEqual(["l"]);
    await Promise.all([a.commit([step(idIn(0), 1)]), a.commit([step(idIn(1), 1)], ["l"])]);
    expect(await a.letters()).toEqual([]);
  });

  test("letters are posted without owning anything, and each id once", async () => {
    const a = await Node.join(get(), "http://a");
    const letter = (id: string, body: string) => ({ id, to: idIn(2), body });
    await a.store.post([letter("x", "one \0"), letter("x", "two"), letter("y", "three")]);
    await a.store.post([letter("y", "four")]);
    await a.store.post([]);
    expect(await a.store.scanLetters({ after: 0, max: 9, partitions: [2] })).toEqual([
      { order: 1, ...letter("x", "one \0") },
      { order: 2, ...letter("y", "three") },
    ]);
  });

  test("orders follow creation over all partitions", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    await a.commit([startIn(3), startIn(0)]);
    await a.commit([startIn(0), startIn(2)]);
    const heads = await a.store.listHeads({}, { before: null, max: 9 });
    expect(heads.map(({ id, order, partition }) => [id, order, partition])).toEqual([
      [idIn(2), 3, 2],
      [idIn(0), 2, 0],
      [idIn(3), 1, 3],
    ]);
  });
}

function describeHints(get: () => Cluster): void {
  test("others are hinted at letters for partitions that the sender does not have, and at releases", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    // That a node has joined may be told late.
    const letters: Hint[] = [];
    const members: Hint[] = [];
    b.store.onHint((hint) => (hint.kind === "letters" ? letters : members).push(hint));
    await a.take([0]);
    await commit(a.store, a.info, [
      startIn(0, {
        letters: [2, 0, 1].map((partition) => ({ id: `l${partition}`, to: idIn(partition), body: "{}" })),
      }),
    ]);
    await get().hintsCome(letters, 1);
    expect(letters).toEqual([{ kind: "letters", partitions: [1, 2] }]);
    const before = members.length;
    await a.store.release([0], { clean: true });
    await get().hintsCome(members, before + 1);
    await a.store.post([{ id: "l3", to: idIn(3), body: "{}" }]);
    await get().hintsCome(letters, 2);
    expect(letters[1]).toEqual({ kind: "letters", partitions: [3] });
  });
}
