import { clock, duration } from "../../core/format.ts";

/** Steps that a time axis may have, in milliseconds. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000,
];

/** A place on the axis: between 0 and 1, and what stands there. */
export interface Tick {
  readonly place: number;
  readonly text: string;
}

/** Ticks from one time to another: times since the start, about so many. */
export function ticksOf(from: number, to: number, many: number): readonly Tick[] {
  const span = Math.max(1, to - from);
  const step = STEPS.find((ms) => span / ms <= many) ?? span;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => ({
    place: (i * step) / span,
    text: i === 0 ? clock(from) : `+${duration(i * step)}`,
  }));
}
