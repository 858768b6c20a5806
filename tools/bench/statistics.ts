/** Small statistics over a few runs or many samples. */

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
