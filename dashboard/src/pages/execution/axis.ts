import { chosenDuration, clock } from "../../core/format.ts";
import type { Span } from "./time-view.ts";

/** The possible distances between ticks of a time axis, in milliseconds. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 604_800_000,
];

/** A tick of the axis: its position between 0 and 1, and its text. */
export interface Tick {
  readonly place: number;
  readonly text: string;
}

/**
 * About `wanted` ticks for a span of time. Each shows the time since the start of the execution; the first shows the time of
 * day.
 */
export function ticksOf({ from, to }: Span, start: number, many: number): readonly Tick[] {
  const span = Math.max(1, to - from);
  const step = STEPS.find((ms) => span / ms <= many) ?? span;
  const first = Math.ceil((from - start) / step);
  const ticks = Array.from({ length: Math.floor((to - start) / step) - first + 1 }, (_, i) => {
    const since = (first + i) * step;
    return {
      place: (start + since - from) / span,
      text: since === 0 ? clock(start) : `+${precise(since, step)}`,
    };
  });
  // The first tick shows when the span begins.
  const begin = { place: 0, text: clock(from, { withMs: step < 1_000 }) };
  return from === start ? ticks : [begin, ...ticks.filter(({ place }) => place > 1 / many)];
}

/** Formats a duration precisely enough that neighbouring ticks differ. */
function precise(ms: number, step: number): string {
  if (step >= 1_000 || ms < 1_000) return chosenDuration(ms);
  return `${(ms / 1_000).toFixed(step >= 100 ? 1 : step >= 10 ? 2 : 3)} s`;
}
