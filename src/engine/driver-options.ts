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
  /** Asks the worker's own status API which of these silent attempts are still running. */
  ask?(beats: readonly Beat[]): Promise<readonly Beat[]>;
  /** Only for a worker that forwards to queues: called when no task of the handler may begin now. */
  withdraw?(from: ReportPlace, why: "paused" | "cancelled"): void;
  /** Only for a worker that forwards to queues: asks it to check the topic of a command that has been silent for long. */
  check?(sent: SentAt): void;
  /**
   * Only for a worker that forwards to queues: called at its first join and at each takeover, when this node has got partitions that
   * other nodes or processes owned before.
   */
  tookOver?(): void;
  /** Only for a worker that forwards to queues: called when the visit of the handler has ended. */
  closed?(place: ReportPlace): void;
  /** Only for a worker that forwards to queues: called when another worker has joined, with the code that it serves. */
  joined?(serves: readonly Serves[]): void;
  /** Only for a worker that forwards to queues: adds to an inspection whether the queues of the execution's commands have a consumer. */
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
  /** Returns settings that depend on the store. It is called after the store is open, before anything runs. */
  readonly settingsFor?: (info: StoreInfo, store: Store) => Promise<Partial<Settings>>;
  /** Called with a temporary fault of the store. The engine backs off and continues. */
  readonly onFault?: (fault: Error) => void;
  /** In a cluster: called with outputs for other nodes. An engine without this function stops when it is fenced. */
  readonly onCluster?: (output: ClusterOutput) => void;
  /** Returns whether the engine may act now; by default always true. An engine that may not act grants nothing and writes nothing. */
  readonly mayAct?: () => boolean;
  /** Performs post-operations. An engine without this performer leaves its post-operations owed. */
  readonly postOps?: PostOps;
  /** Called if the engine cannot continue because of a bug, or because another process owns the store. */
  readonly onStop?: (reason: Error) => void;
}

export interface Reply {
  readonly answer: Answer;
  readonly existed: boolean;
  readonly view?: ExecutionView;
  /** The commands of the execution; missing if it has none, or if the request did not ask for the view. */
  readonly commands?: readonly CommandView[];
}

/** Called after each commit; `end` is set at the end of the execution, and is `stopped` if the engine stops. */
export type Progress = (seq: number, end: Ending | "stopped" | null) => void;

export function stoppedAnswer(reason: Error): Rejection {
  return reject("not_ready", `the engine has stopped: ${reason.message}`, { hint: "open the store again" });
}
