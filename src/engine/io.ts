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
      /** Whether the reply includes the view of the execution. */
      readonly views?: boolean;
    }
  | {
      readonly kind: "inspect";
      readonly request: number;
      readonly execution: string;
      readonly attempt?: ReportedAttempt;
    }
  /** The clock was set forward. Timers become due, but the skipped time does not count as silence of workers. */
  | { readonly kind: "clock-stepped"; readonly ms: number }
  | { readonly kind: "committed"; readonly commit: number; readonly verdict: CommitVerdict }
  /** The commit failed with an error: either nothing was written, or the outcome is unknown. */
  | { readonly kind: "commit-failed"; readonly commit: number; readonly nothingWritten: boolean }
  | {
      readonly kind: "loaded";
      readonly load: number;
      readonly loads: readonly { readonly id: string; readonly loaded: LoadedExecution | null }[];
    }
  /**
   * The answer to a request for a definition. `damage` says why the definition cannot be read. A null plan without `damage` means
   * that a newer version of Rondo wrote the definition.
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
  /** A worker has answered that these attempts are still running. */
  | { readonly kind: "worker-vouches"; readonly worker: string; readonly beats: readonly Beat[] }
  /** A remote worker requests up to `max` items. A worker in this process makes no requests: it gets items up to its capacity. */
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
  /** The events of an execution up to this sequence number are published. */
  | { readonly kind: "published"; readonly execution: string; readonly seq: number }
  /** The node must send events again that it gave to the publisher and that are not published. */
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
  /** The newest definition of a workflow, for the start of a child; null if there is no such workflow. */
  | { readonly kind: "workflow-found"; readonly workflow: string; readonly plan: Plan | null }
  /** Partitions that this node owns from now on, with data that their last owners left. */
  | {
      readonly kind: "taken";
      readonly owned: readonly Ownership[];
      readonly left: Handover;
    }
  | { readonly kind: "yield"; readonly partitions: readonly number[] }
  | { readonly kind: "lost"; readonly partitions: readonly number[] }
  /** Another node requests permits from the quota servers of this node. */
  | {
      readonly kind: "permits-asked";
      readonly node: string;
      readonly asks: readonly PermitAsk[];
      /** The partitions for which this request lists all quotas of the sender. */
      readonly declares: readonly number[];
    }
  /** A quota server grants permits to this node. */
  | { readonly kind: "permits-granted"; readonly grants: readonly PermitGrant[] }
  /** New quota servers ask this node to declare all permits that it has. */
  | { readonly kind: "permits-called"; readonly partitions: readonly number[] }
  /** The store has stored the quotas of a partition, or has failed to. */
  | {
      readonly kind: "quotas-stored";
      readonly partition: number;
      readonly epoch: number;
      readonly isStored: boolean;
    }
  | ({ readonly kind: "members" } & Members)
  /** Other nodes may have stored mailbox messages for this node. */
  | { readonly kind: "mail-stored" }
  /** Overdue timers of this node, reported by a node that watches over them. */
  | { readonly kind: "timers-due"; readonly timers: readonly StoredTimer[] }
  | { readonly kind: "closing" }
  | { readonly kind: "tick" };

export interface JoinOptions {
  readonly serves: readonly Serves[];
  /** The most attempts that the worker runs at a time. */
  readonly capacity: number;
  /** Whether the worker runs in this process. Its leases end with the process, so they need no heartbeats. */
  readonly local: boolean;
  /** Whether the worker has a status API that can be asked about a silent attempt. */
  readonly asks?: boolean;
  /** The only project whose tasks the worker gets; null or missing if it gets tasks of all projects. */
  readonly project?: string | null;
  /** Whether the worker also gets work that no other worker serves, in any version. */
  readonly fallback?: boolean;
  /**
   * Whether the worker forwards work to queues of a broker. It sends no heartbeats, and its attempts are not declared lost because of
   * silence.
   */
  readonly queued?: boolean;
  /** The most leases of one handler in a visit that the worker holds at a time. */
  readonly perQueue?: number;
  /** The most handlers in open visits from which the worker gets work at a time. */
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
  /** The times at which the leases of departed nodes ended, by the incarnation of the node. */
  readonly ended: Readonly<Record<string, number>>;
  readonly epochs: ReadonlyMap<number, number>;
  /** The highest version of events that all nodes of the cluster can read. */
  readonly reads: number;
}

/** The end of an execution, or the notice that its data is damaged. */
export interface Ending {
  readonly status: FinalStatus | "damaged";
  /** The output of the execution, as JSON text; null if it has none. */
  readonly output: string | null;
  /** The execution that continues this one under the same id; missing if there is none. */
  readonly successor?: string;
  /** Returns the view of the execution at its end. It must be called at once, and is missing if the execution ended at another node. */
  readonly view?: () => ExecutionView;
}

