/** A lease: the right of a worker to run one attempt. Leases are in memory only; starts that must survive are journaled. */
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { RosterEntry } from "../dispatch/worker-roster.ts";

export interface Lease {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
  /**
   * The last event of the execution when the attempt was granted: its code does not know answers that came later. Infinity if the
   * attempt was adopted, so that this is unknown.
   */
  grantedSeq: number;
  /** Whether the lease was restored from the store. Then a receipt for an earlier claim of the same command counts too. */
  readonly anyClaim?: true;
  readonly worker: string;
  /** Whether the worker runs in this process. Such a lease ends with the process and needs no heartbeats. */
  readonly local: boolean;
  /** Whether the attempt is in a queue of a broker or at a consumer of that queue. Such a lease needs no heartbeats. */
  readonly queued: boolean;
  /** The time at which the attempt began, as its worker has reported; 0 if the attempt is only claimed. */
  startedAt: number;
  /** The time at which the broker confirmed the command; 0 if it has not yet, or if the attempt is not a command at a broker. */
  sentAt: number;
  /** Whether the store has a mark that says that the command was sent. */
  isMarked: boolean;
  /** The time at which the lease ends if no heartbeat arrives. */
  until: number;
  /** The time at which a command without a receipt times out, even if its worker sends heartbeats. */
  dueAt: number;
  /**
   * Whether a worker has reported that it accepted the attempt (`said`), and whether that is journaled or about to be
   * (`recorded`).
   */
  accepted?: "said" | "recorded";
  /** Whether the start of the attempt is journaled, or is in a commit in progress. */
  recorded: boolean;
  /**
   * For an adopted attempt: the time until which the quota servers of its limits must confirm it. Its start is not recorded before
   * that. Undefined if the attempt is confirmed, or was not adopted.
   */
  confirmBy?: number | undefined;
  /** Whether the attempt was adopted from a node that died. */
  isAdopted?: true;
  /** Whether the adopted attempt ended before the quota servers confirmed it. Its permits are kept until they do. */
  isEnded?: true;
  /** Whether the attempt's receipt has arrived and waits for its commit. */
  reported: boolean;
  /** Whether the worker was asked to stop the attempt. */
  cancelled: boolean;
  /** Whether the worker was asked, since the last heartbeat, if the attempt still runs. */
  asked: boolean;
  /** For an enumeration: the number of items that have arrived. */
  position: number;
  /** The number of the last log line that the attempt has sent. */
  lastLine: number;
  /** Under a rate limit, until the attempt has begun: the time at which its start was counted. */
  rateAt?: number | undefined;
  /** The names of the rate limits that count the start of the attempt. */
  rates?: readonly string[];
  /** The names of the limits whose permits the lease holds. */
  permits: readonly string[];
}

/** A lease together with the queue of its handler. */
export interface HeldLease {
  readonly queue: HandlerQueue;
  readonly lease: Lease;
}

/** The task number that stands for the enumeration of a handler. */
export const ENUMERATION = -1;

/** The fields of a new lease that differ between grants, adoptions, handovers and commands at a broker. */
interface NewLease
  extends Pick<Lease, "task" | "attempt" | "claim" | "epoch" | "worker" | "until" | "dueAt" | "permits">,
    Partial<
      Pick<
        Lease,
        | "grantedSeq"
        | "local"
        | "queued"
        | "startedAt"
        | "sentAt"
        | "isMarked"
        | "recorded"
        | "position"
        | "lastLine"
      >
    > {
  readonly anyClaim?: true;
}

/** Adds a lease to a handler's queue and counts it at its worker, if that worker is known at this node. */
export function addLease(queue: HandlerQueue, worker: RosterEntry | undefined, at: NewLease): Lease {
  const lease: Lease & { anyClaim?: true } = {
    task: at.task,
    attempt: at.attempt,
    claim: at.claim,
    epoch: at.epoch,
    grantedSeq: at.grantedSeq ?? Number.POSITIVE_INFINITY,
    worker: at.worker,
    local: at.local ?? false,
    queued: at.queued ?? false,
    startedAt: at.startedAt ?? 0,
    sentAt: at.sentAt ?? 0,
    isMarked: at.isMarked ?? false,
    until: at.until,
    dueAt: at.dueAt,
    recorded: at.recorded ?? false,
    reported: false,
    cancelled: false,
    asked: false,
    position: at.position ?? 0,
    lastLine: at.lastLine ?? 0,
    permits: at.permits,
  };
  if (at.anyClaim === true) lease.anyClaim = true;
  queue.leases.set(at.task, lease);
  queue.openLeases++;
  if (worker !== undefined) worker.held++;
  return lease;
}

/** Whether a report of this attempt, claim and epoch is about exactly this lease. */
export function isSameAttempt(lease: Lease, attempt: number, claim: number, epoch: number): boolean {
  if (lease.attempt !== attempt) return false;
  return lease.anyClaim === true || (lease.claim === claim && lease.epoch === epoch);
}

/** Returns the lease of exactly this attempt, claim and epoch; undefined if the task has no lease or another one. */
export function leaseOf(
  queue: HandlerQueue | undefined,
  { task, attempt, claim }: { readonly task: number; readonly attempt: number; readonly claim: number },
  epoch: number,
): Lease | undefined {
  const lease = queue?.leases.get(task);
  return lease !== undefined && isSameAttempt(lease, attempt, claim, epoch) ? lease : undefined;
}

/** Whether the command is at a broker and holds no permits, so that its execution can leave memory until a receipt arrives. */
export function isSent({ queued, sentAt, reported, permits }: Lease): boolean {
  return queued && sentAt > 0 && !reported && permits.length === 0;
}
