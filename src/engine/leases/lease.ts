/** A lease: the right of a worker to run one attempt. Leases are in memory only; starts that must survive are journaled. */
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { RosterEntry } from "../dispatch/worker-roster.ts";

export interface Lease {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
  /** The lease was restored from the store: a receipt for an earlier claim of the same command counts too. */
  readonly anyClaim?: true;
  readonly worker: string;
  /** The worker is in this process: the lease ends with it and needs no beats. */
  readonly local: boolean;
  /** The attempt is in a queue of a broker or runs at a consumer, so the lease needs no beats. */
  readonly queued: boolean;
  /** When the attempt began, as far as its worker has said; 0: it is only claimed. */
  startedAt: number;
  /** When the broker confirmed a command; 0: it has not confirmed it yet, or the attempt is not a command at a broker. */
  sentAt: number;
  /** Whether the store has a mark that the command was sent. */
  isMarked: boolean;
  /** When the lease ends without a beat. */
  until: number;
  /** When a command without a receipt times out, even if its worker beats. */
  dueAt: number;
  /** Whether a worker has said that it accepted the attempt, and whether that is journaled or about to be. */
  accepted?: "said" | "recorded";
  /** Whether the start is journaled or about to be. */
  recorded: boolean;
  /**
   * It was adopted, and the quota servers of its limits must confirm that before this time; its start is not recorded before.
   * Undefined: it is confirmed, or was not adopted.
   */
  confirmBy?: number | undefined;
  /** It was adopted from a node that died. */
  isAdopted?: true;
  /** It ended before the quota servers confirmed it; its permits are kept until then. */
  isEnded?: true;
  /** Whether its receipt has come and waits for its commit. */
  reported: boolean;
  /** Whether the worker was told to stop. */
  cancelled: boolean;
  /** Whether its worker was asked since the last beat if the attempt still runs. */
  asked: boolean;
  /** Enumeration only: the number of items that have come. */
  position: number;
  /** The number of the last log line. */
  lastLine: number;
  /** Under a rate: the time from which its start counts, until it has begun. */
  rateAt?: number | undefined;
  /** The limits whose permits it holds. */
  permits: readonly string[];
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

/** Adds a lease to a handler's queue and counts it at its worker, if that is here. */
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

/** Whether the command is at a broker and holds no permits, so that its execution can leave memory until a receipt comes. */
export function isSent({ queued, sentAt, reported, permits }: Lease): boolean {
  return queued && sentAt > 0 && !reported && permits.length === 0;
}
