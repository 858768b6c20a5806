/**
 * Returns the positions of the clockworkers (the nodes that watch a node's timers), as offsets from that node in a ring of this length.
 * They are evenly spread; offset 0 is the node itself.
 */
export function clockOffsets(length: number, clockworkers: number): number[] {
  const offsets = Array.from({ length: clockworkers }, (_, i) => Math.floor((length * i) / clockworkers));
  return [...new Set(offsets)];
}

/** Returns the indexes of the clockworkers: the nodes that watch the timers of this node. */
export function clockworkersOf(executor: number, length: number, clockworkers: number): number[] {
  return clockOffsets(length, clockworkers).map((offset) => (executor + offset) % length);
}
