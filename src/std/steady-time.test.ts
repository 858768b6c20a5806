import { describe, expect, test } from "vitest";
import { SteadyTime } from "./steady-time.ts";

/** A wall clock that can be set, and time that passes. */
function fake() {
  const at = { wall: 1_000_000, elapsed: 50 };
  const time = new SteadyTime({ wall: () => at.wall, elapsed: () => at.elapsed });
  const pass = (ms: number) => {
    at.wall += ms;
    at.elapsed += ms;
    return time.now();
  };
  const set = (ms: number) => {
    at.wall += ms;
    return time.now();
  };
  return { time, pass, set };
}

describe("steady time", () => {
  test("is the wall clock's while nobody sets it, however long nobody looks", () => {
    const { time, pass } = fake();
    expect([pass(0), pass(1), pass(249), pass(3_600_000), pass(5)]).toEqual([
      1_000_000, 1_000_001, 1_000_250, 4_600_250, 4_600_255,
    ]);
    expect(time.stepped).toBe(0);
  });

  test("leaps with a wall clock that is set forward, and tells how far", () => {
    const { time, pass, set } = fake();
    pass(10);
    expect(set(3_600_000)).toBe(4_600_010);
    expect(time.stepped).toBe(3_600_000);
    expect(pass(1_000)).toBe(4_601_010);
    expect(time.stepped).toBe(3_600_000);
  });

  test("takes small differences as they come", () => {
    const { time, pass, set } = fake();
    for (let i = 0; i < 100; i++) {
      pass(1_000);
      set(20);
    }
    expect(pass(0)).toBe(1_102_000);
    expect(time.stepped).toBe(0);
  });

  test("goes on, slower, where the wall clock is set back, until that has caught up", () => {
    const { time, pass, set } = fake();
    pass(100);
    expect(set(-10_000)).toBe(1_000_100);
    const seen = Array.from({ length: 12 }, () => pass(10_000) - 1_000_100);
    expect(seen).toEqual([
      9_000, 18_000, 27_000, 36_000, 45_000, 54_000, 63_000, 72_000, 81_000, 90_000, 100_000, 110_000,
    ]);
    expect(time.stepped).toBe(0);
  });

  test("set back and forward again leaps only as far as time does", () => {
    const { time, pass, set } = fake();
    set(-60_000);
    expect(pass(10_000)).toBe(1_009_000);
    expect(set(60_000)).toBe(1_010_000);
    expect(time.stepped).toBe(1_000);
  });
});
