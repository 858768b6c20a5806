/** The kinds of faults in a simulated run, and their frequency. A shrunk run leaves some kinds out. */
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
  "splits",
  "older-nodes",
  "enumerating-workers",
  "odd-answers",
  "garbled-rows",
] as const;

export type Fault = (typeof FAULTS)[number];

/** The counted happenings of a run: a fault that is enabled and never happens proves nothing. */
export const HAPPENINGS = [
  "signal before the end",
  "signal after the end",
  "signal placed again",
  "message delayed",
  "message lost",
  "message repeated",
  "message overtaken",
  "one-way cut",
  "network split",
  "message cut off",
  "commit lost before it was made",
  "answer lost after a commit",
  "call lost before it was made",
  "answer lost after a call",
  "database restart",
  "slow database",
  "connection cut",
  "pause beyond the lease",
  "skewed clock",
  "clock jump",
  "node joins late",
  "node leaves for good",
  "node hands over",
  "node crash",
  "write refused",
  "timer told by a watcher",
  "older node",
  "node upgraded",
  "node downgraded",
  "newer events held back",
  "unreadable to an older node",
  "worker enumerates what has one task",
  "worker only processes what is enumerated",
  "odd answer to a worker",
  "worker out of touch",
  "row garbled",
  "execution damaged",
] as const;

export type Happening = (typeof HAPPENINGS)[number];

/** All faults except those that are left out. */
export function faultsWithout(without: readonly string[]): ReadonlySet<Fault> {
  return new Set(FAULTS.filter((fault) => !without.includes(fault)));
}
