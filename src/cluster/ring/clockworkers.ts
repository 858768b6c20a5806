/**
 * The offsets of the clockworkers (nodes that watch a node's timers) in a ring of this length, evenly spread; 0 is the executor
 * itself.
 */
export function clockOffsets(length: number, clockworkers: number): number[] {
  const offsets = Array.from({ length: clockworkers }, (_, i) => Math.floor((length * i) / clockworkers));
  return [...new Set(offsets)];
}

/** The indexes of the clockworkers, the nodes that watch the timers of this executor. */
export function clockworkersOf(executor: number, length: number, clockworkers: number): number[] {
  return clockOffsets(length, clockworkers).map((offset) => (executor + offset) % length);
}
