/** A lease: the right of a worker to run one attempt. Leases are in memory only; starts that must survive are journaled. */
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { RosterEntry } from "../dispatch/worker-roster.ts";

export interface Lease {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
  /** Whether the lease was restored from the store, so that a receipt for an earlier claim of the same command counts too. */
  readonly anyClaim?: true;
  readonly worker: string;
  /** Whether the worker is in this process, so that the lease ends with it and needs no heartbeats. */
  readonly local: boolean;
  /** Whether the attempt is in a queue of a broker or runs at a consumer, so that the lease needs no heartbeats. */
  readonly queued: boolean;
  /** When the attempt began, as far as its worker has reported it; 0 if it is only claimed. */
  startedAt: number;
  /** When the broker confirmed a command; 0 if it has not yet, or if the attempt is not a command at a broker. */
  sentAt: number;
  /** Whether the store has a mark that the command was sent. */
  isMarked: boolean;
  /** When the lease ends without a heartbeat. */
  until: number;
  /** When a command without a receipt times out, even if its worker sends heartbeats. */
  dueAt: number;
  /**
   * Whether a worker has reported that it accepted the attempt (`said`), and whether that is journaled or about to be
   * (`recorded`).
   */
  accepted?: "said" | "recorded";
  /** Whether the start is journaled or about to be. */
  recorded: boolean;
  /**
   * For an adopted attempt: the time before which the quota servers of its limits must confirm it; its start is not recorded
   * before. Undefined if it is confirmed, or was not adopted.
   */
  confirmBy?: number | undefined;
  /** Whether the attempt was adopted from a node that died. */
  isAdopted?: true;
  /** Whether the attempt ended before the quota servers confirmed it; its permits are kept until then. */
  isEnded?: true;
  /** Whether the attempt's receipt has arrived and waits for its commit. */
  reported: boolean;
  /** Whether the worker was asked to stop the attempt. */
  cancelled: boolean;
  /** Whether the worker was asked, since the last heartbeat, if the attempt still runs. */
  asked: boolean;
  /** For an enumeration: the number of items that have arrived. */
  position: number;
  /** The number of the last log line. */
  lastLine: number;
  /** For a rate: the time from which the attempt's start counts, until it has begun. */
  rateAt?: number | undefined;
  /** The names of the rates that count the start. */
  rates?: readonly string[];
  /** The names of the limits whose permits the lease holds. */
  permits: readonly string[];
}

/** A lease with the queue of its handler. */
export interface HeldLease {
  readonly queue: HandlerQueue;
  readonly lease: Lease;
}

/** The number that stands for the enumeration among the tasks of a handler. */
export const ENUMERATION = -1;

/** The fields of a new lease that differ between grants, adoptions, handovers and commands at a broker. */
interface NewLease
  extends Pick<Lease, "task" | "attempt" | "claim" | "epoch" | "worker" | "until" | "dueAt" | "permits">,
    Partial<
      Pick<
        Lease,
        "local" | "queued" | "startedAt" | "sentAt" | "isMarked" | "recorded" | "position" | "lastLine"
      >
    > {
  readonly anyClaim?: true;
}

/** Adds a lease to a handler's queue and counts it at its worker, if that worker is known at this node. */
export function addLease(queue: HandlerQueue, worker: RosterEntry | undefined, at: NewLease): Lease {
  const plain: Lease = {
    task: at.task,
    attempt: at.attempt,
    claim: at.claim,
    epoch: at.epoch,
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
  const lease: Lease = at.anyClaim === true ? { ...plain, anyClaim: true } : plain;
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

/** Whether the command is at a broker and holds no permits, so that its execution can leave memory until a receipt arrives. */
export function isSent({ queued, sentAt, reported, permits }: Lease): boolean {
  return queued && sentAt > 0 && !reported && permits.length === 0;
}
