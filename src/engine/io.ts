/**
 * The inputs and outputs of an engine node: the contract between the deterministic node and its driver (real or simulated).
 * The node never waits: it requests something by an output, and continues when the input comes.
 */
import type { CommandView } from "../kernel/command/command-view.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import type { FinalStatus } from "../kernel/event.ts";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import type {
  Answer,
  ControlMessage,
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
import type { Totals } from "./views/totals.ts";

/** A message that somebody waits for the answer of. */
export type Request = StartMessage | ControlMessage | SignalMessage | PostOpRetryMessage;

export type Input =
  | {
      readonly kind: "request";
      readonly request: number;
      readonly execution: string;
      readonly message: Request;
      readonly plan?: Plan;
      readonly fresh?: boolean;
      /** The answer says how the execution is after it. */
      readonly views?: boolean;
    }
  | {
      readonly kind: "inspect";
      readonly request: number;
      readonly execution: string;
      /** How this attempt is, is wanted too. */
      readonly attempt?: ReportedAttempt;
    }
  /** The clock was set forward by so much: what is due is due, but nobody was silent meanwhile. */
  | { readonly kind: "clock-stepped"; readonly ms: number }
  | { readonly kind: "committed"; readonly commit: number; readonly verdict: CommitVerdict }
  /** The commit threw: nothing was written, or its outcome is unknown. */
  | { readonly kind: "commit-failed"; readonly commit: number; readonly nothingWritten: boolean }
  | {
      readonly kind: "loaded";
      readonly load: number;
      readonly loads: readonly { readonly id: string; readonly loaded: LoadedExecution | null }[];
    }
  /** `damage`: why it cannot be read. Without it, a plan of null is of a newer version. */
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
  /** The worker was asked, and says that these attempts still run. */
  | { readonly kind: "worker-vouches"; readonly worker: string; readonly beats: readonly Beat[] }
  /** A remote worker asks for up to `max` items; a local one is served up to its capacity without asking. */
  | { readonly kind: "worker-claims"; readonly worker: string; readonly max: number; readonly why?: string }
  | {
      readonly kind: "worker-reports";
      readonly worker: string;
      readonly report: number;
      readonly reports: readonly Report[];
    }
  | { readonly kind: "worker-beats"; readonly worker: string; readonly beats: readonly Beat[] }
  /** A worker that queues commands has got these to the broker, which has confirmed them. */
  | { readonly kind: "worker-sent"; readonly worker: string; readonly beats: readonly Beat[] }
  /** A worker gives claims back that nobody has begun. */
  | { readonly kind: "worker-releases"; readonly worker: string; readonly beats: readonly Beat[] }
  /** Events of an execution up to this one are published. */
  | { readonly kind: "published"; readonly execution: string; readonly seq: number }
  /** What was given out to be published and is not, is given out again. */
  | { readonly kind: "publish-again" }
  | { readonly kind: "worker-left"; readonly worker: string }
  | { readonly kind: "purge"; readonly ids: readonly string[] }
  /** A try at a post-operation has ended. */
  | {
      readonly kind: "performed";
      readonly execution: string;
      readonly op: string;
      readonly attempt: number;
      readonly outcome: PostOpOutcome;
    }
  /** What was to be purged is, or could not be. */
  | { readonly kind: "purged"; readonly ids: readonly string[] }
  | { readonly kind: "definition-stored"; readonly workflow: string }
  /** Tokens are bound to these projects from now on. */
  | { readonly kind: "projects-bound"; readonly projects: ReadonlySet<string> }
  | {
      readonly kind: "mailbox-scanned";
      readonly messages: readonly StoredMailboxMessage[];
      readonly max: number;
    }
  /** The newest definition of a name, for a child; null: there is none. */
  | { readonly kind: "workflow-found"; readonly workflow: string; readonly plan: Plan | null }
  /** Partitions that are this node's from now on, with what their last owners left open. */
  | {
      readonly kind: "taken";
      readonly owned: readonly Ownership[];
      readonly left: Handover;
    }
  /** Let go of these as soon as nothing is under way in them. */
  | { readonly kind: "yield"; readonly partitions: readonly number[] }
  /** These are not this node's any more. */
  | { readonly kind: "lost"; readonly partitions: readonly number[] }
  /** A node sends requests to the quota servers of this node. */
  | {
      readonly kind: "permits-asked";
      readonly node: string;
      readonly asks: readonly PermitAsk[];
      /** Partitions of which this is all that the node has. */
      readonly declares: readonly number[];
    }
  /** A quota server sends grants to this node. */
  | { readonly kind: "permits-granted"; readonly grants: readonly PermitGrant[] }
  /** New quota servers ask for a declaration of all that this node has. */
  | { readonly kind: "permits-called"; readonly partitions: readonly number[] }
  /** The quotas of a partition were stored, or could not be. */
  | {
      readonly kind: "home-stored";
      readonly partition: number;
      readonly epoch: number;
      readonly isStored: boolean;
    }
  | ({ readonly kind: "members" } & Members)
  /** Other nodes may have stored mailbox messages for this node. */
  | { readonly kind: "mail-stored" }
  /** Timers that others watch are past due. */
  | { readonly kind: "timers-due"; readonly timers: readonly StoredTimer[] }
  | { readonly kind: "closing" }
  | { readonly kind: "tick" };