export interface Inspection {
  readonly view: ExecutionView;
  readonly why: string;
  /**
   * The reason why the execution waits, or what it does now. Null or missing if it has ended, is paused, or is at a node that does
   * not report this.
   */
  readonly waits?: Waits | null;
  /** The names of the signals for which the execution waits. */
  readonly signals?: readonly string[];
  readonly commands?: readonly CommandView[];
  /** The newest execution that continues this one under the same id, as far as this one knows; missing if there is none. */
  readonly newest?: { readonly execution: string; readonly isOpen: boolean };
  /** The state of the requested attempt; null if the attempt does not hold its lease. */
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
    /** For a rate limit: how long a start counts, in milliseconds. */
    readonly perMs?: number;
  }[];
  /** The number of executions in memory. The next two fields are the number of executions with work, and of open leases. */
  readonly resident: number;
  readonly working: number;
  readonly leases: number;
  /** An estimate, for scaling, of the number of tasks that could be granted now, by the name of their code. */
  readonly ready: readonly {
    readonly use: string;
    readonly tasks: number;
    /** The time since which no worker has taken work from one of these queues. Missing if the node has an earlier version. */
    readonly since?: number;
    /** Workflows whose executions have these tasks, a few at most. Missing if the node has an earlier version. */
    readonly workflows?: readonly string[];
  }[];
  /** The totals of all commits since the node was opened. */
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
  /** The number of the task; -1 for an enumeration. */
  readonly task: number;
  readonly topic?: string;
  readonly receiptTopic?: string;
  readonly n: number;
  readonly worker: string;
  readonly status: "claimed" | "running";
  readonly startedAt: number | null;
  /** The time at which the lease ends if no heartbeat arrives; null if the lease needs no heartbeats. */
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
  /** A request to delete the journal rows of a gate before an event. They are not needed any more. */
  | { readonly kind: "trim"; readonly execution: string; readonly before: number }
  | { readonly kind: "perform"; readonly task: PostOpTask }
  /** A request to ask a worker's status API about silent attempts before they count as lost. */
  | { readonly kind: "ask-worker"; readonly worker: string; readonly attempts: readonly Beat[] }
  /** A visit has ended, of an execution that was started within a tracing span. */
  | ({ readonly kind: "phase-ended" } & EndedPhase)
  /** Log lines of an execution were stored. */
  | { readonly kind: "logged"; readonly execution: string }
  | { readonly kind: "commit"; readonly commit: number; readonly content: Commit }
  /** A request to load executions. With `whole`, the journal is read from its first row, without a snapshot. */
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
      /** The commands of the execution; missing if it has none, or if the request did not ask for the view. */
      readonly commands?: readonly CommandView[];
    }
  | { readonly kind: "inspected"; readonly request: number; readonly inspection: Inspection | Rejection }
  | { readonly kind: "grant"; readonly worker: string; readonly grant: Grant }
  /** A request to publish committed events. If the events are null, they must be read from the journal. */
  | {
      readonly kind: "publish";
      readonly execution: string;
      readonly from: number;
      readonly to: number;
      readonly events: readonly Recorded[] | null;
      readonly plan: Plan;
      /** The input of the execution, which may have its commands. */
      readonly input: string;
    }
  /**
   * A notice to a worker that forwards to queues: no task of the handler may begin now. Tasks that no worker has received are taken
   * out of the queues.
   */
  | {
      readonly kind: "withdraw";
      readonly worker: string;
      readonly from: ReportPlace;
      readonly why: "paused" | "cancelled";
    }
  | { readonly kind: "check-sent"; readonly worker: string; readonly at: SentAt }
  /**
   * A notice to a worker that forwards to queues: this node has taken over partitions. Commands that their last owner sent may still
   * be at topics.
   */
  | { readonly kind: "took-over"; readonly worker: string }
  /** A notice to a worker that forwards to queues: the visit of the handler has ended, and its queues can be deleted. */
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
  /** Other nodes own these partitions. This node has dropped what it had of them. */
  | { readonly kind: "fenced"; readonly why: string; readonly partitions: readonly number[] }
  /**
   * The node has finished its work on a partition, which may be released. `leases` are the open leases for the next owner; null if
   * some are unknown.
   */
  | { readonly kind: "yielded"; readonly partition: number; readonly leases: LeaseTable | null }
  | { readonly kind: "damaged"; readonly head: Head }
  /** A message between executions has no receiver, because that execution does not exist. The next commit deletes the message. */
  | {
      readonly kind: "undelivered";
      readonly id: string;
      readonly to: string;
      readonly at: number;
      readonly message: Message;
    }
  /** This node cannot continue with an execution, because this version of Rondo cannot read its definition or its journal. */
  | {
      readonly kind: "unreadable";
      readonly execution: string;
      readonly partition: number;
      readonly why: string;
    };
