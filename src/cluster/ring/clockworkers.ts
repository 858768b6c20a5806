/** The offsets of clockworkers in a ring of this length: spread evenly, each once; 0 is the executor itself. */
export function clockOffsets(length: number, clockworkers: number): number[] {
  const offsets = Array.from({ length: clockworkers }, (_, i) => Math.floor((length * i) / clockworkers));
  return [...new Set(offsets)];
}

/** Which nodes of the ring, by their index, watch the timers of the executor at `executor`. */
export function clockworkersOf(executor: number, length: number, clockworkers: number): number[] {
  return clockOffsets(length, clockworkers).map((offset) => (executor + offset) % length);
}