/** A worker as it joins. */
export interface JoinOptions {
  readonly serves: readonly Serves[];
  /** Attempts that it can hold at a time. */
  readonly capacity: number;
  /** It is in this process: its leases end with it and need no beats. */
  readonly local: boolean;
  /** It can be asked about a silent attempt. */
  readonly asks?: boolean;
  /** It gets tasks of this project only. */
  readonly project?: string | null;
  /** It also gets whatever nobody else serves, in whatever version. */
  readonly fallback?: boolean;
  /** It passes work on to queues: nobody beats for it, and silence says nothing. */
  readonly queued?: boolean;
  /** Most leases of one handler of a visit that it holds at a time. */
  readonly perQueue?: number;
  /** Most handlers of visits that it has had work of and that are not over. */
  readonly queuesMax?: number;
}

/** What a node of a cluster hears about partitions, and of the others. */
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
      | "home-stored"
      | "members"
      | "mail-stored"
      | "timers-due";
  }
>;

/** The nodes of a cluster, each by the name that the store gave it when it joined. */
export interface Members {
  readonly self: string;
  readonly live: readonly string[];
  /** How often each partition has been taken. */
  readonly epochs: ReadonlyMap<number, number>;
  /** The version of events that all of them read. */
  readonly reads: number;
}

/** How an execution ended, or that nobody can go on with it: it is damaged. */
export interface Ending {
  readonly status: FinalStatus | "damaged";
  /** JSON text. */
  readonly output: string | null;
}

export interface Inspection {
  readonly view: ExecutionView;
  readonly why: string;
  /** Its commands, where it has some. */
  readonly commands?: readonly CommandView[];
  /** The attempt that was asked for; null: it does not hold its lease. */
  readonly attempt?: AttemptFacts | null;
}

/** What a node holds, for those who look at it. */
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
    /** Of a rate: how long a start counts. */
    readonly perMs?: number;
  }[];
  /** Executions in memory, those with work among them, and open leases. */
  readonly resident: number;
  readonly working: number;
  readonly leases: number;
  /** Tasks that could be given out now, by the name of the code: an estimate for scaling. */
  readonly ready: readonly { readonly use: string; readonly tasks: number }[];
  /** What was committed here since it was opened. */
  readonly totals: Readonly<Totals>;
}

/** What of it can be added up over nodes. */
export type Holdings = Omit<Overview, "totals">;

/** A filter of open leases. */
export interface AttemptFilter {
  readonly worker: string | null;
  readonly project?: string | null;
  readonly execution?: string | null;
  /** Only leases of commands. */
  readonly commands?: true;
  readonly max: number;
}

