/**
 * The contract between the deterministic node and its driver. The node never waits: an output is a request, and an input is its
 * answer.
 */
import type { CommandView } from "../kernel/command/command-view.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import type { FinalStatus, Recorded } from "../kernel/event.ts";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import type {
  Answer,
  ControlMessage,
  Message,
  MoveMessage,
  PostOpOutcome,
  PostOpRetryMessage,
  SignalMessage,
  StartMessage,
  Verdict,
} from "../kernel/message.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { PermitAsk, PermitGrant } from "../protocol/permits.ts";
import type { Beat, Grant, Report, ReportedAttempt, ReportPlace, SentAt, Serves } from "../protocol/work.ts";
import type { Rejection } from "../std/rejection.ts";
import type {
  Commit,
  CommitVerdict,
  Head,
  LoadedExecution,
  Ownership,
  Partitions,
  StoredHead,
  StoredMailboxMessage,
  StoredTimer,
} from "../store/store.ts";
import type { AttemptFacts } from "./leases/attempt-facts.ts";
import type { Handover, LeaseTable } from "./leases/lease-handover.ts";
import type { StoredQuotas } from "./limits/quota-server.ts";
import type { PostOpTask } from "./post-ops/post-ops.ts";
import type { EndedPhase } from "./views/phase-span.ts";
import type { Totals } from "./views/totals.ts";
import type { Waits } from "./views/why.ts";

export type Request = StartMessage | ControlMessage | MoveMessage | SignalMessage | PostOpRetryMessage;

