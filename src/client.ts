/// <reference lib="esnext.disposable" />
/** `rondo/client`: what a program, in a browser too, imports to use a server. */
export { type ConnectOptions, connect } from "./client/connect.ts";
export type { Fetch, HttpRequest, HttpResponse } from "./client/transport.ts";
export type { PublicEvent } from "./kernel/public-event.ts";
export type { ExecutionView, HandlerView, PhaseView } from "./kernel/view.ts";
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
