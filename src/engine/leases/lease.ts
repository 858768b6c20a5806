/** A lease: a worker's right to one attempt. In memory only; what must survive is journaled as a start. */
export interface Lease {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
  /** It was made again from the store: a receipt of an earlier claim, of the same command, counts as well. */
  readonly anyClaim?: true;
  readonly worker: string;
  /** A local worker's lease ends with the process and needs no beats. */
  readonly local: boolean;
  /** It waits in a queue, or runs at whoever took it from there: silence says nothing. */
  readonly queued: boolean;
  /** When the attempt was said to have begun; 0: only claimed. */
  startedAt: number;
  /** When the broker confirmed a command; 0: it has not, or it is no command in a queue. */
  sentAt: number;
  /** The store says that it was sent. */
  isMarked: boolean;
  /** Silence until then is fine. */
  until: number;
  /** When a command must have its receipt at the latest, however lively its worker is. */
  dueAt: number;
  /** The start is journaled, or about to be. */
  recorded: boolean;
  /** It was adopted, and the homes of its limits have not confirmed that yet: until then its start is not recorded. */
  isUnconfirmed?: true | undefined;
  /** Its receipt has come and waits for its commit. */
  reported: boolean;
  /** The worker was told to stop. */
  cancelled: boolean;
  /** Its worker was asked whether it still runs, since the last beat. */
  asked: boolean;
  /** Enumeration only: how many items of its stream have come. */
  position: number;
  /** The number of the last line that it logged. */
  lastLine: number;
  /** Under a rate: the time from which its start counts, until it is known to have begun. */
  rateAt?: number | undefined;
  /** Limits it counts against, given back when it ends. */
  permits: readonly string[];
}

/** The number that stands for the enumeration among the tasks of a handler. */
export const ENUMERATION = -1;

/** True if a report of this attempt, claim and epoch speaks of exactly this lease. */
export function isSameAttempt(lease: Lease, attempt: number, claim: number, epoch: number): boolean {
  if (lease.attempt !== attempt) return false;
  return lease.anyClaim === true || (lease.claim === claim && lease.epoch === epoch);
}

/** True if only a receipt can tell more of this lease: its execution need not be in memory. */
export function isSent({ queued, sentAt, reported, permits }: Lease): boolean {
  return queued && sentAt > 0 && !reported && permits.length === 0;
}
