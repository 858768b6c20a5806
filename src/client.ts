/// <reference lib="esnext.disposable" />
/** `rondo/client`: the exports for programs, also in browsers, that use a server. */
export type {
  CommandClient,
  CommandsOptions,
  CommandsPage,
  SubmitOptions,
} from "./client/command-client.ts";
export { connect, type RemoteClient } from "./client/connect.ts";
export type { ConnectOptions } from "./client/connect-options.ts";
export type { ServedCode, ServedWorker, ServeOptions } from "./client/serve-options.ts";
export type * from "./client/transport.ts";
export type { ProcStatus } from "./kernel/command/command-view.ts";
export type { RetryDefinition } from "./kernel/definition/definition.ts";
export type { ErrorCause, ExecutionError, FinalStatus, Parent } from "./kernel/event.ts";
export type { ExecutionStatus } from "./kernel/execution.ts";
export type { Detail, PublicEvent } from "./kernel/journal/public-event.ts";
export type { RetriedTasks } from "./kernel/message.ts";
export type { UnreadSignals } from "./kernel/unread.ts";
export type { ExecutionView, HandlerView, PhaseView, ShownStatus } from "./kernel/view.ts";
export type * from "./protocol/command-document.ts";
export type { RefusedUpdate } from "./protocol/update-answer.ts";
export type { ContextExtensions } from "./sdk/context.ts";
export {
  defineSignal,
  defineUpdate,
  type SignalType,
  type UpdateSchemas,
  type UpdateType,
} from "./sdk/declared.ts";
export { ExecutionCancelled, ExecutionFailed, UpdateRefused } from "./sdk/errors.ts";
export type * from "./sdk/handle.ts";
export type { LogLine } from "./sdk/log-line.ts";
export type * from "./sdk/operations.ts";
export { StreamFold } from "./sdk/stream-fold.ts";
export type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "./sdk/workflow.ts";
export type { Duration } from "./std/duration.ts";
export type { Json } from "./std/json.ts";
export { type Rejection, type RejectionCode, RondoError } from "./std/rejection.ts";
export type {
  HostedPart,
  HostedTopic,
  HostedWorkflow,
  Log,
  Middleware,
  MiddlewareContext,
} from "./worker/handler-code.ts";
