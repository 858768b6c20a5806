// Ownership over a real PostgreSQL: joining, leaving, dying, and a database that is away, each with a short lease.
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { type OwnedEngine, OwnershipDriver } from "../../../src/cluster/ownership/ownership-driver.ts";
import { placement } from "../../../src/cluster/ownership/placement.ts";
import { systemClock } from "../../../src/std/clock.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";

const PARTITIONS = 256;
const LEASE_MS = 5_000;
const SETTINGS = { renewMs: 500, stableMs: 1_000, yieldMax: 64 };
const WAIT = { timeout: 60_000, interval: 10 };

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

async function join({ url, schema }: { url: string; schema: string }, nodeUrl: string) {
  const store = new PostgresStore({ url, nodeUrl, schema, partitions: PARTITIONS, leaseMs: LEASE_MS });
  await store.open();
  const has = new Map<number, number>();
  const lost: number[] = [];
  const engine: OwnedEngine = {
    taken: (owned) => owned.forEach(({ partition, epoch }) => has.set(partition, epoch)),
    yield: async (partitions) => partitions.forEach((partition) => has.delete(partition)),
    lost: (partitions) => {
      lost.push(...partitions);
      for (const partition of partitions) has.delete(partition);
    },
  };
  const faults: Error[] = [];
  const stops: Error[] = [];
  const driver = new OwnershipDriver({
    store,
    engine,
    clock: systemClock(),
    settings: SETTINGS,
    onFault: (fault) => faults.push(fault),
    onStop: (reason) => stops.push(reason),
  });
  driver.start();
  onTestFinished(async () => {
    driver.stop();
    await store.close({ clean: false });
    expect(stops).toEqual([]);
  });
  return { driver, store, has, lost, faults };
}

test("nodes share, one leaves, one dies: each time the others have everything, in new epochs", async () => {
  const place = { url: database.url, schema: database.newSchema() };
  const a = await join(place, "http://a");
  await vi.waitUntil(() => a.has.size === PARTITIONS, WAIT);
  const b = await join(place, "http://b");
  const c = await join(place, "http://c");
  const places = placement(PARTITIONS, ["http://a", "http://b", "http://c"]);
  const share = (url: string) => places.filter((place) => place === url).length;
  await vi.waitUntil(() => b.has.size === share("http://b") && c.has.size === share("http://c"), WAIT);
  expect(a.has.size).toBe(share("http://a"));
  expect([...a.lost, ...b.lost, ...c.lost]).toEqual([]);

  await c.driver.leave();
  await vi.waitUntil(() => a.has.size + b.has.size === PARTITIONS, WAIT);
  expect(c.has.size).toBe(0);
  const before = new Map(b.has);
  b.driver.stop();
  await vi.waitUntil(() => a.has.size === PARTITIONS, WAIT);
  for (const [partition, epoch] of before) expect(a.has.get(partition)).toBe(epoch + 1);
  expect(a.lost).toEqual([]);
});

test("a database that is away longer than the lease: everything is dropped, then taken anew", async () => {
  const server = await PostgresServer.make();
  onTestFinished(() => server.remove());
  const a = await join({ url: server.url, schema: "rondo" }, "http://a");
  await vi.waitUntil(() => a.has.size === PARTITIONS, WAIT);
  await server.stop("immediate");
  await vi.waitUntil(() => a.has.size === 0, WAIT);
  expect(a.driver.mayAct()).toBe(false);
  expect(a.faults.length).toBeGreaterThan(0);
  await server.start();
  await vi.waitUntil(() => a.has.size === PARTITIONS, WAIT);
  expect([...a.has.values()].every((epoch) => epoch === 2)).toBe(true);
  expect(a.driver.mayAct()).toBe(true);
});
