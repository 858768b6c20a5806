// The ring under seeds: faults of every kind for a while, then what must hold once they stop.
import { describe, expect, test } from "vitest";
import { SeededRandom } from "../../src/std/random.ts";
import { type Posted, RingWorld } from "../fixtures/cluster/ring-world-fixture.ts";
import { effort } from "../fixtures/long.ts";

const SEEDS = effort({ usual: 100, long: 500 });
const NAMES = ["http://a", "http://b", "http://c", "http://d", "http://e", "http://f", "http://g"];

/** A random history of faults and work. */
function storm(world: RingWorld, plan: SeededRandom, ms: number): void {
  world.foul();
  for (let at = 0; at < ms; at += plan.between(50, 600)) {
    const draw = plan.u32();
    world.after(at, () => act(world, draw));
  }
  world.run(world.now + ms);
  world.heal();
}

function act(world: RingWorld, draw: number): void {
  const random = new SeededRandom(draw);
  const url = random.pick(NAMES);
  const what = random.below(100);
  if (what < 40) return world.storeMail(url, random.below(world.partitions));
  if (what < 80) return world.timer(url, random.between(50, 20_000), random.chance(0.4));
  if (what < 85) return world.cut(url, random.pick(NAMES), random.between(100, 8_000));
  if (what < 90) return world.pause(url, random.between(50, 14_000));
  if (what < 92) return world.leave(url);
  if (what < 95) return world.kill(url);
  if (!world.processes.has(url)) return world.start(url);
  // Two halves that do not hear each other.
  const half = new Set(world.urls.filter(() => random.chance(0.5)));
  const during = random.between(500, 9_000);
  for (const a of world.urls)
    for (const b of world.urls) if (half.has(a) !== half.has(b)) world.cut(a, b, during);
}

function work(world: RingWorld, count: number): void {
  for (let i = 0; i < count; i++) {
    const url = world.random.pick(world.urls);
    world.storeMail(url, world.random.below(world.partitions));
    world.timer(url, world.random.between(100, 10_000), true);
    world.timer(url, world.random.between(100, 10_000), false);
  }
}

/** One token only: every post is one hop further than the one before. */
function isOneToken(posts: readonly Posted[]): boolean {
  return posts.every(({ token }, i) => {
    const before = posts[i - 1]?.token;
    return before === undefined || (token.epoch === before.epoch && token.number === before.number + 1);
  });
}

describe("in fair weather the ring", () => {
  test("makes one token, drops none, and everything is where it should be within two cycles", () => {
    for (let length = 2; length <= NAMES.length; length++) {
      const world = new RingWorld(length);
      for (const url of NAMES.slice(0, length)) world.start(url);
      world.run(world.now + 20_000);
      for (let round = 0; round < 20; round++) {
        work(world, 3);
        world.run(world.now + 2_000);
        expect([...world.mail.values()]).toEqual([]);
      }
      world.run(world.now + 14_000);
      expect([...world.rows.values()]).toEqual([]);
      expect(isOneToken(world.posted)).toBe(true);
      const views = [...world.processes.values()].map(({ ring }) => ring.view());
      expect(views.reduce((sum, { made }) => sum + made, 0)).toBe(1);
      expect(views.map(({ dropped, deaths }) => dropped + deaths.length)).toEqual(views.map(() => 0));
      expect(Math.max(...views.map(({ watch }) => watch.lateness.maxMs))).toBeLessThanOrEqual(4_500);
      expect(world.complaints).toEqual([]);
    }
  });
});

describe("after any history of faults the ring", () => {
  test(`comes to rest, and does its work (${SEEDS} seeds)`, () => {
    let told = 0;
    let hinted = 0;
    for (let seed = 0; seed < SEEDS; seed++) {
      const plan = new SeededRandom(seed);
      const world = new RingWorld(seed);
      for (const url of plan.shuffle(NAMES).slice(0, plan.between(1, 7))) world.start(url);
      storm(world, plan, plan.between(5_000, 30_000));
      if (world.urls.length === 0) world.start("http://a");
      // Leases lapse, partitions move, suspicions end.
      world.run(world.now + 40_000);
      const at = world.posted.length;
      const cycles = world.urls.map((url) => world.processes.get(url)?.ring.view().cycle.count ?? 0);
      const advances = [...world.processes.values()].map((one) => one.advances);
      world.run(world.now + 10_000);
      const length = world.urls.length;
      const since = world.posted.slice(at);
      const views = [...world.processes.values()].map(({ ring }) => ring.view());
      const label = `seed ${seed}, ${length} nodes`;
      expect([label, isOneToken(since)]).toEqual([label, true]);
      // Idle: about one cycle a second, and little else.
      expect(since.length, label).toBeLessThanOrEqual(length === 1 ? 0 : 11 * length);
      expect(since.length, label).toBeGreaterThanOrEqual(length === 1 ? 0 : 8 * length);
      views.forEach(({ cycle }, i) =>
        expect(cycle.count - (cycles[i] ?? 0), label).toBeGreaterThanOrEqual(8),
      );
      [...world.processes.values()].forEach((one, i) =>
        expect(one.advances - (advances[i] ?? 0), label).toBeLessThanOrEqual(60),
      );
      expect(new Set(views.map(({ hash }) => hash)), label).toEqual(new Set([world.trueHash()]));
      expect(views.flatMap(({ nodes }) => nodes.filter(({ agrees, suspect }) => !agrees || suspect))).toEqual(
        [],
      );
      const workAt = world.now;
      work(world, 5);
      world.run(world.now + 5_000);
      expect([...world.mail.values()], label).toEqual([]);
      // What was announced in peace is told right after its grace; what was lost in the storm, by the next scan.
      const isLeft = ({ isForgotten }: { isForgotten: boolean }) => length > 1 || !isForgotten;
      world.run(world.now + 9_000);
      const left = [...world.rows.values()].filter(isLeft);
      expect(
        left.filter(({ setAt }) => setAt >= workAt),
        label,
      ).toEqual([]);
      world.run(world.now + 50_000);
      expect([...world.rows.values()].filter(isLeft), label).toEqual([]);
      expect(world.complaints, label).toEqual([]);
      const parcels = Math.max(0, ...world.posted.map(({ token }) => token.parcels.length));
      expect(parcels, label).toBeLessThanOrEqual(NAMES.length);
      told += world.told;
      hinted += world.hinted;
    }
    expect(told).toBeGreaterThan(SEEDS * 5);
    expect(hinted).toBeGreaterThan(SEEDS * 5);
  }, 120_000);
});
