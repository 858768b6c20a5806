/** Small statistics over a few runs or many samples. */
import type { Figures } from "./scenario.ts";

/** The value below which the share `p` (0 to 1) of the samples lies. */
export function percentile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN;
}

/** The middle value; of an even number of values, the higher of the two in the middle. */
export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

/** The lowest and the highest value. */
export function spread(samples: readonly number[]): readonly [number, number] {
  return [Math.min(...samples), Math.max(...samples)];
}

/** The median of each figure over several runs; figures that are spreads are those of the last run. */
export function mediansOf(runs: readonly Figures[]): Figures {
  const last = runs.at(-1) ?? {};
  return Object.fromEntries(
    Object.entries(last).map(([name, value]) => [
      name,
      typeof value === "number" ? median(runs.map((figures) => figures[name] as number)) : value,
    ]),
  );
}
