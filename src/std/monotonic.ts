/** Milliseconds of a monotonic clock: for durations, never for dates. It may stand still while the machine sleeps. */
export function monotonicMs(): number {
  return performance.now();
}
