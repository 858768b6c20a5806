import { expect, test } from "vitest";
import type { ClusterStore, Membership } from "./cluster-store.ts";
import type { StoreInfo } from "./store.ts";
import { StoreClock } from "./store-clock.ts";

/** A machine whose clock is wrong, and a store some way off. */
function scene(machineAhead: number) {
  const world = { elapsed: 5_000, storeAhead: 1_000_000, wayMs: 0 };
  const storeNow = () => world.elapsed + world.storeAhead;
  const answer = () => {
    world.elapsed += world.wayMs;
    const now = storeNow();
    world.elapsed += world.wayMs;
    return now;
  };
  const machine = {
    now: () => storeNow() + machineAhead,
    after: () => () => {},
    soon: (run: () => void) => run(),
  };
  const inner = {
    open: async () => ({}) as StoreInfo,
    now: async () => answer(),
    renew: async () => ({ now: answer() }) as Membership,
  } satisfies Partial<ClusterStore>;
  const clock = new StoreClock(machine, () => world.elapsed);
  return { world, storeNow, store: clock.setBy(inner), clock };
}

test.each([3_600_000, -3_600_000])(
  "time is the store's, however wrong the machine's clock is",
  async (ms) => {
    const { world, storeNow, store, clock } = scene(ms);
    await store.open();
    expect(clock.now()).toBe(storeNow());
    world.elapsed += 10_000;
    expect(clock.now()).toBe(storeNow());
    expect(clock.stepped()).toBe(0);
  },
);

test("it is never early by what an answer takes, and a slow answer does not set it back", async () => {
  const { world, storeNow, store, clock } = scene(0);
  world.wayMs = 40;
  await store.open();
  expect(clock.now()).toBe(storeNow() - 40);
  world.wayMs = 1;
  await store.renew();
  expect(clock.now()).toBe(storeNow() - 1);
  world.wayMs = 900;
  await store.renew();
  expect(clock.now()).toBe(storeNow() - 1);
  expect(clock.stepped()).toBe(0);
});

test("a store's clock that is set forward is followed and told; one that is set back is waited for", async () => {
  const { world, storeNow, store, clock } = scene(0);
  await store.open();
  world.storeAhead += 60_000;
  await store.renew();
  expect(clock.now()).toBe(storeNow());
  expect(clock.stepped()).toBe(60_000);
  world.storeAhead -= 1_000;
  const before = clock.now();
  await store.renew();
  expect(clock.now()).toBe(before);
  world.elapsed += 500;
  expect(clock.now()).toBe(before + 450);
  world.elapsed += 20_000;
  expect(clock.now()).toBe(storeNow());
});
