/**
 * The state of one execution, computed by applying the events of its journal in order. Only `apply` (apply.ts) changes it. The state
 * does not contain payloads of tasks and results.
 */

import { assert } from "../std/assert.ts";
import type { Json } from "../std/json.ts";
import { SparseMap } from "../std/sparse.ts";
import { TransientMap } from "../std/transient-map.ts";
import type { OwedOp } from "./command/owed-op.ts";
import { RETURNS } from "./definition/definition.ts";
import type { HandlerPlan, PhasePlan, Plan } from "./definition/plan.ts";
import type {
  Continuing,
  Created,
  ExecutionError,
  FinalStatus,
  Newest,
  Parent,
  Place,
  Succession,
  TasksEnumerated,
  TimerPurpose,
} from "./event.ts";
import type { RetriedTasks } from "./message.ts";
import type { GateState } from "./relay/relay.ts";
import { ProgressTable } from "./tasks/checkpoint.ts";
import { Dependencies } from "./tasks/dependencies.ts";
import { IdentitySet } from "./tasks/identity-set.ts";
import type { Notices } from "./tasks/run-notices.ts";
import { TaskTable } from "./tasks/task-table.ts";

/** The statuses of an execution whose data is readable. `cleaning` means that its work is over, and its clean-up runs. */
export type ExecutionStatus = "running" | "paused" | "cancelling" | "cleaning" | FinalStatus;

/** How an execution will end after its clean-up. */
export interface Ending {
  readonly status: FinalStatus;
  /** The output of the execution, as JSON text; null if it has none. */
  readonly output: string | null;
  readonly error: ExecutionError | null;
  /** The sequence number of the event `ending`. */
  readonly seq: number;
}

/** How a failed or cancelled execution had ended before chosen tasks of it were retried. */
export interface FormerEnd {
  readonly status: Exclude<FinalStatus, "done">;
  readonly error: ExecutionError | null;
  /** Why the visit cannot be done in this round; null if the tasks that failed in this round are within the tolerance. */
  failure: ExecutionError | null;
  /**
   * The visit with which a retry of the whole execution would continue, if that is not the visit of the chosen tasks. After their
   * round, the execution then ends as it had ended. Null if it is their visit: the execution continues if the visit is done.
   */
  readonly back: { readonly visit: Visit | null; readonly due: number; readonly dueRepair: boolean } | null;
}

/** The enumeration of a handler's tasks, which has attempts of its own. */
export interface Enumeration {
  /** The number of attempts that have ended. */
  ended: number;
  fails: number;
  crashes: number;
  /** The time from which the enumeration may run again; 0 if it may run at once. */
  until: number;
  /** Whether all attempts of the enumeration are used up. Then the handler cannot be completed in this round. */
  failed: boolean;
  checksum: number;
  /** The number of tasks that the enumeration has given so far. Tasks that were added by tasks do not count. */
  count: number;
  /** The number of the last task that the enumeration gave; -1 if it gave none. */
  last: number;
}

export interface ChildState {
  readonly child: string;
  readonly attempt: number;
  readonly isOpen: boolean;
}

/** A child that the code of a task runs. */
export interface TaskChild extends ChildState {
  readonly task: number;
  readonly name: string;
  /** `asked`: the child was asked to stop, because its task has ended. `again`: the child is to start again once it has stopped. */
  readonly stop?: "asked" | "again";
}

/** The journaled result of a command whose task is not done yet, because a persistence or an awaited broadcast has not ended. */
export interface Receipted {
  /** The sequence number of the `command.receipted` event. */
  readonly seq: number;
  readonly attempt: number;
  readonly worker: string;
  readonly ms: number;
  /** The result of the command, as JSON text. */
  readonly result: string;
}

/** A broadcast that failed for good: the sequence number of the event with that failure, and the sequence number of the receipt. */
export interface Undelivered {
  readonly seq: number;
  readonly task: number;
  readonly receipt: number;
}

/** The state of a command of the workflow, in the newest visit of its phase. */
export interface CommandState {
  /** When the command's phase began. */
  readonly startedAt: number;
  /** When the command's last receipt arrived; null if none has. */
  readonly receiptedAt: number | null;
  /** The sequence number of the command's last `command.receipted` event; 0 if there is none. */
  readonly receipt: number;
  readonly status: "COMPLETE" | "ERROR" | null;
  /** The error of the command, as JSON text; null if there is none. */
  readonly error: string | null;
}