export type Input =
  | {
      readonly kind: "request";
      readonly request: number;
      readonly execution: string;
      readonly message: Request;
      readonly plan?: Plan;
      readonly fresh?: boolean;
      /** Whether to return the view with the answer. */
      readonly views?: boolean;
    }
  | {
      readonly kind: "inspect";
      readonly request: number;
      readonly execution: string;
      readonly attempt?: ReportedAttempt;
    }
  /** The clock was set forward. Timers are due, but the time does not count as silence of workers. */
  | { readonly kind: "clock-stepped"; readonly ms: number }
  | { readonly kind: "committed"; readonly commit: number; readonly verdict: CommitVerdict }
  /** The commit threw: nothing was written, or its outcome is unknown. */
  | { readonly kind: "commit-failed"; readonly commit: number; readonly nothingWritten: boolean }
  | {
      readonly kind: "loaded";
      readonly load: number;
      readonly loads: readonly { readonly id: string; readonly loaded: LoadedExecution | null }[];
    }
  /**
   * A definition that was read. `damage` says why it cannot be read. If there is no damage, a null plan means that a newer
   * version wrote it.
   */
  | {
      readonly kind: "definition";
      readonly hash: string;
      readonly plan: Plan | null;
      readonly damage?: string;
    }
  | {
      readonly kind: "page-read";
      readonly execution: string;
      readonly seq: number;
      readonly entry: Entry | null;
    }
  | { readonly kind: "work-scanned"; readonly heads: readonly StoredHead[]; readonly each: number }
  | {
      readonly kind: "timers-scanned";
      readonly timers: readonly StoredTimer[];
      readonly until: number;
      readonly max: number;
    }
  | ({ readonly kind: "worker-joined"; readonly worker: string } & JoinOptions)
  /** The worker answered that these attempts still run. */
  | { readonly kind: "worker-vouches"; readonly worker: string; readonly beats: readonly Beat[] }
  /** A remote worker requests up to `max` items; a local one is served up to its capacity without requests. */
  | { readonly kind: "worker-claims"; readonly worker: string; readonly max: number; readonly why?: string }
  | {
      readonly kind: "worker-reports";
      readonly worker: string;
      readonly report: number;
      readonly reports: readonly Report[];
    }
  | { readonly kind: "worker-beats"; readonly worker: string; readonly beats: readonly Beat[] }
  | { readonly kind: "worker-sent"; readonly worker: string; readonly beats: readonly Beat[] }
  | { readonly kind: "worker-releases"; readonly worker: string; readonly beats: readonly Beat[] }
  /** Events of an execution up to this number are published. */
  | { readonly kind: "published"; readonly execution: string; readonly seq: number }
  /** Events that were sent to the publisher and are not published must be sent again. */
  | { readonly kind: "publish-again" }
  | { readonly kind: "worker-left"; readonly worker: string }
  | { readonly kind: "purge"; readonly ids: readonly string[] }
  | {
      readonly kind: "performed";
      readonly execution: string;
      readonly op: string;
      readonly attempt: number;
      readonly outcome: PostOpOutcome;
    }
  /** The purge of these executions has ended, whether or not they were deleted. */
  | { readonly kind: "purged"; readonly ids: readonly string[] }
  | { readonly kind: "definition-stored"; readonly workflow: string }
  | { readonly kind: "projects-bound"; readonly projects: ReadonlySet<string> }
  /** The queues that operators paused: by the name of their code, who paused each and why. */
  | { readonly kind: "queues-paused"; readonly paused: ReadonlyMap<string, string> }
  | {
      readonly kind: "mailbox-scanned";
      readonly messages: readonly StoredMailboxMessage[];
      readonly max: number;
    }
  /** The newest definition of a name, for a child; null if there is none. */
  | { readonly kind: "workflow-found"; readonly workflow: string; readonly plan: Plan | null }
  /** Partitions that this node owns from now on, with data that their last owners left. */
  | {
      readonly kind: "taken";
      readonly owned: readonly Ownership[];
      readonly left: Handover;
    }
  | { readonly kind: "yield"; readonly partitions: readonly number[] }
  | { readonly kind: "lost"; readonly partitions: readonly number[] }
  /** A node sends requests to the quota servers of this node. */
  | {
      readonly kind: "permits-asked";
      readonly node: string;
      readonly asks: readonly PermitAsk[];
      /** The partitions whose quotas this request lists completely. */
      readonly declares: readonly number[];
    }
  /** A quota server sends grants to this node. */
  | { readonly kind: "permits-granted"; readonly grants: readonly PermitGrant[] }
  /** New quota servers ask for a declaration of all permits that this node has. */
  | { readonly kind: "permits-called"; readonly partitions: readonly number[] }
  /** The quotas of a partition were stored, or could not be stored. */
  | {
      readonly kind: "quotas-stored";
      readonly partition: number;
      readonly epoch: number;
      readonly isStored: boolean;
    }
  | ({ readonly kind: "members" } & Members)
  /** Other nodes may have stored mailbox messages for this node. */
  | { readonly kind: "mail-stored" }
  /** Overdue timers, reported by a watching node. */
  | { readonly kind: "timers-due"; readonly timers: readonly StoredTimer[] }
  | { readonly kind: "closing" }
  | { readonly kind: "tick" };

export interface JoinOptions {
  readonly serves: readonly Serves[];
  /** The most attempts at a time. */
  readonly capacity: number;
  /** Whether the worker is in this process: its leases end with it and need no heartbeats. */
  readonly local: boolean;
  /** Whether the worker can be asked about a silent attempt. */
  readonly asks?: boolean;
  /** The only project whose tasks the worker gets. */
  readonly project?: string | null;
  /** Whether the worker also gets work that no other worker serves, in any version. */
  readonly fallback?: boolean;
  /** Whether the worker passes work on to queues: it sends no heartbeats, and its attempts are not lost by silence. */
  readonly queued?: boolean;
  /** The most leases of one handler of a visit at a time. */
  readonly perQueue?: number;
  /** The most open handlers of visits that the worker has had work of. */
  readonly queuesMax?: number;
}

export type ClusterInput = Extract<
  Input,
  {
    kind:
      | "taken"
      | "yield"
      | "lost"
      | "permits-asked"
      | "permits-granted"
      | "permits-called"
      | "quotas-stored"
      | "members"
      | "mail-stored"
      | "timers-due";
  }
>;

/** The nodes of a cluster, by their incarnations. */
export interface Members {
  readonly self: string;
  readonly live: readonly string[];
  /** When the leases of nodes that have left ended, by incarnation. */
  readonly ended: Readonly<Record<string, number>>;
  readonly epochs: ReadonlyMap<number, number>;
  /** The highest version of events that all nodes can read. */
  readonly reads: number;
}

