import { describe, expect, test } from "vitest";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { RateLimit } from "./rate-limit.ts";

describe("a bucket of 10 a second", () => {
  test("gives 20 at once, then one every 100 ms", async () => {
    const clock = new VirtualClock();
    const limit = new RateLimit(clock, 10);
    for (let i = 0; i < 20; i++) expect(limit.take("a")).toBe(0);
    expect(limit.take("a")).toBe(1);
    await clock.advance(100);
    expect([limit.take("a"), limit.take("a")]).toEqual([0, 1]);
    await clock.advance(10_000);
    for (let i = 0; i < 20; i++) expect(limit.take("a")).toBe(0);
    expect(limit.take("a")).toBe(1);
  });

  test("says how long what costs more has to wait", () => {
    const limit = new RateLimit(new VirtualClock(), 10);
    expect([limit.take("a", 15), limit.take("a", 15)]).toEqual([0, 1]);
    const slow = new RateLimit(new VirtualClock(), 1);
    expect([slow.take("a", 2), slow.take("a", 2)]).toEqual([0, 2]);
  });

  test("is one for each key, and only so many are kept", () => {
    const limit = new RateLimit(new VirtualClock(), 1);
    expect([limit.take("a", 2), limit.take("a"), limit.take("b")]).toEqual([0, 1, 0]);
    for (let i = 0; i < 10_001; i++) limit.take(`other${i}`);
    expect(limit.take("a")).toBe(0);
  });
});