export class HandlerState {
  /** The plan of the handler. It changes when the execution is moved to another definition. */
  plan: HandlerPlan;
  started = true;
  finished = false;
  sealed = false;
  /** The number of tasks of the handler that are known so far. */
  total = 0;
  cancelled = 0;
  /** The payload of the signal that answered the wait, as JSON text; null if there is none yet. */
  value: string | null = null;
  /** The beginning of the error of the last failed attempt that is retried; null if there is none. */
  lastError: string | null = null;
  tasks = new TaskTable();
  enumeration: Enumeration = {
    ended: 0,
    fails: 0,
    crashes: 0,
    until: 0,
    failed: false,
    checksum: 0,
    count: 0,
    last: -1,
  };
  identities: IdentitySet | null = null;
  /** Which tasks wait for which others; null if the definition has no `after`. */
  dependencies: Dependencies | null = null;
  /** The number of the first task of each page. The next array has the sequence number of the journal row of each page. */
  readonly pageFrom: number[] = [];
  readonly pageSeq: number[] = [];
  /** The checkpoints and waits of those tasks that have some. */
  progress = new ProgressTable();
  /** Notices about the runs of open attempts, by task. */
  notices = new TransientMap<number, Notices>();
  /** Child executions by task: those that are open, and those that failed or were cancelled. */
  readonly children = new TransientMap<number, ChildState>();
  openChildren = 0;
  /** Children that the code of tasks runs, by task and name: those that are open, and those that failed or were cancelled. */
  readonly taskChildren = new TransientMap<string, TaskChild>();
  openTaskChildren = 0;
  /** Commands that have a result but whose tasks are not done, by task. */
  readonly receipted = new TransientMap<number, Receipted>();

  constructor(plan: HandlerPlan) {
    this.plan = plan;
    const { identity, after } = plan.definition;
    if (identity !== undefined) this.identities = new IdentitySet(after !== undefined);
    if (after !== undefined) this.dependencies = new Dependencies();
  }

  /** Applies the event with a page of tasks. `seq` is its sequence number. */
  addPage(event: TasksEnumerated, seq: number): void {
    const { identities, dependencies, enumeration } = this;
    this.pageFrom.push(event.from);
    this.pageSeq.push(seq);
    // @plant handler finished before added tasks are settled
    this.total = event.from + event.count;
    // @plant handler finished before added tasks are settled 2
    if (event.addedBy === undefined) {
      enumeration.checksum = event.checksum;
      enumeration.count += event.count;
      enumeration.last = this.total - 1;
    }
    const names = event.identities ?? [];
    if (dependencies !== null && identities !== null) {
      const page = { from: event.from, identities: names, afters: event.afters ?? [] };
      dependencies.add(page, this.tasks, identities);
    } else for (const identity of names) identities?.add(identity);
  }

  /** Whether the journal has pages of tasks for this handler. */
  get paged(): boolean {
    return this.pageSeq.length > 0;
  }

  /** The number of tasks that can be leased: the journaled tasks, or 1 if the input is the task. */
  get offered(): number {
    return this.paged || this.sealed ? this.total : this.impliesTask ? 1 : 0;
  }

  /** Whether the handler's only task is the input, because no tasks are listed, enumerated or journaled. */
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
   * Whether the handler's only task is the input by its definition, and the journal does not say so yet. Then code that enumerates
   * must not get this task, because the author of the definition may have meant a fan-out.
   */
  get needsSingleCode(): boolean {
    const { plan, tasks } = this;
    const isCode = plan.mode === "use" && plan.work === "process" && !plan.compensates;
    return isCode && this.impliesTask && tasks.ended(0) === 0 && tasks.startOf(0) === undefined;
  }

  /** Whether no attempt can change the task any more, because it is settled or is a command with a result. */
  isClosed(task: number): boolean {
    // @plant second receipt sends the next command again
    return this.tasks.settled.has(task) || this.receipted.has(task);
  }

  /** Whether the number of tasks is final. If tasks can add tasks, the number is final only when all of them are settled. */
  get isTotalFinal(): boolean {
    return (this.sealed || this.impliesTask) && (!this.plan.adds || this.finished);
  }

