/**
 * The state of one execution, computed from its journal by the fold. Only `apply` (apply.ts) changes it. Payloads of
 * tasks and results are not part of it.
 */
import { assert } from "../std/assert.ts";
import { SparseMap } from "../std/sparse.ts";
import type { OwedOp } from "./command/owed-op.ts";
import type { HandlerPlan, PhasePlan, Plan } from "./definition/plan.ts";
import type { Created, ExecutionError, FinalStatus, Parent, Place, TimerPurpose } from "./event.ts";
import { ProgressTable } from "./tasks/checkpoint.ts";
import { IdentitySet } from "./tasks/identity-set.ts";
import type { Notices } from "./tasks/run-notices.ts";
import { TaskTable } from "./tasks/task-table.ts";

/** The status of an execution that can be read. `cleaning`: its work is over, and its clean-up runs. */
export type ExecutionStatus = "running" | "paused" | "cancelling" | "cleaning" | FinalStatus;

/** How an execution ends after its clean-up. */
export interface Ending {
  readonly status: FinalStatus;
  /** JSON text. */
  readonly output: string | null;
  readonly error: ExecutionError | null;
  /** Sequence number of the event. */
  readonly seq: number;
}

/** The enumeration of a handler's tasks, which has attempts of its own. */
export interface Enumeration {
  /** The number of attempts that have ended. */
  ended: number;
  fails: number;
  crashes: number;
  /** When the enumeration may run again; 0: at once. */
  until: number;
  /** Whether the budget of attempts is used up, so that the handler cannot be completed in this round. */
  failed: boolean;
  checksum: number;
}

export interface ChildState {
  readonly child: string;
  readonly attempt: number;
  readonly isOpen: boolean;
}

/** The journaled result of a command whose task is not done: the task waits for a persistence or a broadcast. */
export interface Receipted {
  /** Sequence number of the `command.receipted`. */
  readonly seq: number;
  readonly attempt: number;
  readonly worker: string;
  readonly ms: number;
  /** The result, as JSON text. */
  readonly result: string;
}

/** A broadcast that failed for good: the sequence number of that event, and of the receipt. */
export interface Undelivered {
  readonly seq: number;
  readonly task: number;
  readonly receipt: number;
}

/** The state of a command of the workflow in the newest visit of its phase. */
export interface CommandState {
  /** When the command's phase began. */
  readonly startedAt: number;
  /** When the command's last receipt came; null: none has. */
  readonly receiptedAt: number | null;
  /** Sequence number of the command's last `command.receipted`; 0: there is none. */
  readonly receipt: number;
  readonly status: "COMPLETE" | "ERROR" | null;
  /** The error, as JSON text. */
  readonly error: string | null;
}

export class HandlerState {
  readonly plan: HandlerPlan;
  started = true;
  finished = false;
  sealed = false;
  /** Tasks known so far. */
  total = 0;
  cancelled = 0;
  /** The payload of the signal that a wait consumed, as JSON text. */
  value: string | null = null;
  /** The error of the last failed attempt that is retried, cut short. */
  lastError: string | null = null;
  tasks = new TaskTable();
  enumeration: Enumeration = { ended: 0, fails: 0, crashes: 0, until: 0, failed: false, checksum: 0 };
  identities: IdentitySet | null = null;
  /** The journal rows that hold pages of tasks: the first task number and the sequence number of each. */
  readonly pageFrom: number[] = [];
  readonly pageSeq: number[] = [];
  /** Checkpoints and waits of tasks that have some. */
  progress = new ProgressTable();
  /** Notices about open attempts, by task. */
  notices = new SparseMap<number, Notices>();
  /** Children by task: the open ones, and those that failed or were cancelled. */
  readonly children = new SparseMap<number, ChildState>();
  openChildren = 0;
  /** Commands with a result whose tasks are not done, by task. */
  readonly receipted = new Map<number, Receipted>();

  constructor(plan: HandlerPlan) {
    this.plan = plan;
    if (plan.definition.identity !== undefined) this.identities = new IdentitySet();
  }

  /** Whether pages of tasks have been journaled. */
  get paged(): boolean {
    return this.pageSeq.length > 0;
  }

  /** The number of tasks that can be leased: the journaled ones, or the one that is the input. */
  get offered(): number {
    return this.paged || this.sealed ? this.total : this.impliesTask ? 1 : 0;
  }

  /** Whether the handler's one task is the input: no tasks are listed, enumerated or journaled. */
  get impliesTask(): boolean {
    return (
      !this.plan.waits &&
      this.plan.enumerateUse === null &&
      this.plan.definition.tasks === undefined &&
      this.enumeration.ended === 0 &&
      !this.paged
    );
  }

