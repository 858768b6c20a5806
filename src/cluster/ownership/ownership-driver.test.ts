// Ownership nodes over stores in memory, in virtual time.
import { expect, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import type { Hint } from "../../store/cluster-store.ts";
import { MemoryClusterStore } from "../../store/memory/memory-cluster-store.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import { type Ownership, StoreFault } from "../../store/store.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { type OwnedEngine, OwnershipDriver } from "./ownership-driver.ts";
import { placement } from "./placement.ts";

const PARTITIONS = 16;
const away = (retryable: boolean) =>
  new StoreFault("the database is away", { retryable, nothingWritten: false });

class Cluster {
  readonly clock = new VirtualClock();
  readonly tables = new MemoryTables({ partitions: PARTITIONS });
  readonly #random = new SeededRandom(7);

  async node(url: string) {
    const { clock } = this;
    const random = this.#random.child(url);
    const store = new MemoryClusterStore(this.tables, { url, clock, random });
    await store.open();
    const engine = new TestEngine();
    const faults: string[] = [];
    const stops: string[] = [];
    const granting: boolean[] = [];
    const letters: Hint[] = [];
    const driver = new OwnershipDriver({
      store,
      engine,
      clock,
      monotonic: () => clock.now(),
      random,
      onGranting: (may) => granting.push(may),
      onMail: (partitions) => letters.push({ kind: "mail", partitions }),
      onFault: ({ message }) => faults.push(message),
      onStop: ({ message }) => stops.push(message),
    });
    return { url, store, driver, engine, faults, stops, granting, letters };
  }

  async started(url: string) {
    const node = await this.node(url);
    node.driver.start();
    await this.clock.settle();
    return node;
  }
}

class TestEngine implements OwnedEngine {
  readonly has = new Map<number, number>();
  readonly said: string[] = [];
  yielding: Promise<void> = Promise.resolve();

  get partitions(): number[] {
    return [...this.has.keys()].sort((a, b) => a - b);
  }

  taken(owned: readonly Ownership[]): Promise<void> | void {
    for (const { partition, epoch } of owned) this.has.set(partition, epoch);
    this.said.push(`taken ${owned.length}`);
  }

  async yield(partitions: readonly number[]): Promise<boolean | void> {
    await this.yielding;
    for (const partition of partitions) this.has.delete(partition);
    this.said.push(`yielded ${partitions.length}`);
  }

  lost(partitions: readonly number[], why: string): void {
    for (const partition of partitions) this.has.delete(partition);
    this.said.push(`lost ${partitions.length}: ${why}`);
  }
}

const all = Array.from({ length: PARTITIONS }, (_, partition) => partition);
const of = (url: string, ...urls: string[]) => {
  const places = placement(PARTITIONS, [url, ...urls]);
  return all.filter((partition) => places[partition] === url);
};

test("two nodes share after a while; one leaves, and the other has everything at once", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  expect(a.engine.partitions).toEqual(all);
  const b = await cluster.started("http://b");
  expect(b.engine.partitions).toEqual([]);
  await cluster.clock.advance("20s");
  expect(a.engine.partitions).toEqual(of("http://a", "http://b"));
  expect(b.engine.partitions).toEqual(of("http://b", "http://a"));
  expect(a.driver.ownerOf(b.engine.partitions[0] as number)).toBe("http://b");
  const left = a.driver.leave();
  await cluster.clock.advance("200ms");
  await left;
  expect(a.engine.partitions).toEqual([]);
  expect(b.engine.partitions).toEqual(all);
  expect([a.driver.mayAct(), b.driver.mayAct()]).toEqual([false, true]);
  expect([...a.engine.said, ...b.engine.said].filter((word) => word.startsWith("lost"))).toEqual([]);
  await a.driver.leave();
});

test("what a dead node had is taken when its lease has ended", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  const b = await cluster.started("http://b");
  a.driver.stop();
  await cluster.clock.advance("9900ms");
  expect(b.engine.partitions).toEqual([]);
  await cluster.clock.advance("500ms");
  expect(b.engine.partitions).toEqual(all);
  // The dead node's engine still has its partitions, but its expired lease forbids it to act.
  expect(a.engine.partitions).toEqual(all);
  expect(a.driver.mayAct()).toBe(false);
});

test("while the store is away a node backs off, stops in time, and comes back", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  const { renew } = a.store;
  a.store.renew = () => Promise.reject(away(true));
  await cluster.clock.advance("9400ms");
  expect(a.engine.partitions).toEqual(all);
  await cluster.clock.advance("100ms");
  expect(a.engine.partitions).toEqual([]);
  expect(a.engine.said.at(-1)).toBe(`lost ${PARTITIONS}: the lease could not be renewed in time`);
  expect(a.granting).toEqual([true, false]);
  expect(a.faults.length).toBeGreaterThan(5);
  expect(a.faults.length).toBeLessThan(25);
  a.store.renew = renew;
  await cluster.clock.advance("1s");
  expect(a.engine.partitions).toEqual(all);
  expect(a.granting).toEqual([true, false, true]);
});

test("a store that must not be used stops the node, which drops everything", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  a.store.renew = () => Promise.reject(away(false));
  await cluster.clock.advance("3s");
  expect(a.stops).toEqual(["the database is away"]);
  expect(a.engine.partitions).toEqual([]);
  expect(a.driver.mayAct()).toBe(false);
  await a.driver.leave();
  await cluster.clock.advance("1m");
  expect(a.stops).toHaveLength(1);
});

test("an engine that cannot yield is left with nothing, and its partitions go as they are", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  const b = await cluster.started("http://b");
  const { yield: before } = a.engine;
  a.engine.yield = () => Promise.reject(away(true));
  await cluster.clock.advance("16s");
  a.engine.yield = before;
  expect(a.faults).toEqual(["the database is away"]);
  expect(a.engine.partitions).toEqual(of("http://a", "http://b"));
  await cluster.clock.advance("3s");
  expect(b.engine.partitions).toEqual(of("http://b", "http://a"));
});

test("an engine that says that it did not end cleanly is believed; what it cannot begin with is taken anew", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  const b = await cluster.node("http://b");
  const uncleanEpochs: number[] = [];
  let failures = 1;
  b.engine.taken = async (owned) => {
    if (failures-- > 0) throw away(true);
    uncleanEpochs.push(...owned.map(({ uncleanEpoch }) => uncleanEpoch));
    for (const { partition, epoch } of owned) b.engine.has.set(partition, epoch);
  };
  a.engine.yield = async () => false;
  b.driver.start();
  await cluster.clock.advance("20s");
  expect(b.faults).toEqual(["the database is away"]);
  expect(b.engine.partitions).toEqual(of("http://b", "http://a"));
  expect([...b.engine.has.values()].every((epoch) => epoch === 3)).toBe(true);
  expect(uncleanEpochs.every((epoch) => epoch === 2)).toBe(true);
});

test("a refused write is looked into; letters are told on", async () => {
  const cluster = new Cluster();
  const a = await cluster.started("http://a");
  const b = await cluster.node("http://b");
  await cluster.clock.advance("1s");
  a.driver.fenced([3]);
  expect(a.engine.has.has(3)).toBe(false);
  await cluster.clock.settle();
  expect(a.engine.has.get(3)).toBe(2);
  await b.store.post([{ id: "l", to: "x", body: "{}" }]);
  expect(a.letters).toMatchObject([{ partitions: { length: 1 } }]);
});