/** The end of an execution, or the damage of its data. */
export interface Ending {
  readonly status: FinalStatus | "damaged";
  /** The output, as JSON text. */
  readonly output: string | null;
  /** The execution that follows this one under its id; missing if there is none. */
  readonly successor?: string;
  /** Makes the view of the execution as it ended. To be called at once; missing if the execution ended at another node. */
  readonly view?: () => ExecutionView;
}

export interface Inspection {
  readonly view: ExecutionView;
  readonly why: string;
  /** What the execution does or waits for; null or missing: it has ended or is paused, or its node does not report it. */
  readonly waits?: Waits | null;
  /** The names of the signals that it awaits. */
  readonly signals?: readonly string[];
  readonly commands?: readonly CommandView[];
  /** The execution that follows this one under its id, as far as this one knows; missing if there is none. */
  readonly newest?: { readonly execution: string; readonly isOpen: boolean };
  /** The requested attempt; null if it does not hold its lease. */
  readonly attempt?: AttemptFacts | null;
}

export interface Overview {
  readonly workers: readonly {
    readonly id: string;
    readonly local: boolean;
    readonly capacity: number;
    readonly held: number;
    readonly serves: readonly Serves[];
  }[];
  readonly limits: readonly {
    readonly name: string;
    readonly max: number;
    readonly held: number;
    readonly waiting: number;
    /** For a rate: how long a start counts, in milliseconds. */
    readonly perMs?: number;
  }[];
  /** The number of executions in memory, of those with work, and of open leases. */
  readonly resident: number;
  readonly working: number;
  readonly leases: number;
  /** The number of tasks that could be granted now, by code: an estimate for scaling. */
  readonly ready: readonly {
    readonly use: string;
    readonly tasks: number;
    /** Since when no worker has taken work of one of the queues. Nodes of earlier versions do not tell. */
    readonly since?: number;
  }[];
  /** Totals of commits since the node was opened. */
  readonly totals: Readonly<Totals>;
}

/** The figures that can be added up over nodes. */
export type Holdings = Omit<Overview, "totals">;

export interface AttemptFilter {
  readonly worker: string | null;
  readonly project?: string | null;
  readonly execution?: string | null;
  readonly commands?: true;
  readonly max: number;
}

export interface OpenAttempt {
  readonly attempt: string;
  readonly execution: string;
  readonly project: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  /** The number of the task; -1 for the enumeration. */
  readonly task: number;
  readonly topic?: string;
  readonly receiptTopic?: string;
  readonly n: number;
  readonly worker: string;
  readonly status: "claimed" | "running";
  readonly startedAt: number | null;
  /** When the lease ends without a heartbeat; null if it needs none. */
  readonly leaseUntil: number | null;
}

export interface Dropped {
  readonly at: number;
  readonly what: string;
  readonly verdict: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly attempt: number;
  readonly worker: string;
}

