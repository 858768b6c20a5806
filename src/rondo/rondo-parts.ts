/**
 * The parts of which `Rondo` in this process is made. They are not in the file of the class, because users read the declarations of that
 * file.
 */
import type { Plan } from "../kernel/definition/plan.ts";
import type { CloseOptions } from "../sdk/handle.ts";
import type { LogLine } from "../sdk/log-line.ts";
import type { ApiPort } from "../sdk/operations-over.ts";
import type { Rejection } from "../std/rejection.ts";
import type { HostedPart, Middleware } from "../worker/handler-code.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";
import type { LocalParts } from "./local-handle.ts";
import type { Rondo } from "./rondo.ts";

export interface RondoParts extends LocalParts {
  /** The most tasks that the worker holds. Half of them run, and half wait to run next. */
  readonly capacity: number;
  /** The options of scripts. Without them, scripts do not run in this process. */
  readonly scripts?: ScriptOptions;
  /** The worker in this process that runs the served workflows for other nodes of the cluster. */
  readonly elsewhere?: Elsewhere;
  /** Values that are redacted in logs and errors. */
  readonly secrets?: readonly string[];
  /** The middleware of this process, to which `use` adds. The worker for other nodes uses the same middleware. */
  readonly middleware?: Middleware[];
  readonly onLog: (line: LogLine) => void;
  readonly onBug: (thrown: unknown) => void;
  /** Returns why a name is reserved and cannot be a topic; null if it is not reserved. */
  readonly reserved?: (topic: string) => Rejection | null;
  /** Returns why a project cannot start a workflow with these commands; null if it can. */
  readonly admit?: (project: string, commands: Plan["commands"]) => Promise<Rejection | null>;
  /** Opens the API of this process on first use, for schedules, dead letters, workers and changes of many executions. */
  readonly openApi?: (rondo: Rondo) => Promise<AttachedApi>;
  /** Closes the parts that use the engine. Called before the engine is closed. */
  readonly onClosing?: () => Promise<void>;
  /** Closes the parts that the engine uses. Called after the engine is closed. */
  readonly onClosed?: () => Promise<void>;
}

/** The HTTP API of this process, to which requests can be made without a connection. */
export interface AttachedApi {
  readonly calls: ApiPort;
  /** The address at which the API listens; null if it does not listen. */
  readonly url: string | null;
  /** Closes the API. Called before the engine is closed. */
  shut(options: CloseOptions): Promise<void>;
}

/** The worker in this process that runs tasks of other nodes. */
export interface Elsewhere {
  host(parts: readonly HostedPart[]): void;
  hostScripts(): void;
  stop(graceMs: number): Promise<void>;
}