  /** Whether more tasks have failed than the definition tolerates. */
  get exceedsTolerance(): boolean {
    const failures = this.tasks.failed.size;
    const { tolerateCount, tolerateMillionths } = this.plan;
    if (tolerateMillionths === null) return failures > tolerateCount;
    return this.sealed && this.isTotalFinal && failures * 1_000_000 > tolerateMillionths * this.total;
  }

  /** The number of open tasks that wait only for post-operations on their results. */
  get held(): number {
    let n = 0;
    for (const task of this.receipted.keys()) if (!this.tasks.settled.has(task)) n++;
    return n;
  }

  /** The sequence number of the row with the task's payload; 0 if the task is the input. */
  pageOf(task: number): number {
    return this.pageSeq[this.#pageIndex(task)] ?? 0;
  }

  /** The first task number after the page that contains `task`. */
  pageEnd(task: number): number {
    return this.pageFrom[this.#pageIndex(task) + 1] ?? this.total;
  }

  /** The index of the page that contains `task`. */
  #pageIndex(task: number): number {
    let low = 0;
    let high = this.pageFrom.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if ((this.pageFrom[mid] as number) <= task) low = mid;
      else high = mid - 1;
    }
    return low;
  }
}

export class Visit {
  /** The plan of the phase. It changes when the execution is moved to another definition. */
  plan: PhasePlan;
  readonly visit: number;
  round: number;
  /** Why the visit fails. It is set once the failures of a handler exceed its tolerance, and stays for the rest of the round. */
  failing: ExecutionError | null = null;
  status: "running" | FinalStatus = "running";
  handlers: HandlerState[] = [];
  /** The answer of the code of `next` or `returns` in this visit, or the result that is the output; as JSON text. */
  answer: string | null = null;
  /** Whether chosen tasks of the visit were retried after the end of the execution. Then later phases do not run again. */
  isRetried = false;
  /** Whether the last round of the visit has only chosen tasks, which were retried after the end of the execution. */
  isChosenRound = false;
  /** Whether the visit was begun by the `onError` of another phase. */
  readonly repair: boolean;
  readonly firstSeq: number;
  lastSeq = 0;
  /**
   * While the visit drains: the open children that were not asked to stop yet. This is not part of the stored state; after a restart
   * all children are asked again.
   */
  stopping: { readonly open: Iterator<ChildState>; told: number } | null = null;

  constructor(plan: PhasePlan, options: { visit: number; round: number; repair: boolean; firstSeq: number }) {
    this.plan = plan;
    this.visit = options.visit;
    this.round = options.round;
    this.repair = options.repair;
    this.firstSeq = options.firstSeq;
  }

  /** Whether the result of this visit is the output of the execution. */
  get isOutput(): boolean {
    return this.plan.handlers.some((handler) => handler.isOutput);
  }

  get openChildren(): number {
    let n = 0;
    for (const { openChildren, openTaskChildren } of this.handlers) n += openChildren + openTaskChildren;
    return n;
  }

  /** Whether a task of the visit must be compensated, because it is done or may have begun. */
  get isCompensable(): boolean {
    return this.handlers.some(({ plan, tasks, total }) => {
      if (!plan.isCompensated) return false;
      for (let task = 0; task < total; task++) if (tasks.mayHaveBegun(task)) return true;
      return false;
    });
  }

  /** The handler whose failures exceed its tolerance; undefined if there is none. */
  get exceeding(): HandlerState | undefined {
    return this.handlers.find((handler) => handler.exceedsTolerance);
  }

  /** The number of tasks that are not done and were not chosen for the retry. */
  get leftOut(): number {
    return this.handlers.reduce((sum, { tasks }) => sum + tasks.leftOut.size, 0);
  }

  /** Whether every handler knows all of its tasks, each task has an outcome, and failures are within the tolerance. */
  get isComplete(): boolean {
    if (this.exceeding !== undefined || this.leftOut > 0) return false;
    return this.handlers.every(({ enumeration }) => !enumeration.failed);
  }

  /** Whether a task or an enumeration of this visit has failed for good. */
  get hasFailures(): boolean {
    return this.handlers.some(({ tasks, enumeration }) => tasks.failed.size > 0 || enumeration.failed);
  }

  /** Iterates over the open children, including those added during the iteration. */
  *eachOpenChild(): Generator<ChildState> {
    for (const handler of this.handlers) {
      for (const child of handler.children.values()) if (child.isOpen) yield child;
      for (const child of handler.taskChildren.values()) if (child.isOpen) yield child;
    }
  }

