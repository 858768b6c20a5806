/// <reference lib="esnext.disposable" />
/** The package's root: what a program imports from "rondo". */
export { type OpenOptions, openRondo } from "./compose/compose.ts";
export type { PublicEvent } from "./kernel/journal/public-event.ts";
export type { ExecutionView, HandlerView, PhaseView } from "./kernel/view.ts";
export { DirectoryInUse, type DirectoryOwner } from "./rondo/directory-in-use.ts";
export type { LocalRondo, LogLine } from "./rondo/local-rondo.ts";
export type { Command, CommandSpec, PostOperations } from "./sdk/command.ts";
export type { BatchContext, Context, EnumerateContext, TaskContext } from "./sdk/context.ts";
export { ExecutionCancelled, ExecutionFailed, Fatal, RetryAfter } from "./sdk/errors.ts";
export type {
  ControlOptions,
  EventsOptions,
  ExecutionHandle,
  ExecutionPage,
  ListOptions,
  LogEntry,
  LogsOptions,
  ResultOptions,
  RondoClient,
  StartOptions,
} from "./sdk/handle.ts";
export { type Handler, type HandlerOptions, type HandlerSpec, handler } from "./sdk/handler.ts";
export type { PhaseOptions } from "./sdk/phase.ts";
export type { HandlerReader, MapReader, PhaseReader, WaitReader } from "./sdk/reader.ts";
export type { StandardSchema } from "./sdk/standard-schema.ts";
export type { Stored } from "./sdk/stored.ts";
export { type CommandContext, topic } from "./sdk/topic.ts";
export {
  type AnyWorkflow,
  type Workflow,
  type WorkflowInput,
  type WorkflowOutput,
  workflow,
} from "./sdk/workflow.ts";
export type { Duration } from "./std/duration.ts";
export { type RejectionCode, RondoError } from "./std/rejection.ts";
export type { BatchAttempt, TaskError } from "./worker/handler-code.ts";
