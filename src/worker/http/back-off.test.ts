import { expect, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import { BackOff } from "./back-off.ts";

test("C2 waits grow by a factor of two up to a maximum, with jitter; one success begins anew", () => {
  for (let seed = 0; seed < 100; seed++) {
    const backOff = new BackOff(new SeededRandom(seed));
    const waits = Array.from({ length: 12 }, () => backOff.next());
    waits.forEach((wait, i) => {
      const most = Math.min(10_000, 100 * 2 ** i);
      expect(wait).toBeGreaterThanOrEqual(Math.max(100, most / 2));
      expect(wait).toBeLessThanOrEqual(most);
    });
    backOff.reset();
    expect(backOff.next()).toBe(100);
  }
});