  /** Returns the phase, the number of this visit and the handler's name, as events and messages name a handler. */
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
  /** The hash of the definition with which the execution was created. */
  readonly hash: string;
  /** The plan of the definition that the execution uses now. */
  plan: Plan;
  /** The definition to which the execution was last moved, as JSON text; null if it was not moved. */
  moved: string | null = null;
  /** The sequence number of the last event. */
  seq = 0;
  /** The time of the last event, which never goes back. */
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
  /**
   * The status that the state machine uses, in which a clean-up does not differ from other phases. `shownStatus` distinguishes the
   * two.
   */
  status: Exclude<ExecutionStatus, "cleaning"> = "running";
  /** How the execution will end after its clean-up; null until the clean-up begins. */
  ending: Ending | null = null;
  output: string | null = null;
  error: ExecutionError | null = null;
  round = 1;
  /**
   * The sequence number of the first event whose work is repeated in this round. It is not part of the stored state; the commit of a
   * retry uses it.
   */
  redoneFrom = 0;
  /** Broadcasts that had failed for good when the last retry began. */
  undeliveredAtRetry: readonly { readonly seq: number; readonly task: number }[] = [];
  current: Visit | null = null;
  /** How the execution had ended, while a round of chosen tasks runs after it failed or was cancelled; otherwise null. */
  formerEnd: FormerEnd | null = null;
  /** The visit that failed, while the phases run that its `onError` leads to; otherwise null. */
  origin: Visit | null = null;
  /**
   * The index of the phase that starts next; -1 if there is none. It does not start while the execution is paused, or before
   * `startAt`.
   */
  due = -1;
  dueRepair = false;
  visited: VisitSummary[] = [];
  /** Ended visits whose tasks are still needed, because they may be compensated or some of them are not done. */
  kept: Visit[] = [];
  readonly visitCounts = new Map<string, number>();
  readonly signals = new TransientMap<string, Signal[]>();
  /** Updates that a wait has taken and that are not answered yet: the name of each by its id. */
  readonly unanswered = new SparseMap<string, string>();
  /** The values that code has published, by key, in the order in which they were last published. */
  readonly published = new SparseMap<string, Json>();
  signalCount = 0;
  signalBytes = 0;
  readonly timers = new TransientMap<string, Timer>();
  /** Post-operations that are still to be performed, by id, oldest first. */
  readonly postops = new TransientMap<string, OwedOp>();
  /** Broadcasts that failed for good, by id. */
  readonly undelivered = new TransientMap<string, Undelivered>();
  /** The state of each command that has started, by the number of the command. */
  readonly commands = new TransientMap<number, CommandState>();
  /** Parts of results that later commands refer to, as JSON texts, by the text of the reference. */
  readonly referred = new SparseMap<string, string>();
  /** The sequence numbers of events, by the ids of the messages that caused them. So each message is applied only once. */
  readonly applied = new SparseMap<string, number>();
  /** The answers to retries of chosen tasks, by the ids of the retry messages. */
  readonly retriedTasks = new SparseMap<string, RetriedTasks>();
  paused: { by: string; reason: string | null; at: number } | null = null;
  cancelling: { by: string; reason: string | null; force?: true } | null = null;
  /** The state of a gate; null if the execution is not a gate. */
  gate: GateState | null = null;
  /** The sequence number of the last event that compacted a gate's journal; 0 if there is none. */
  carriedAt = 0;
  /** The gate that is notified when the execution has ended. */
  notifies: string | null = null;
  /** The place of the execution among those that continue one another under its id; null for the first one. */
  succession: Omit<Succession, "seen"> | null = null;
  /** The input of the execution that continues this one, as JSON text; null if the code has not asked to continue. */
  continuing: string | null = null;
  /** The cancel with which the execution that continues this one begins; null if there is none. */
  nextCancelled: (Continuing["cancel"] & {}) | null = null;
  /** The execution that continues this one; null if there is none. */
  continuedAs: string | null = null;
  /** Only in the first execution of an id: the newest execution of the id; null if there is no other. */
  newest: Newest | null = null;
  /** When the newest execution of the id ended, if that is another execution. The first execution is kept as long as the newest one. */
  newestEndedAt: number | null = null;

  constructor(id: string, plan: Plan) {
    this.id = id;
    this.hash = plan.hash;
    this.plan = plan;
  }

