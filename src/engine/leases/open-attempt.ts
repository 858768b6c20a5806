/** Leases that are open, as those who look at a node see them. */

/** Which open leases are wanted. */
export interface AttemptFilter {
  readonly worker: string | null;
  readonly project?: string | null;
  readonly execution?: string | null;
  /** Only those of commands. */
  readonly commands?: true;
  readonly max: number;
}

/** A lease that is open. */
export interface OpenAttempt {
  /** The attempt's id, as wires have it. */
  readonly attempt: string;
  readonly execution: string;
  readonly project: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  /** -1: the enumeration. */
  readonly task: number;
  /** Of a command: where it goes, and where its receipt comes back. */
  readonly topic?: string;
  readonly receiptTopic?: string;
  readonly n: number;
  readonly worker: string;
  readonly status: "claimed" | "running";
  readonly startedAt: number | null;
  /** Silence until then is fine; null: it needs no beats. */
  readonly leaseUntil: number | null;
}
