// The verdicts of the soak about memory, files and descriptors, over series that are made here.
import { expect, test } from "vitest";
import { SeededRandom } from "../../../src/std/random.ts";
import { type Bound, fitLine, judge, type Point } from "./flatness.ts";

const MEMORY: Bound = { kind: "slope", perHour: 20, share: 0.1 };
const COUNT: Bound = { kind: "peak", slack: 5, share: 0 };

/** One point a minute, from 0 to `minutes`. */
function series(minutes: number, value: (minute: number) => number): Point[] {
  return Array.from({ length: minutes + 1 }, (_, minute) => ({ minute, value: value(minute) }));
}

/** Noise between -size and size. */
function noise(size: number, seed: string): () => number {
  const random = new SeededRandom(seed);
  return () => random.between(-1_000, 1_000) * (size / 1_000);
}

test("a line is fitted: its slope, and no error without noise", () => {
  const { perMinute, error, mean } = fitLine(series(10, (minute) => 3 * minute + 5));
  expect(perMinute).toBeCloseTo(3);
  expect(error).toBeCloseTo(0);
  expect(mean).toBeCloseTo(20);
});

test("memory that grows in the warm-up only is flat", () => {
  const points = series(60, (minute) => 100 + Math.min(minute, 15) * 10);
  expect(judge(points, MEMORY)).toEqual({
    isFlat: true,
    why: "the line rises by 0 an hour (standard error 0); allowed are 25",
    quarters: [250, 250, 250, 250],
  });
});

test("memory that grows for the first half of an hour is flat, and not if that is all of the time", () => {
  const filling = (minute: number): number => 100 + Math.min(minute, 30) * 2;
  expect(judge(series(60, filling), MEMORY).isFlat).toBe(true);
  expect(judge(series(40, filling), MEMORY).isFlat).toBe(false);
});

test("memory that grows by a third in an hour is not flat", () => {
  const verdict = judge(
    series(60, (minute) => 100 + minute * 0.6),
    MEMORY,
  );
  expect(verdict.isFlat).toBe(false);
  expect(verdict.why).toBe("the line rises by 36 an hour (standard error 0); allowed are 20");
  expect(verdict.quarters).toEqual([109, 118, 127, 136]);
});

test("the share of the mean allows more where there is more", () => {
  expect(
    judge(
      series(60, (minute) => 1_000 + minute * 1.2),
      MEMORY,
    ).isFlat,
  ).toBe(true);
});

test.each(["1", "2", "3", "4", "5"])(
  "noise of 15 MB is flat, and hides no growth of 60 MB: seed %s",
  (seed) => {
    const some = noise(15, seed);
    const flat = series(40, () => 150 + some());
    const growing = series(40, (minute) => 150 + minute + some());
    expect(judge(flat, MEMORY).isFlat).toBe(true);
    expect(judge(growing, MEMORY).isFlat).toBe(false);
  },
);

test("a count that returns to its peak is flat; one that climbs beyond the slack is not", () => {
  const waves = series(40, (minute) => 30 + (minute % 7));
  const climb = series(40, (minute) => 30 + Math.floor(minute / 3));
  expect(judge(waves, COUNT)).toMatchObject({
    isFlat: true,
    why: "the peak is 36 in the second quarter and 36 in the last; allowed are 41",
  });
  expect(judge(climb, COUNT)).toMatchObject({
    isFlat: false,
    why: "the peak is 36 in the second quarter and 43 in the last; allowed are 41",
  });
});

test("a floor that rises is found below peaks that hide it", () => {
  const bursts: Bound = { kind: "peak", slack: 12, share: 0.5, floor: 8 };
  const burst = (minute: number): number => (minute % 3 === 0 ? 150 : 0);
  expect(
    judge(
      series(60, (minute) => 60 + burst(minute)),
      bursts,
    ).isFlat,
  ).toBe(true);
  expect(
    judge(
      series(60, (minute) => 60 + minute / 2 + burst(minute)),
      bursts,
    ),
  ).toMatchObject({
    isFlat: false,
    why: "the floor is 68 in the second quarter and 83 in the last; allowed are 76",
  });
});

test("a short series has no verdict", () => {
  expect(
    judge(
      series(9, (minute) => minute * 100),
      MEMORY,
    ),
  ).toMatchObject({ isFlat: true, why: "10 points in 9 min: no verdict" });
  expect(
    judge(
      [0, 20, 40].map((minute) => ({ minute, value: minute })),
      COUNT,
    ),
  ).toMatchObject({ isFlat: true, why: "3 points in 40 min: no verdict" });
  expect(judge([], COUNT).quarters).toEqual([0, 0, 0, 0]);
});