export type Output =
  | {
      readonly kind: "scan-mailbox";
      readonly after: number;
      readonly max: number;
      readonly partitions: Partitions;
    }
  | { readonly kind: "find-workflow"; readonly workflow: string }
  | { readonly kind: "purge"; readonly ids: readonly string[] }
  /** A request to delete the rows of a gate's journal before an event, since they are not needed any more. */
  | { readonly kind: "trim"; readonly execution: string; readonly before: number }
  | { readonly kind: "perform"; readonly task: PostOpTask }
  /** A request to ask a worker's status API about silent attempts before they count as lost. */
  | { readonly kind: "ask-worker"; readonly worker: string; readonly attempts: readonly Beat[] }
  /** A visit of an execution that was started inside of a span has ended. */
  | ({ readonly kind: "phase-ended" } & EndedPhase)
  /** Log lines of the execution were stored. */
  | { readonly kind: "logged"; readonly execution: string }
  | { readonly kind: "commit"; readonly commit: number; readonly content: Commit }
  /** A request to load executions. `whole`: the journal from its first row, without a snapshot. */
  | { readonly kind: "load"; readonly ids: readonly string[]; readonly load: number; readonly whole?: true }
  | { readonly kind: "get-definition"; readonly hash: string }
  | { readonly kind: "read-page"; readonly execution: string; readonly seq: number }
  | {
      readonly kind: "scan-work";
      readonly after: Readonly<Record<string, number>>;
      readonly each: number;
      readonly partitions: Partitions;
    }
  | {
      readonly kind: "scan-timers";
      readonly until: number;
      readonly max: number;
      readonly partitions: Partitions;
    }
  | {
      readonly kind: "reply";
      readonly request: number;
      readonly answer: Answer;
      readonly existed?: boolean;
      readonly view?: ExecutionView;
      /** The commands of the execution, if it has any and the view was asked for. */
      readonly commands?: readonly CommandView[];
    }
  | { readonly kind: "inspected"; readonly request: number; readonly inspection: Inspection | Rejection }
  | { readonly kind: "grant"; readonly worker: string; readonly grant: Grant }
  /** A request to publish committed events; null if they must be read from the journal. */
  | {
      readonly kind: "publish";
      readonly execution: string;
      readonly from: number;
      readonly to: number;
      readonly events: readonly Recorded[] | null;
      readonly plan: Plan;
    }
  /** A notice that no task of the handler may begin now: a queue returns tasks that no worker has received. */
  | {
      readonly kind: "withdraw";
      readonly worker: string;
      readonly from: ReportPlace;
      readonly why: "paused" | "cancelled";
    }
  | { readonly kind: "check-sent"; readonly worker: string; readonly at: SentAt }
  /** A notice that partitions were taken: commands of their last owner may be at topics. */
  | { readonly kind: "took-over"; readonly worker: string }
  /** A notice that the visit of the handler is over: its queues can be deleted. */
  | { readonly kind: "queue-closed"; readonly worker: string; readonly place: ReportPlace }
  | {
      readonly kind: "cancel";
      readonly worker: string;
      readonly attempts: readonly Beat[];
      readonly why: "cancel" | "lost";
      readonly topic?: string;
    }
  | {
      readonly kind: "verdicts";
      readonly worker: string;
      readonly report: number;
      readonly verdicts: readonly (readonly Verdict[])[];
    }
  | {
      readonly kind: "progressed";
      readonly execution: string;
      readonly seq: number;
      readonly end: Ending | null;
    }
  | {
      readonly kind: "ask-permits";
      readonly partition: number;
      readonly asks: readonly PermitAsk[];
      readonly declares?: true;
    }
  /** Timers were set, fired or cleared in partitions whose timers other nodes watch. */
  | {
      readonly kind: "timers-changed";
      readonly set: readonly StoredTimer[];
      readonly ended: readonly StoredTimer[];
    }
  | { readonly kind: "mail-sent"; readonly partitions: readonly number[] }
  | { readonly kind: "call-permits"; readonly node: string; readonly partitions: readonly number[] }
  /** A request to store these quotas. Until they are stored, no more permits are granted than the stored bounds cover. */
  | { readonly kind: "store-quotas"; readonly partition: number; readonly home: StoredQuotas }
  | { readonly kind: "grant-permits"; readonly node: string; readonly grants: readonly PermitGrant[] }
  /** Other nodes own these partitions; this node has dropped them. */
  | { readonly kind: "fenced"; readonly why: string; readonly partitions: readonly number[] }
  /** The partition may be released. `leases` are the open leases, for the next owner; null if not all are known. */
  | { readonly kind: "yielded"; readonly partition: number; readonly leases: LeaseTable | null }
  | { readonly kind: "damaged"; readonly head: Head }
  /** A message between executions has no receiver. The next commit deletes it. */
  | {
      readonly kind: "undelivered";
      readonly id: string;
      readonly to: string;
      readonly at: number;
      readonly message: Message;
    }
  /** This node cannot continue with the execution: this version does not know its definition or its rows. */
  | {
      readonly kind: "unreadable";
      readonly execution: string;
      readonly partition: number;
      readonly why: string;
    };
