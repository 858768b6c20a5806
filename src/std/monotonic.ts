/**
 * The time of a monotonic clock in milliseconds: for durations, never for dates. The clock may stand still while the machine
 * sleeps.
 */
export function monotonicMs(): number {
  return performance.now();
}
