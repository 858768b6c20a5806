import { describe, expect, test } from "vitest";
import { newExecutionId } from "./id.ts";
import { hashText, SeededRandom } from "./random.ts";

const draws = (random: SeededRandom, n = 50) => Array.from({ length: n }, () => random.u32());

describe("a seeded random", () => {
  test("gives the same draws for the same seed, a number or a text", () => {
    for (const seed of [0, 1, 4_294_967_295, "", "abc"])
      expect(draws(new SeededRandom(seed))).toEqual(draws(new SeededRandom(seed)));
  });

  test("gives these draws on every machine", () => {
    expect(draws(new SeededRandom(1), 3)).toMatchInlineSnapshot(`
      [
        393288148,
        2174103013,
        3814759091,
      ]
    `);
    expect(hashText("rondo")).toMatchInlineSnapshot(`2410577797`);
  });

  test("gives other draws for other seeds", () => {
    const firsts = new Set(Array.from({ length: 1_000 }, (_, seed) => new SeededRandom(seed).u32()));
    expect(firsts.size).toBe(1_000);
  });

  test("has children that do not depend on each other", () => {
    const a = new SeededRandom(7);
    const b = new SeededRandom(7);
    const first = a.child("x");
    draws(first);
    draws(b.child("y"), 9);
    expect(draws(a.child("z"))).toEqual(draws(b.child("z")));
    expect(draws(a.child("x"))).not.toEqual(draws(a.child("y")));
  });

  test("stays within bounds and covers them", () => {
    const random = new SeededRandom(3);
    const seen = new Set(Array.from({ length: 500 }, () => random.between(-2, 2)));
    expect([...seen].sort((x, y) => x - y)).toEqual([-2, -1, 0, 1, 2]);
    for (let i = 0; i < 200; i++) expect(random.below(3)).toBeLessThan(3);
    expect(random.below(0)).toBe(0);
    expect([random.chance(0), random.chance(1)]).toEqual([false, true]);
    expect(["a", "b"]).toContain(random.pick(["a", "b"]));
  });

  test("shuffles: the same members, another order, evenly", () => {
    const random = new SeededRandom(5);
    const firsts = new Map<number, number>();
    for (let i = 0; i < 4_000; i++) {
      const shuffled = random.shuffle([1, 2, 3, 4]);
      expect(shuffled.toSorted((x, y) => x - y)).toEqual([1, 2, 3, 4]);
      firsts.set(shuffled[0] as number, (firsts.get(shuffled[0] as number) ?? 0) + 1);
    }
    for (const n of firsts.values()) expect(n).toBeGreaterThan(850);
  });

  test("counts its draws, so that two runs can be compared", () => {
    const random = new SeededRandom(1);
    draws(random, 12);
    expect(random.draws).toBe(12);
  });
});

describe("an execution id", () => {
  test("is ex_ and 26 characters, sorted by time", () => {
    const random = new SeededRandom(1);
    const ids = [0, 1, 65_535, 65_536, 1_893_456_000_000, 2 ** 48 - 1].map((at) =>
      newExecutionId(at, random),
    );
    for (const id of ids) expect(id).toMatch(/^ex_[0-9a-hjkmnp-tv-z]{26}$/);
    expect([...ids].sort()).toEqual(ids);
  });

  test("is unique within a millisecond", () => {
    const random = new SeededRandom(1);
    const ids = new Set(Array.from({ length: 10_000 }, () => newExecutionId(5, random)));
    expect(ids.size).toBe(10_000);
  });
});
