/**
 * Milliseconds of a clock that never jumps: for how long something has taken, never for when it was. It may stand
 * still while the whole machine does.
 */
export function monotonicMs(): number {
  return performance.now();
}
