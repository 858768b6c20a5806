/** The options of a driver, and the types that its callers use. */
import type { Answer } from "../kernel/message.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { Beat, Grant, ReportPlace, SentAt, Serves } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import type { Store, StoreInfo } from "../store/store.ts";
import type { Ending, Input, Inspection, Output } from "./io.ts";
import type { PostOps } from "./post-ops/post-ops.ts";
import type { Settings } from "./settings.ts";

/** A worker as the driver sees it. */
export interface WorkerLink {
  take(grant: Grant): void;
  /** Nobody waits for these attempts any more, or their leases are lost; `topic` is where commands go. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost", topic?: string): void;
  /** Asks the worker's own status API which of these silent attempts still run. */
  ask?(beats: readonly Beat[]): Promise<readonly Beat[]>;
  /** Of a worker that queues: nothing of the handler is to begin now. */
  withdraw?(from: ReportPlace, why: "paused" | "cancelled"): void;
  /** Of a worker that queues: nothing was heard of this command for long, whose topic is to be looked at. */
  check?(sent: SentAt): void;
  /** Of a worker that queues: partitions of another process are this node's now. */
  tookOver?(): void;
  /** Of a worker that queues: the visit of the handler is over. */
  closed?(place: ReportPlace): void;
  /** Of a worker that queues: another worker has come, and serves these. */
  joined?(serves: readonly Serves[]): void;
  /** Of a worker that queues: says of commands in its queues whether anybody can have them. */
  explain?(inspection: Inspection): Promise<Inspection>;
}

/** What an engine of a cluster hears of the others. */
export type ClusterNotice = Extract<
  Input,
  {
    kind:
      | "lost"
      | "mail-stored"
      | "timers-due"
      | "members"
      | "permits-asked"
      | "permits-granted"
      | "permits-called";
  }
>;

/** What an engine of a cluster has to say to the others: to the owner of a partition, to a node; or that it was fenced. */
export type ClusterOutput = Extract<
  Output,
  {
    kind:
      | "fenced"
      | "unreadable"
      | "ask-permits"
      | "grant-permits"
      | "call-permits"
      | "timers-changed"
      | "mail-sent";
  }
>;

export interface EngineOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings?: Partial<Settings>;
  /** Settings that depend on what is in the store: asked for once it is open, before anything runs. */
  readonly settingsFor?: (info: StoreInfo, store: Store) => Promise<Partial<Settings>>;
  /** A fault of the world: the engine backs off and goes on. */
  readonly onFault?: (fault: Error) => void;
  /** In a cluster: what concerns the others. Without it a fenced engine stops. */
  readonly onCluster?: (output: ClusterOutput) => void;
  /** Whether the engine may act at this moment; by default always. What may not act gives out and writes nothing. */
  readonly mayAct?: () => boolean;
  /** Performs post-operations; without it they stay owed. */
  readonly postOps?: PostOps;
  /** The engine cannot go on: a bug, or another owner. */
  readonly onStop?: (reason: Error) => void;
}

export interface Reply {
  readonly answer: Answer;
  readonly existed: boolean;
  /** How the execution is, if that was asked for. */
  readonly view?: ExecutionView;
}

/** Called after each commit; `end` once it is over, or `stopped` if this engine is. */
export type Progress = (seq: number, end: Ending | "stopped" | null) => void;

/** What whoever asks an engine that has stopped is told. */
export function stoppedAnswer(reason: Error): Rejection {
  return reject("not_ready", `the engine has stopped: ${reason.message}`, { hint: "open the store again" });
}