  /** The status that users see, with `cleaning` for a running clean-up. */
  get shownStatus(): ExecutionStatus {
    const isCleaning = this.ending !== null && this.status !== "paused" && !this.ended;
    return isCleaning ? "cleaning" : this.status;
  }

  /** Whether a phase of the execution has started. */
  get hasBegun(): boolean {
    return this.visitCounts.size > 0;
  }

  /** The id that users know. It is that of the first of the executions that continue one another. */
  get first(): string {
    return this.succession?.first ?? this.id;
  }

  /** The execution that continues this one or was started after it under the same id, as far as this one knows; null if there is none. */
  get successor(): string | null {
    return this.newest?.execution ?? this.continuedAs;
  }

  get ended(): boolean {
    return this.status === "done" || this.status === "failed" || this.status === "cancelled";
  }

  /** Whether new leases, enumerations and phases may begin. */
  get open(): boolean {
    return (
      // @plant pause does not close the gate
      this.status === "running" &&
      this.current !== null &&
      this.current.status === "running" &&
      this.current.failing === null
    );
  }

  /** Whether the current visit only waits until its open attempts have ended. */
  get draining(): boolean {
    if (this.ended) return false;
    if (this.status === "cancelling") return true;
    return this.current !== null && this.current.status === "running" && this.current.failing !== null;
  }

  /** Returns the handler of the current visit that a message is about; undefined if the message is about another visit. */
  handlerAt(place: { phase: string; visit: number; handler: string }): HandlerState | undefined {
    const { current } = this;
    if (current === null || current.plan.name !== place.phase || current.visit !== place.visit)
      return undefined;
    return current.handler(place.handler);
  }

  /** Returns the ended visit of this phase and number, if it is still kept. */
  keptVisit(phase: string, visit: number): Visit | undefined {
    return this.kept.find((one) => one.plan.name === phase && one.visit === visit);
  }

  /**
   * Returns the current visit, or an ended visit with failed tasks, by its phase and number. Without a number, returns the last one
   * of its phase.
   */
  visitAt({ phase, visit }: { readonly phase: string; readonly visit?: number }): Visit | undefined {
    const all = this.current === null ? this.kept : [this.current, ...this.kept];
    const found = all.filter((one) => one.plan.name === phase);
    if (visit !== undefined) return found.find((one) => one.visit === visit);
    return found.reduce<Visit | undefined>(
      (last, one) => (last === undefined || one.visit > last.visit ? one : last),
      undefined,
    );
  }

  /** The visit that a retry reopens: the last visit. If the `onError` of another visit led to it, that other visit is reopened. */
  get visitToReopen(): Visit | null {
    const { current, origin } = this;
    if (origin === null || current === null) return current;
    const isRepair = current.repair || (current.status === "done" && this.status === "failed");
    return isRepair ? origin : current;
  }

  /**
   * Returns the phases that do not run again if tasks of this visit are retried: those visited after it, before the execution ended.
   * `returns` is not one of them.
   */
  phasesSkippedBy({ firstSeq }: Visit): string[] {
    if (!this.ended && !this.isChosenRound) return [];
    const after = this.visited.filter((one) => one.firstSeq > firstSeq && one.phase !== RETURNS);
    return [...new Set(after.map(({ phase }) => phase))];
  }

  /** Whether a round of chosen tasks is running, which began after the end of the execution. */
  get isChosenRound(): boolean {
    return this.current?.isChosenRound === true;
  }

  currentVisit(): Visit {
    assert(
      this.current !== null,
      "an execution must have a current visit to handle an event or message about a phase",
    );
    return this.current;
  }
}

/** Applies the event `created`. */
export function applyCreated(execution: Execution, event: Created): void {
  execution.project = event.project;
  execution.input = event.input;
  execution.tags = event.tags;
  execution.parent = event.parent ?? null;
  execution.trace = event.trace ?? null;
  execution.notifies = event.notifies ?? null;
  if (event.succession !== undefined) {
    const { seen = [], ...place } = event.succession;
    execution.succession = place;
    for (const id of seen) execution.applied.set(id, execution.seq);
  }
  execution.startAt = event.startAt !== undefined && event.startAt > execution.now ? event.startAt : null;
  execution.deadline = event.deadline ?? null;
  execution.createdAt = execution.now;
  execution.due = execution.plan.first;
}
