/// <reference lib="esnext.disposable" />
/** `rondo/client`: what a program, in a browser too, imports to use a server. */
export type {
  CommandClient,
  CommandsOptions,
  CommandsPage,
  SubmitOptions,
} from "./client/command-client.ts";
export { connect, type RemoteClient } from "./client/connect.ts";
export type { ConnectOptions } from "./client/connect-options.ts";
export type { Fetch, HttpRequest, HttpResponse } from "./client/transport.ts";
export type { ProcStatus } from "./kernel/command/command-view.ts";
export type { PublicEvent } from "./kernel/journal/public-event.ts";
export type { ExecutionView, HandlerView, PhaseView } from "./kernel/view.ts";
export type {
  CommandDocument,
  OwedDocument,
  ProcDocument,
  ProjectDocument,
  ProjectSubmission,
  StepDocument,
  StepSubmission,
  WorkflowDocument,
  WorkflowSubmission,
} from "./protocol/command-document.ts";
export { ExecutionCancelled, ExecutionFailed } from "./sdk/errors.ts";
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
export type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "./sdk/workflow.ts";
export { RondoError } from "./std/rejection.ts";
