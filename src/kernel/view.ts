/** The public view of an execution (the shape of the HTTP API), from its state and the open attempts of its owner. */
import type { Json } from "../std/json.ts";
import type { ExecutionError, FinalStatus, Parent } from "./event.ts";
import type { Execution, ExecutionStatus, HandlerState } from "./execution.ts";

export interface HandlerView {
  readonly name: string;
  readonly total: number;
  readonly sealed: boolean;
  readonly pending: number;
  readonly running: number;
  readonly retrying: number;
  readonly waiting: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
}

export interface PhaseView {
  readonly name: string;
  readonly visit: number;
  readonly status: "pending" | "running" | FinalStatus | "skipped";
  readonly handlers: readonly HandlerView[];
}

/** A status in views: that of the execution, or `damaged` if its stored data cannot be read. */
export type ShownStatus = ExecutionStatus | "damaged";

export interface ExecutionView {
  readonly id: string;
  readonly workflow: string;
  readonly workflowHash: string;
  readonly project: string;
  readonly status: ShownStatus;
  /** Only if damaged: the stored row that cannot be read. The view shows the state before that row. */
  readonly damage?: { readonly table: string; readonly row: number | string; readonly why: string };
  readonly phase: string | null;
  readonly input: Json;
  readonly output: Json;
  readonly error: ExecutionError | null;
  readonly phases: readonly PhaseView[];
  readonly tags: Readonly<Record<string, string>>;
  /** The task of the parent, if it is a child. */
  readonly parent: Parent | null;
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly revision: number;
}

/** Whether an execution stays as it is unless a user acts: it has ended, or it is damaged. */
export function hasEnded({ finishedAt, status }: Pick<ExecutionView, "finishedAt" | "status">): boolean {
  return finishedAt !== null || status === "damaged";
}

/** Open attempts per handler of the current visit, by handler name. */
export type RunningCounts = ReadonlyMap<string, number>;

/** The view of an execution at `now`. */
export function viewExecution(
  execution: Execution,
  now: number,
  running: RunningCounts = new Map(),
): ExecutionView {
  return {
    id: execution.id,
    workflow: execution.plan.definition.name,
    workflowHash: execution.plan.hash,
    project: execution.project,
    status: execution.status,
    phase: execution.ended ? null : (execution.current?.plan.name ?? null),
    input: JSON.parse(execution.input) as Json,
    output: execution.output === null ? null : (JSON.parse(execution.output) as Json),
    error: execution.ended ? viewError(execution.error) : null,
    phases: viewPhases(execution, now, running),
    tags: execution.tags,
    parent: viewParent(execution),
    createdAt: execution.createdAt,
    finishedAt: execution.finishedAt,
    revision: execution.seq,
  };
}

/** An error without `fatal`, which only concerns a child and its parent. */
export function viewError(error: ExecutionError | null): ExecutionError | null {
  if (error?.fatal === undefined) return error;
  const { fatal: _, ...shown } = error;
  return shown;
}

function viewParent({ parent }: Execution): Parent | null {
  if (parent === null) return null;
  const { since: _, ...shown } = parent;
  return shown;
}

function viewPhases(execution: Execution, now: number, running: RunningCounts): PhaseView[] {
  const { current } = execution;
  const views: PhaseView[] = [];
  for (const visit of execution.visited) {
    if (
      current !== null &&
      current.status === "running" &&
      visit.phase === current.plan.name &&
      visit.visit === current.visit
    )
      continue;
    const handlers = visit.handlers.map(({ value: _, ...handler }) => ({
      ...handler,
      pending: 0,
      running: 0,
      retrying: 0,
      waiting: 0,
    }));
    views.push({ name: visit.phase, visit: visit.visit, status: visit.status, handlers });
  }
  if (current !== null && current.status === "running") {
    const handlers = current.handlers.map((handler) =>
      viewHandler(handler, now, running.get(handler.plan.name) ?? 0),
    );
    views.push({ name: current.plan.name, visit: current.visit, status: "running", handlers });
  }
  for (const phase of execution.plan.phases) {
    if (!views.some((view) => view.name === phase.name)) {
      views.push({
        name: phase.name,
        visit: 0,
        status: execution.ended ? "skipped" : "pending",
        handlers: [],
      });
    }
  }
  return views;
}

function viewHandler(handler: HandlerState, now: number, leased: number): HandlerView {
  const { tasks, total, plan } = handler;
  const left = total - tasks.settled.size;
  const running = plan.waits ? 0 : Math.min(left, leased + handler.openChildren);
  const suspended = handler.progress.tasks.size === 0 ? 0 : handler.progress.countWaiting(now);
  const held = handler.receipted.size === 0 ? 0 : handler.held;
  const waiting = plan.waits ? left : Math.min(left - running, suspended + held);
  const sleeping = suspended === 0 ? 0 : handler.progress.countSleeping(now);
  const retrying = plan.waits ? 0 : Math.min(left - running - waiting, tasks.countRetrying(now) - sleeping);
  return {
    name: plan.name,
    total,
    sealed: handler.sealed || handler.impliesTask,
    pending: left - running - waiting - retrying,
    running,
    retrying,
    waiting,
    done: tasks.done,
    failed: tasks.failed.size,
    cancelled: handler.cancelled,
  };
}