  /**
   * Whether only the definition, and not yet the journal, says that its one task is the input. Then code that enumerates
   * must not get this task, since the author of the definition may have meant a fan-out.
   */
  get needsSingleCode(): boolean {
    const { plan, tasks } = this;
    const isCode = plan.mode === "use" && plan.work === "process" && !plan.compensates;
    return isCode && this.impliesTask && tasks.ended(0) === 0 && tasks.startOf(0) === undefined;
  }

  /** Whether no attempt can change the task any more: it is settled, or it is a command with a result. */
  isClosed(task: number): boolean {
    // @plant second receipt sends the next command again
    return this.tasks.settled.has(task) || this.receipted.has(task);
  }

  /** The number of open tasks that wait for post-operations on their results. */
  get held(): number {
    let n = 0;
    for (const task of this.receipted.keys()) if (!this.tasks.settled.has(task)) n++;
    return n;
  }

  /** The sequence number of the row with the task's payload; 0: the task is the input. */
  pageOf(task: number): number {
    let low = 0;
    let high = this.pageFrom.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if ((this.pageFrom[mid] as number) <= task) low = mid;
      else high = mid - 1;
    }
    return this.pageSeq[low] ?? 0;
  }

  /** The first task number after the page that holds `task`. */
  pageEnd(task: number): number {
    for (let i = this.pageFrom.length - 1; i >= 0; i--) {
      if ((this.pageFrom[i] as number) <= task) return this.pageFrom[i + 1] ?? this.total;
    }
    return this.total;
  }
}

export class Visit {
  readonly plan: PhasePlan;
  readonly visit: number;
  round: number;
  /** Set for the rest of the round once failures exceed the tolerance of a handler. */
  failing: ExecutionError | null = null;
  status: "running" | FinalStatus = "running";
  handlers: HandlerState[] = [];
  /** The answer of the decision or of `returns` in this visit, as JSON text. */
  answer: string | null = null;
  /** Whether chosen tasks of it were retried after the end of the execution: then later phases do not run again. */
  isRetried = false;
  /** Whether this visit was entered by another's onError. */
  readonly repair: boolean;
  readonly firstSeq: number;
  lastSeq = 0;
  /** While the visit drains: open children not yet told to stop. Not part of the state: a restart tells them again. */
  stopping: { readonly open: Iterator<ChildState>; told: number } | null = null;

  constructor(plan: PhasePlan, options: { visit: number; round: number; repair: boolean; firstSeq: number }) {
    this.plan = plan;
    this.visit = options.visit;
    this.round = options.round;
    this.repair = options.repair;
    this.firstSeq = options.firstSeq;
  }

  get openChildren(): number {
    let n = 0;
    for (const handler of this.handlers) n += handler.openChildren;
    return n;
  }

  /** Whether a task of it is to be compensated: it is done, or it may have begun. */
  get isCompensable(): boolean {
    return this.handlers.some(({ plan, tasks, total }) => {
      if (!plan.isCompensated) return false;
      for (let task = 0; task < total; task++) if (tasks.mayHaveBegun(task)) return true;
      return false;
    });
  }

  /** Whether a task or an enumeration of it has failed for good. */
  get hasFailures(): boolean {
    return this.handlers.some(({ tasks, enumeration }) => tasks.failed.size > 0 || enumeration.failed);
  }

  /** Iterates over the open children, including those added during the iteration. */
  *eachOpenChild(): Generator<ChildState> {
    for (const handler of this.handlers)
      for (const child of handler.children.values()) if (child.isOpen) yield child;
  }

  /** The place of a handler in this visit. */
  place(handler: string): Place {
    return { phase: this.plan.name, visit: this.visit, handler };
  }

  handler(name: string): HandlerState | undefined {
    return this.handlers.find((handler) => handler.plan.name === name);
  }
}

/** The summary of a visit that has ended. */
export interface VisitSummary {
  readonly phase: string;
  readonly visit: number;
  status: FinalStatus;
  readonly firstSeq: number;
  lastSeq: number;
  handlers: {
    name: string;
    total: number;
    sealed: boolean;
    done: number;
    failed: number;
    cancelled: number;
    value: string | null;
  }[];
}

export interface Signal {
  readonly id: string;
  readonly data: string;
}

export interface Timer {
  readonly purpose: TimerPurpose;
  readonly due: number;
}