/** An open lease. */
export interface OpenAttempt {
  /** The attempt's id on the wire. */
  readonly attempt: string;
  readonly execution: string;
  readonly project: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  /** -1: the enumeration. */
  readonly task: number;
  /** Only for a command. */
  readonly topic?: string;
  readonly receiptTopic?: string;
  readonly n: number;
  readonly worker: string;
  readonly status: "claimed" | "running";
  readonly startedAt: number | null;
  /** When the lease ends without a beat; null: it needs no beats. */
  readonly leaseUntil: number | null;
}

/** A message that changed nothing. */
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
  /** A post-operation that is owed is to be performed now. */
  | { readonly kind: "perform"; readonly task: PostOpTask }
  /** Attempts went silent: their worker's own status API is asked before the verdict. */
  | { readonly kind: "ask-worker"; readonly worker: string; readonly attempts: readonly Beat[] }
  /** Log lines of the execution are stored. */
  | { readonly kind: "logged"; readonly execution: string }
  | { readonly kind: "commit"; readonly commit: number; readonly content: Commit }
  /** `whole`: the journal from its first row on, without a snapshot. */
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
    }
  | { readonly kind: "inspected"; readonly request: number; readonly inspection: Inspection | Rejection }
  | { readonly kind: "grant"; readonly worker: string; readonly grant: Grant }
  /** Committed events are to be published; null: they are to be read from the journal. */
  | {
      readonly kind: "publish";
      readonly execution: string;
      readonly from: number;
      readonly to: number;
      readonly rows: readonly Entry[] | null;
      /** The plan of the execution. */
      readonly plan: Plan;
    }
  /** Nothing of the handler is to begin now: a queue gives back what nobody has taken. */
  | {
      readonly kind: "withdraw";
      readonly worker: string;
      readonly from: ReportPlace;
      readonly why: "paused" | "cancelled";
    }
  /** Nothing was heard of a command for long: the queue that it went to is to be looked at. */
  | { readonly kind: "check-sent"; readonly worker: string; readonly at: SentAt }
  /** Partitions were taken: commands of their last owner may be at topics. */
  | { readonly kind: "took-over"; readonly worker: string }
  /** The visit of the handler is over: what a queue still holds of it is of no use. */
  | { readonly kind: "queue-closed"; readonly worker: string; readonly place: ReportPlace }
  | {
      readonly kind: "cancel";
      readonly worker: string;
      readonly attempts: readonly Beat[];
      readonly why: "cancel" | "lost";
      /** Of commands: the topic that they go to. */
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
  /** Requests to the quota server of a partition. */
  | {
      readonly kind: "ask-permits";
      readonly partition: number;
      readonly asks: readonly PermitAsk[];
      /** This is all that the node has there. */
      readonly declares?: true;
    }
  /** Timers were set, and fired or cleared, in partitions that others watch. */
  | {
      readonly kind: "timers-changed";
      readonly set: readonly StoredTimer[];
      readonly ended: readonly StoredTimer[];
    }
  /** Mailbox messages were stored for executions in these partitions of other nodes. */
  | { readonly kind: "mail-sent"; readonly partitions: readonly number[] }
  | { readonly kind: "call-permits"; readonly node: string; readonly partitions: readonly number[] }
  /** To be stored before permits are given out that it does not cover. */
  | { readonly kind: "store-home"; readonly partition: number; readonly home: StoredQuotas }
  | { readonly kind: "grant-permits"; readonly node: string; readonly grants: readonly PermitGrant[] }
  /** Others have these partitions: the node has let go of them. */
  | { readonly kind: "fenced"; readonly why: string; readonly partitions: readonly number[] }
  /** Nothing was under way in the partition, and the node has let go of it: it may be released. `leases`: what is open at workers,
   * for the next owner; null: not all of that is known. */
  | { readonly kind: "yielded"; readonly partition: number; readonly leases: LeaseTable | null }
  /** An execution whose stored data cannot be read: the head that says so. */
  | { readonly kind: "damaged"; readonly head: Head }
  /** An execution this node cannot go on with: its definition or its rows are unknown to this version. */
  | {
      readonly kind: "unreadable";
      readonly execution: string;
      readonly partition: number;
      readonly why: string;
    };
