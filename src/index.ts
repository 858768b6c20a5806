/// <reference lib="esnext.disposable" />
/** `rondo`: the exports for programs that write workflows and run them in process. */
import type { Rondo } from "./rondo/rondo.ts";

export type { WebhookSecretsGiven } from "./commands/post-ops/webhook-secrets.ts";
export type {
  HttpStateSettings,
  PostgresStateSettings,
  RedisStateSettings,
  StateStoreGiven,
  StateStoreSettings,
} from "./commands/state/state-settings.ts";
export type {
  BrokerOptions,
  OpenOptions,
  OpenServerOptions,
  PostOpOptions,
  ProjectLimits,
} from "./compose/open-options.ts";
export { openRondo } from "./compose/open-rondo.ts";
export type { ErrorCause, ExecutionError, FinalStatus, Parent } from "./kernel/event.ts";
export type { ExecutionStatus } from "./kernel/execution.ts";
export type { Detail, PublicEvent } from "./kernel/journal/public-event.ts";
export type { RetriedTasks } from "./kernel/message.ts";
export type { UnreadSignals } from "./kernel/unread.ts";
export type { ExecutionView, HandlerView, PhaseView, ShownStatus } from "./kernel/view.ts";
export type { EventTarget, RefusedTrigger, SentEvent } from "./protocol/sent-event.ts";
export { ChildFailed, type FailedItem, MapFailed, StepFailed, WaitTimeout } from "./protocol/step-errors.ts";
export type { RefusedUpdate } from "./protocol/update-answer.ts";
export { DirectoryInUse, type DirectoryOwner } from "./rondo/directory-in-use.ts";
export type { Rondo } from "./rondo/rondo.ts";
export type * from "./sdk/command.ts";
export type * from "./sdk/context.ts";
export {
  defineSignal,
  defineUpdate,
  type SignalType,
  type UpdateSchemas,
  type UpdateType,
} from "./sdk/declared.ts";
export { ExecutionCancelled, ExecutionFailed, Fatal, RetryAfter, UpdateRefused } from "./sdk/errors.ts";
export {
  type CancelOn,
  type EventMatch,
  type EventToSend,
  type EventType,
  event,
  on,
  type Trigger,
  type TriggerData,
  type TriggerOptions,
} from "./sdk/event.ts";
export {
  type Flow,
  type FlowCompensateContext,
  type FlowContext,
  type FlowOptions,
  flow,
} from "./sdk/flow.ts";
export type * from "./sdk/handle.ts";
export {
  type AnswerOptions,
  type AnyHandler,
  type Compensation,
  type EnumerationSpec,
  type Handler,
  type HandlerOptions,
  type HandlerSpec,
  handler,
  handlerFor,
  type Items,
  type NoItems,
  type Rate,
  type RetryOptions,
  type TaskOf,
} from "./sdk/handler.ts";
export type { LogLine } from "./sdk/log-line.ts";
export type * from "./sdk/operations.ts";
export type { Decision, PhaseOptions } from "./sdk/phase.ts";
export type * from "./sdk/reader.ts";
export type { SchemaInput, SchemaOutput, SchemaResult, StandardSchema } from "./sdk/standard-schema.ts";
export type { Stored } from "./sdk/stored.ts";
export { StreamFold } from "./sdk/stream-fold.ts";
export { type CommandContext, topic } from "./sdk/topic.ts";
export {
  type AnyWorkflow,
  type OutputGiven,
  type ScriptSpec,
  type TypedWorkflow,
  type WaitSpec,
  type Workflow,
  type WorkflowDefinition,
  type WorkflowInput,
  type WorkflowOptions,
  type WorkflowOutput,
  workflow,
} from "./sdk/workflow.ts";
export type { Duration } from "./std/duration.ts";
export type { Json } from "./std/json.ts";
export { type Rejection, type RejectionCode, RondoError } from "./std/rejection.ts";
export type {
  BatchAttempt,
  HostedTopic,
  HostedWorkflow,
  Log,
  MapContext,
  Middleware,
  MiddlewareContext,
  StepContext,
  StepOptions,
  TaskError,
} from "./worker/handler-code.ts";

/**
 * The former name of `Rondo`.
 *
 * @deprecated Use `Rondo`. The next version removes this name.
 */
export type LocalRondo = Rondo;
