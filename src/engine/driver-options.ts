/** The options of a driver, and the types that its callers use. */
import type { CommandView } from "../kernel/command/command-view.ts";
import type { Answer } from "../kernel/message.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { Beat, Grant, ReportPlace, SentAt, Serves } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import type { Store, StoreInfo } from "../store/store.ts";
import type { Ending, Input, Inspection, Output } from "./io.ts";
import type { PostOps } from "./post-ops/post-ops.ts";
import type { Settings } from "./settings.ts";

export interface WorkerLink {
  accept(grant: Grant): void;
  /** Notifies the worker that these attempts are cancelled, or have lost their leases; `topic` is the topic of commands. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost", topic?: string): void;
  /** Asks the worker's own status API which of these silent attempts still run. */
  ask?(beats: readonly Beat[]): Promise<readonly Beat[]>;
  /** For a queueing worker: called when no task of the handler may begin now. */
  withdraw?(from: ReportPlace, why: "paused" | "cancelled"): void;
  /** For a queueing worker: asks it to check the topic of a command that has been silent for long. */
  check?(sent: SentAt): void;
  /**
   * For a queueing worker, at its first join and at each takeover: called when this node has partitions that other nodes or
   * processes had.
   */
  tookOver?(): void;
  /** For a queueing worker: called when the visit of the handler is over. */
  closed?(place: ReportPlace): void;
  /** For a queueing worker: called when another worker has joined and serves this code. */
  joined?(serves: readonly Serves[]): void;
  /** For a queueing worker: adds whether commands in its queues have a reader. */
  explain?(inspection: Inspection): Promise<Inspection>;
}

/** Inputs of an engine about the rest of its cluster. */
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

/**
 * Outputs of an engine for its cluster: a message to the owner of a partition or to a node, or the notice that it was fenced.
 */
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
  /** Settings that depend on the store: read after it is open, before anything runs. */
  readonly settingsFor?: (info: StoreInfo, store: Store) => Promise<Partial<Settings>>;
  /** Called with a temporary fault. The engine backs off and continues. */
  readonly onFault?: (fault: Error) => void;
  /** In a cluster: outputs for other nodes. Without it a fenced engine stops. */
  readonly onCluster?: (output: ClusterOutput) => void;
  /** Whether the engine may act now; by default always. An engine that may not act grants and writes nothing. */
  readonly mayAct?: () => boolean;
  /** Performs post-operations; without a performer they stay owed. */
  readonly postOps?: PostOps;
  /** Called if the engine cannot continue because of a bug, or because another process owns the store. */
  readonly onStop?: (reason: Error) => void;
}

export interface Reply {
  readonly answer: Answer;
  readonly existed: boolean;
  readonly view?: ExecutionView;
  /** The commands of the execution, if it has any and the view was asked for. */
  readonly commands?: readonly CommandView[];
}

/** Called after each commit; `end` is set at the end of the execution, and is `stopped` if the engine stops. */
export type Progress = (seq: number, end: Ending | "stopped" | null) => void;

export function stoppedAnswer(reason: Error): Rejection {
  return reject("not_ready", `the engine has stopped: ${reason.message}`, { hint: "open the store again" });
}
