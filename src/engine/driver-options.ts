/** What goes into a driver, and what those who use it hold. */

import type { Answer } from "../kernel/message.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { Beat, Grant } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import type { Store, StoreInfo } from "../store/store.ts";
import type { Ending } from "./io.ts";
import type { Settings } from "./settings.ts";

/** A worker as the driver sees it. */
export interface WorkerLink {
  take(grant: Grant): void;
  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void;
  /** Asks the worker's own status API which of these silent attempts still run. */
  ask?(beats: readonly Beat[]): Promise<readonly Beat[]>;
}

export interface EngineOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings?: Partial<Settings>;
  /** Settings that depend on what is in the store: asked for once it is open, before anything runs. */
  readonly settingsFor?: (info: StoreInfo, store: Store) => Promise<Partial<Settings>>;
  /** A fault of the world: the engine backs off and goes on. */
  readonly onFault?: (fault: Error) => void;
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
