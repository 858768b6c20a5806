/**
 * Decides whether a series of measurements is flat. The first quarter of the time is the warm-up and does not count; for memory
 * it is the first half of a run of an hour, because bounded caches take half an hour to fill at this load. Memory is judged by a line
 * fitted to the rest, counts of files and descriptors by their peaks.
 */

export interface Point {
  /** Minutes since the first measurement. */
  readonly minute: number;
  readonly value: number;
}

/**
 * slope: the fitted line may not rise by more than `perHour`, or by `share` of the mean an hour if that is more.
 * peak: the peak of the last quarter may not exceed the peak of the second quarter times `1 + share` plus `slack`. With `floor`,
 * the lowest value of the last quarter may not exceed the lowest of the second by more than that, whatever the peaks are.
 */
export type Bound =
  | { readonly kind: "slope"; readonly perHour: number; readonly share: number }
  | { readonly kind: "peak"; readonly slack: number; readonly share: number; readonly floor?: number };

export interface Verdict {
  readonly isFlat: boolean;
  /** The reason in one sentence. */
  readonly why: string;
  /** The values after a quarter, the half, three quarters and all of the time. */
  readonly quarters: readonly number[];
}

/** A shorter series has too few points for a verdict. */
const MINUTES_MIN = 10;
const POINTS_MIN = 8;
/** Runs of this length have a longer warm-up. Shorter ones need the points for the fitted line. */
const LONG_MINUTES = 55;
/** The slope counts as rising if it exceeds the bound by this many standard errors. */
const STANDARD_ERRORS = 2;

export function judge(points: readonly Point[], bound: Bound): Verdict {
  const first = points[0]?.minute ?? 0;
  const minutes = (points.at(-1)?.minute ?? 0) - first;
  const quarters = [0.25, 0.5, 0.75, 1].map((part) => valueAt(points, first + part * minutes));
  if (minutes < MINUTES_MIN || points.length < POINTS_MIN)
    return { isFlat: true, why: `${points.length} points in ${round(minutes)} min: no verdict`, quarters };
  const between = (from: number, to: number): Point[] =>
    points.filter(({ minute }) => minute >= first + from * minutes && minute <= first + to * minutes);
  const verdict =
    bound.kind === "slope"
      ? judgeSlope(between(minutes < LONG_MINUTES ? 0.25 : 0.5, 1), bound)
      : judgePeaks(between(0.25, 0.5), between(0.75, 1), bound);
  return { ...verdict, quarters };
}

type Judged = Omit<Verdict, "quarters">;

function judgeSlope(points: readonly Point[], bound: Bound & { readonly kind: "slope" }): Judged {
  const { perMinute, error, mean } = fitLine(points);
  const [perHour, errorPerHour] = [perMinute * 60, error * 60];
  const allowed = Math.max(bound.perHour, bound.share * mean);
  const isFlat = perHour - STANDARD_ERRORS * errorPerHour <= allowed;
  const slope = `${round(perHour)} an hour (standard error ${round(errorPerHour)})`;
  return { isFlat, why: `the line rises by ${slope}; allowed are ${round(allowed)}` };
}

function judgePeaks(
  early: readonly Point[],
  late: readonly Point[],
  bound: Bound & { readonly kind: "peak" },
): Judged {
  const [before, after] = [extremes(early), extremes(late)];
  const peakMax = before.peak * (1 + bound.share) + bound.slack;
  const floorMax = before.floor + (bound.floor ?? Number.POSITIVE_INFINITY);
  const compare = (what: "peak" | "floor", max: number): string =>
    `the ${what} is ${round(before[what])} in the second quarter and ${round(after[what])} in the last; allowed are ${round(max)}`;
  if (after.floor > floorMax) return { isFlat: false, why: compare("floor", floorMax) };
  return { isFlat: after.peak <= peakMax, why: compare("peak", peakMax) };
}

function extremes(points: readonly Point[]): { readonly peak: number; readonly floor: number } {
  const values = points.map(({ value }) => value);
  return { peak: Math.max(...values), floor: Math.min(...values) };
}

/** The line of least squares through the points, with the standard error of its slope. */
export function fitLine(points: readonly Point[]): {
  readonly perMinute: number;
  readonly error: number;
  readonly mean: number;
} {
  const n = points.length;
  const sum = (of: (point: Point) => number): number => points.reduce((all, point) => all + of(point), 0);
  const [meanMinute, mean] = [sum(({ minute }) => minute) / n, sum(({ value }) => value) / n];
  const spread = sum(({ minute }) => (minute - meanMinute) ** 2);
  const perMinute = sum(({ minute, value }) => (minute - meanMinute) * (value - mean)) / spread;
  const rest = sum(({ minute, value }) => (value - mean - perMinute * (minute - meanMinute)) ** 2);
  return { perMinute, error: Math.sqrt(rest / (n - 2) / spread), mean };
}

/** The last value at or before a minute. */
function valueAt(points: readonly Point[], minute: number): number {
  return points.findLast((point) => point.minute <= minute)?.value ?? 0;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