export class Execution {
  readonly id: string;
  readonly plan: Plan;
  /** Sequence number of the last event. */
  seq = 0;
  /** Time of the last event; never goes back. */
  now = 0;
  project = "";
  input = "null";
  tags: Readonly<Record<string, string>> = {};
  parent: Parent | null = null;
  trace: string | null = null;
  createdAt = 0;
  startAt: number | null = null;
  deadline: number | null = null;
  finishedAt: number | null = null;
  /** The status as the machine uses it: a clean-up runs like any other phase. `shownStatus` tells it apart. */
  status: Exclude<ExecutionStatus, "cleaning"> = "running";
  /** Set from the begin of the clean-up on. */
  ending: Ending | null = null;
  output: string | null = null;
  error: ExecutionError | null = null;
  round = 1;
  /** The first event whose work is repeated in this round. Not part of the state: for the commit of the retry. */
  redoneFrom = 0;
  /** Broadcasts that had failed for good when the last retry began. */
  undeliveredAtRetry: readonly { readonly seq: number; readonly task: number }[] = [];
  current: Visit | null = null;
  /** The visit that failed, while phases reached by its onError run. */
  origin: Visit | null = null;
  /** Index of the phase that starts next; -1: none. It waits while the execution is paused, and for `startAt`. */
  due = -1;
  dueRepair = false;
  visited: VisitSummary[] = [];
  /** Visits that have ended and whose tasks matter to the clean-up: they may be compensated, or their clean-up is not done. */
  kept: Visit[] = [];
  readonly visitCounts = new Map<string, number>();
  readonly signals = new SparseMap<string, Signal[]>();
  signalCount = 0;
  signalBytes = 0;
  readonly timers = new SparseMap<string, Timer>();
  /** Post-operations still to be performed, by id, oldest first. */
  readonly postops = new SparseMap<string, OwedOp>();
  /** Broadcasts that failed for good, by id. */
  readonly undelivered = new SparseMap<string, Undelivered>();
  /** The state of each started command, by its step. */
  readonly commands = new SparseMap<number, CommandState>();
  /** Parts of results that later commands refer to, as JSON texts, by the text of the reference. */
  readonly referred = new SparseMap<string, string>();
  /** The sequence numbers of events by the ids of the messages that caused them. A message is applied once. */
  readonly applied = new SparseMap<string, number>();
  paused: { by: string; reason: string | null; at: number } | null = null;
  cancelling: { by: string; reason: string | null } | null = null;

  constructor(id: string, plan: Plan) {
    this.id = id;
    this.plan = plan;
  }

  /** The status that others see. */
  get shownStatus(): ExecutionStatus {
    const isCleaning = this.ending !== null && this.status !== "paused" && !this.ended;
    return isCleaning ? "cleaning" : this.status;
  }

  /** Whether a phase of it has started. */
  get hasBegun(): boolean {
    return this.visitCounts.size > 0;
  }

  get ended(): boolean {
    return this.status === "done" || this.status === "failed" || this.status === "cancelled";
  }

  /** Whether new work may begin: leases, enumerations, phases. */
  get open(): boolean {
    return (
      // @plant pause does not close the gate
      this.status === "running" &&
      this.current !== null &&
      this.current.status === "running" &&
      this.current.failing === null
    );
  }

  /** Whether the current visit only waits for its open attempts to end. */
  get draining(): boolean {
    if (this.ended) return false;
    if (this.status === "cancelling") return true;
    return this.current !== null && this.current.status === "running" && this.current.failing !== null;
  }

  /** The handler of the current visit that a message is about; undefined: the message is about another visit. */
  handlerAt(place: { phase: string; visit: number; handler: string }): HandlerState | undefined {
    const { current } = this;
    if (current === null || current.plan.name !== place.phase || current.visit !== place.visit)
      return undefined;
    return current.handler(place.handler);
  }

  /** The visit with this name and number that is kept for the clean-up. */
  keptVisit(phase: string, visit: number): Visit | undefined {
    return this.kept.find((one) => one.plan.name === phase && one.visit === visit);
  }

  /** The current visit or an ended one with failed tasks, by its place; without a number the last one of its phase. */
  visitAt({ phase, visit }: { readonly phase: string; readonly visit?: number }): Visit | undefined {
    const all = this.current === null ? this.kept : [this.current, ...this.kept];
    const found = all.filter((one) => one.plan.name === phase);
    if (visit !== undefined) return found.find((one) => one.visit === visit);
    return found.reduce<Visit | undefined>(
      (last, one) => (last === undefined || one.visit > last.visit ? one : last),
      undefined,
    );
  }

  currentVisit(): Visit {
    assert(this.current !== null, "an execution that handles a phase's event or message has a current visit");
    return this.current;
  }
}

/** Applies `created`. */
export function applyCreated(execution: Execution, event: Created): void {
  execution.project = event.project;
  execution.input = event.input;
  execution.tags = event.tags;
  execution.parent = event.parent ?? null;
  execution.trace = event.trace ?? null;
  execution.startAt = event.startAt !== undefined && event.startAt > execution.now ? event.startAt : null;
  execution.deadline = event.deadline ?? null;
  execution.createdAt = execution.now;
  execution.due = execution.plan.first;
}
