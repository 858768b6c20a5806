/** What can go wrong in a simulated run, and how often. A shrunk run leaves kinds out. */
export const FAULTS = [
  "crash",
  "lost-commits",
  "failed-commits",
  "lost-replies",
  "lost-messages",
  "repeated-messages",
  "dead-workers",
  "leaving-workers",
  "frozen-workers",
  "clock-jumps",
  "poison",
  "failing-tasks",
  "controls",
  "purges",
  "late-definitions",
  "clean-restarts",
  "local-worker",
  "pauses-and-cuts",
  "one-way-cuts",
  "slow-database",
  "database-restarts",
  "skewed-clocks",
  "late-nodes",
  "leaving-nodes",
] as const;

export type Fault = (typeof FAULTS)[number];

/** The faults of a run: all, less those left out. */
export function faultsWithout(without: readonly string[]): ReadonlySet<Fault> {
  return new Set(FAULTS.filter((fault) => !without.includes(fault)));
}
