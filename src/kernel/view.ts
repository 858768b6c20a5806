/** The public view of an execution (the shape that the HTTP API returns), made from its state and the open attempts at its owner. */
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";
import { nextCleanup } from "./cleanup.ts";
import type { ExecutionError, FinalStatus, Parent } from "./event.ts";
import type { Execution, ExecutionStatus, HandlerState } from "./execution.ts";
import { type UnreadSignals, unreadSignals } from "./unread.ts";

/** A handler of a phase, with the number of its tasks in each state. */
export interface HandlerView {
  /** The name of the handler. */
  readonly name: string;
  /** The number of tasks so far. */
  readonly total: number;
  /** Whether `total` is final: all tasks are enumerated, and none can add others any more. */
  readonly sealed: boolean;
  /** The number of tasks that have not started. */
  readonly pending: number;
  /** The number of tasks with a running attempt. */
  readonly running: number;
  /** The number of tasks that wait for their next attempt after a failure. */
  readonly retrying: number;
  /** The number of tasks that sleep, or wait for a signal or for other tasks. */
  readonly waiting: number;
  /** The number of tasks that are done. */
  readonly done: number;
  /** The number of tasks that failed for good. */
  readonly failed: number;
  /** The number of tasks that were cancelled. */
  readonly cancelled: number;
}

/** A visit of a phase, or a phase that was not visited. */
export interface PhaseView {
  /** The name of the phase. */
  readonly name: string;
  /** The number of the visit, from 1; 0 if the phase was not visited. */
  readonly visit: number;
  /** The status of the visit. `skipped`: the execution ended without visiting the phase. */
  readonly status: "pending" | "running" | FinalStatus | "skipped";
  /** The handlers of the phase; empty if it was not visited. */
  readonly handlers: readonly HandlerView[];
}

/** The status of an execution. `damaged`: a stored row of it cannot be read. */
export type ShownStatus = ExecutionStatus | "damaged";

/** An execution as it is shown: in process, by the HTTP API and by the CLI. */
export interface ExecutionView {
  /** The id of the execution. */
  readonly id: string;
  /** The name of the workflow. */
  readonly workflow: string;
  /** The hash of the workflow's definition. */
  readonly workflowHash: string;
  /** The version of the workflow's definition; only present if it has one. */
  readonly workflowVersion?: string;
  /** The project that the execution belongs to. */
  readonly project: string;
  /** The status of the execution. */
  readonly status: ShownStatus;
  /** Which stored row of a damaged execution cannot be read. The view shows the state before that row. */
  readonly damage?: { readonly table: string; readonly row: number | string; readonly why: string };
  /** The name of the current phase; null if there is none. */
  readonly phase: string | null;
  /** The input of the execution, as stored. */
  readonly input: Json;
  /** The output of the execution; null if it has none, or until it is done. */
  readonly output: Json;
  /** Why the execution failed or was cancelled; null otherwise. */
  readonly error: ExecutionError | null;
  /** How the execution ends after its clean-up; only present during the clean-up. */
  readonly ending?: { readonly status: FinalStatus; readonly error: ExecutionError | null };
  /**
   * Signals that the execution keeps and no wait has taken, by name; only present if there are any. At most 100 names are
   * listed.
   */
  readonly unread?: readonly UnreadSignals[];
  /** Values that the code has published, by key; only present if there are any. */
  readonly published?: Readonly<Record<string, Json>>;
  /** The execution that continues this one; only present if there is one. */
  readonly continuedAs?: string;
  /** The execution that continued as this one; only present if there is one. */
  readonly continues?: string;
  /** Set if the execution failed or was cancelled and its clean-up has run. Then it cannot be retried. */
  readonly cleanedUp?: true;
  /** Visits of phases in their order, then the phases that were not visited. */
  readonly phases: readonly PhaseView[];
  /** The tags of the execution. */
  readonly tags: Readonly<Record<string, string>>;
  /** The task that started the execution, if it is a child; null otherwise. */
  readonly parent: Parent | null;
  /** When the execution was created, in milliseconds since 1970. */
  readonly createdAt: number;
  /** When the execution ended, in milliseconds since 1970; null until then. */
  readonly finishedAt: number | null;
  /** The sequence number of the execution's last event. */
  readonly revision: number;
}

/** Whether an execution does not change unless a user acts, because it has ended or is damaged. */
export function hasEnded({ finishedAt, status }: Pick<ExecutionView, "finishedAt" | "status">): boolean {
  return finishedAt !== null || status === "damaged";
}

/** The number of open attempts of each handler of the current visit, by handler name. */
export type RunningCounts = ReadonlyMap<string, number>;

/** Returns the view of an execution at `now`. */
export function viewExecution(
  execution: Execution,
  now: number,
  running: RunningCounts = new Map(),
): ExecutionView {
  return {
    id: execution.id,
    workflow: execution.plan.definition.name,
    workflowHash: execution.plan.hash,
    ...defined({ workflowVersion: execution.plan.definition.version }),
    project: execution.project,
    status: execution.shownStatus,
    phase: execution.ended ? null : (execution.current?.plan.name ?? null),
    input: JSON.parse(execution.input) as Json,
    output: execution.output === null ? null : (JSON.parse(execution.output) as Json),
    error: execution.ended ? viewError(execution.error) : null,
    ...viewEnding(execution),
    ...viewUnread(execution),
    ...(execution.published.size === 0 ? {} : { published: Object.fromEntries(execution.published) }),
    ...viewSuccession(execution),
    phases: viewPhases(execution, now, running),
    tags: execution.tags,
    parent: viewParent(execution),
    createdAt: execution.createdAt,
    finishedAt: execution.finishedAt,
    revision: execution.seq,
  };
}

function viewEnding(execution: Execution): Pick<ExecutionView, "ending" | "cleanedUp"> {
  const { ending, ended, round } = execution;
  if (ending === null) return {};
  if (ended)
    return ending.status === "done" || nextCleanup(execution, ending, round + 1) !== null
      ? {}
      : { cleanedUp: true };
  return { ending: { status: ending.status, error: viewError(ending.error) } };
}

function viewUnread(execution: Execution): Pick<ExecutionView, "unread"> {
  const unread = unreadSignals(execution);
  return unread.length === 0 ? {} : { unread };
}

function viewSuccession({
  continuedAs,
  succession,
}: Execution): Pick<ExecutionView, "continuedAs" | "continues"> {
  const continues = succession?.after;
  return {
    ...(continues === undefined ? {} : { continues }),
    ...(continuedAs === null ? {} : { continuedAs }),
  };
}

/** Returns an error without its field `fatal`, which matters only to the parent of a child. */
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
    const handlers = visit.handlers.map(
      ({ name, total, sealed, done, failed, cancelled }): HandlerView => ({
        name,
        total,
        sealed,
        pending: 0,
        running: 0,
        retrying: 0,
        waiting: 0,
        done,
        failed,
        cancelled,
      }),
    );
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
  const blocked = handler.dependencies?.blocked.size ?? 0;
  const waiting = plan.waits ? left : Math.min(left - running, suspended + held + blocked);
  const sleeping = suspended === 0 ? 0 : handler.progress.countSleeping(now);
  const retrying = plan.waits ? 0 : Math.min(left - running - waiting, tasks.countRetrying(now) - sleeping);
  return {
    name: plan.name,
    total: total - tasks.exempt,
    sealed: handler.isTotalFinal,
    pending: left - running - waiting - retrying,
    running,
    retrying,
    waiting,
    done: tasks.done,
    failed: tasks.failed.size,
    cancelled: handler.cancelled,
  };
}
