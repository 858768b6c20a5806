/**
 * The state of one execution, computed from its journal by the fold. Only `apply` (apply.ts) changes it. The state does not
 * contain payloads of tasks and results.
 */
import { assert } from "../std/assert.ts";
import type { Json } from "../std/json.ts";
import { SparseMap } from "../std/sparse.ts";
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

/** The status of an execution that can be read. `cleaning`: its work is over, and its clean-up runs. */
export type ExecutionStatus = "running" | "paused" | "cancelling" | "cleaning" | FinalStatus;

/** How an execution ends after its clean-up. */
export interface Ending {
  readonly status: FinalStatus;
  /** The output, as JSON text. */
  readonly output: string | null;
  readonly error: ExecutionError | null;
  /** The sequence number of the event `ending`. */
  readonly seq: number;
}

/** How a failed or cancelled execution had ended when chosen tasks of it were retried. */
export interface FormerEnd {
  readonly status: Exclude<FinalStatus, "done">;
  readonly error: ExecutionError | null;
  /** Why the visit cannot be done in this round; null: no task of this round has failed beyond the tolerance. */
  failure: ExecutionError | null;
  /**
   * Where a retry of the whole execution goes on, if that is not the visit of the chosen tasks: the execution ends after their
   * round as it had ended. Null: it goes on if the visit is done.
   */
  readonly back: { readonly visit: Visit | null; readonly due: number; readonly dueRepair: boolean } | null;
}

/** The enumeration of a handler's tasks, which has attempts of its own. */
export interface Enumeration {
  /** The number of attempts that have ended. */
  ended: number;
  fails: number;
  crashes: number;
  /** When the enumeration may run again; 0 if at once. */
  until: number;
  /** Whether the budget of attempts is used up, so that the handler cannot be completed in this round. */
  failed: boolean;
  checksum: number;
  /** The number of tasks that the enumeration has given so far, without those that tasks added. */
  count: number;
  /** The last task that the enumeration gave; -1 if it gave none. */
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
  /** `asked`: the child was asked to stop, because its task has ended. `again`: it starts again once it has stopped. */
  readonly stop?: "asked" | "again";
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
  /** When the command's last receipt arrived; null if none has. */
  readonly receiptedAt: number | null;
  /** The sequence number of the command's last `command.receipted`; 0 if there is none. */
  readonly receipt: number;
  readonly status: "COMPLETE" | "ERROR" | null;
  /** The error of the command, as JSON text. */
  readonly error: string | null;
}

export class HandlerState {
  /** It changes when the execution is moved to another definition. */
  plan: HandlerPlan;
  started = true;
  finished = false;
  sealed = false;
  /** The number of tasks known so far. */
  total = 0;
  cancelled = 0;
  /** The payload of the signal that a wait consumed, as JSON text. */
  value: string | null = null;
  /** The error of the last failed attempt that is retried, cut short. */
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
  /** The journal rows that contain pages of tasks: the first task number and the sequence number of each. */
  readonly pageFrom: number[] = [];
  readonly pageSeq: number[] = [];
  /** Checkpoints and waits of tasks, for those that have some. */
  progress = new ProgressTable();
  /** Notices about open attempts, by task. */
  notices = new SparseMap<number, Notices>();
  /** Children by task: the open ones, and those that failed or were cancelled. */
  readonly children = new SparseMap<number, ChildState>();
  openChildren = 0;
  /** Children that the code of tasks runs, by task and name: the open ones, and those that failed or were cancelled. */
  readonly taskChildren = new SparseMap<string, TaskChild>();
  openTaskChildren = 0;
  /** Commands with a result whose tasks are not done, by task. */
  readonly receipted = new Map<number, Receipted>();

  constructor(plan: HandlerPlan) {
    this.plan = plan;
    const { identity, after } = plan.definition;
    if (identity !== undefined) this.identities = new IdentitySet(after !== undefined);
    if (after !== undefined) this.dependencies = new Dependencies();
  }

  /** Applies a page of tasks, whose event has this sequence number. */
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

  /** Whether pages of tasks have been journaled. */
  get paged(): boolean {
    return this.pageSeq.length > 0;
  }

  /** The number of tasks that can be leased: the journaled ones, or 1 if the input is the task. */
  get offered(): number {
    return this.paged || this.sealed ? this.total : this.impliesTask ? 1 : 0;
  }

  /** Whether the handler's single task is the input: no tasks are listed, enumerated or journaled. */
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
   * Whether only the definition, and not yet the journal, says that the handler's single task is the input. If so, code that
   * enumerates must not get this task, since the author of the definition may have meant a fan-out.
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

  /** Whether the number of tasks is final. Tasks that add tasks are known to be the last ones when all of them are settled. */
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

  /** The number of open tasks that wait for post-operations on their results. */
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
  /** It changes when the execution is moved to another definition. */
  plan: PhasePlan;
  readonly visit: number;
  round: number;
  /** Why the visit fails. It is set for the rest of the round once failures exceed the tolerance of a handler. */
  failing: ExecutionError | null = null;
  status: "running" | FinalStatus = "running";
  handlers: HandlerState[] = [];
  /** The answer of the decision or of `returns` in this visit, or the result that is the output; as JSON text. */
  answer: string | null = null;
  /** Whether chosen tasks of the visit were retried after the end of the execution. If so, later phases do not run again. */
  isRetried = false;
  /** Whether the last round of the visit is one of chosen tasks, which opened after the end of the execution. */
  isChosenRound = false;
  /** Whether the visit was entered by the `onError` of another phase. */
  readonly repair: boolean;
  readonly firstSeq: number;
  lastSeq = 0;
  /**
   * While the visit drains: open children that were not asked to stop yet. This is not part of the state: after a restart they
   * are asked again.
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

  /** The handler whose failures exceed its tolerance. */
  get exceeding(): HandlerState | undefined {
    return this.handlers.find((handler) => handler.exceedsTolerance);
  }

  /** The number of tasks that a retry of chosen tasks leaves out. */
  get leftOut(): number {
    return this.handlers.reduce((sum, { tasks }) => sum + tasks.leftOut.size, 0);
  }

  /** Whether every handler has all of its tasks, each with an outcome, and failures are within the tolerance. */
  get isComplete(): boolean {
    if (this.exceeding !== undefined || this.leftOut > 0) return false;
    return this.handlers.every(({ enumeration }) => !enumeration.failed);
  }

  /** Whether a task or an enumeration of it has failed for good. */
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
  /** The hash of the definition with which the execution was created. */
  readonly hash: string;
  /** The plan of the definition that the execution has now. */
  plan: Plan;
  /** The definition that the execution was moved to last, as JSON text; null if it was not moved. */
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
  /** The status as the state machine uses it: a clean-up runs like any other phase. `shownStatus` distinguishes it. */
  status: Exclude<ExecutionStatus, "cleaning"> = "running";
  /** How the execution ends after its clean-up; null until the clean-up begins. */
  ending: Ending | null = null;
  output: string | null = null;
  error: ExecutionError | null = null;
  round = 1;
  /**
   * The sequence number of the first event whose work is repeated in this round. It is not part of the state: the commit of the
   * retry uses it.
   */
  redoneFrom = 0;
  /** Broadcasts that had failed for good when the last retry began. */
  undeliveredAtRetry: readonly { readonly seq: number; readonly task: number }[] = [];
  current: Visit | null = null;
  /** Set while a round of chosen tasks runs in an execution that had failed or was cancelled. */
  formerEnd: FormerEnd | null = null;
  /** The visit that failed, while phases reached by its onError run. */
  origin: Visit | null = null;
  /**
   * The index of the phase that starts next; -1 if there is none. It waits while the execution is paused, and for `startAt`.
   */
  due = -1;
  dueRepair = false;
  visited: VisitSummary[] = [];
  /** Visits that have ended and whose tasks still matter: they may be compensated, or not all of them are done. */
  kept: Visit[] = [];
  readonly visitCounts = new Map<string, number>();
  readonly signals = new SparseMap<string, Signal[]>();
  /** Updates that a wait has taken and that are not answered: names by id. */
  readonly unanswered = new SparseMap<string, string>();
  /** Values that the code has published, by key, in the order in which they were published last. */
  readonly published = new SparseMap<string, Json>();
  signalCount = 0;
  signalBytes = 0;
  readonly timers = new SparseMap<string, Timer>();
  /** Post-operations that are still to be performed, by id, oldest first. */
  readonly postops = new SparseMap<string, OwedOp>();
  /** Broadcasts that failed for good, by id. */
  readonly undelivered = new SparseMap<string, Undelivered>();
  /** The state of each started command, by its step. */
  readonly commands = new SparseMap<number, CommandState>();
  /** Parts of results that later commands refer to, as JSON texts, by the text of the reference. */
  readonly referred = new SparseMap<string, string>();
  /** The sequence numbers of events by the ids of the messages that caused them. A message is applied once. */
  readonly applied = new SparseMap<string, number>();
  /** The answers to retries of chosen tasks, by the ids of the messages. */
  readonly retriedTasks = new SparseMap<string, RetriedTasks>();
  paused: { by: string; reason: string | null; at: number } | null = null;
  cancelling: { by: string; reason: string | null; force?: true } | null = null;
  /** The state of a gate; null for any other execution. */
  gate: GateState | null = null;
  /** The number of the event that compacted a gate's journal last; 0 if there is none. */
  carriedAt = 0;
  /** The gate that is notified when the execution has ended. */
  notifies: string | null = null;
  /** The place of the execution among those of its id; null for the first one. */
  succession: Omit<Succession, "seen"> | null = null;
  /** The input of the execution that continues this one, as JSON text; null if the code has not asked for that. */
  continuing: string | null = null;
  /** The cancel that the execution which continues this one begins with; null if there is none. */
  nextCancelled: (Continuing["cancel"] & {}) | null = null;
  /** The execution that continues this one; null if there is none. */
  continuedAs: string | null = null;
  /** In the first execution of an id: the newest one; null if there is no other. */
  newest: Newest | null = null;
  /** When the newest execution of the id ended, if it is another one. The first one is kept as long as that one. */
  newestEndedAt: number | null = null;

  constructor(id: string, plan: Plan) {
    this.id = id;
    this.hash = plan.hash;
    this.plan = plan;
  }

  /** The status that others see. */
  get shownStatus(): ExecutionStatus {
    const isCleaning = this.ending !== null && this.status !== "paused" && !this.ended;
    return isCleaning ? "cleaning" : this.status;
  }

  /** Whether a phase of the execution has started. */
  get hasBegun(): boolean {
    return this.visitCounts.size > 0;
  }

  /** The id that users know: that of the first of the executions that follow one another. */
  get first(): string {
    return this.succession?.first ?? this.id;
  }

  /** The execution that follows this one, as far as this one knows; null if there is none. */
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

  /** The handler of the current visit that a message is about; undefined if the message is about another visit. */
  handlerAt(place: { phase: string; visit: number; handler: string }): HandlerState | undefined {
    const { current } = this;
    if (current === null || current.plan.name !== place.phase || current.visit !== place.visit)
      return undefined;
    return current.handler(place.handler);
  }

  /** The visit with this name and number that is kept after its end. */
  keptVisit(phase: string, visit: number): Visit | undefined {
    return this.kept.find((one) => one.plan.name === phase && one.visit === visit);
  }

  /** The current visit or an ended one with failed tasks, by its place; if no number is given, the last one of its phase. */
  visitAt({ phase, visit }: { readonly phase: string; readonly visit?: number }): Visit | undefined {
    const all = this.current === null ? this.kept : [this.current, ...this.kept];
    const found = all.filter((one) => one.plan.name === phase);
    if (visit !== undefined) return found.find((one) => one.visit === visit);
    return found.reduce<Visit | undefined>(
      (last, one) => (last === undefined || one.visit > last.visit ? one : last),
      undefined,
    );
  }

  /** The visit that a retry reopens: the last one, or the one that failed if the last one was reached by its onError. */
  get visitToReopen(): Visit | null {
    const { current, origin } = this;
    if (origin === null || current === null) return current;
    const isRepair = current.repair || (current.status === "done" && this.status === "failed");
    return isRepair ? origin : current;
  }

  /**
   * The phases that do not run again if tasks of a visit are retried: those that were visited after it before the execution ended.
   * `returns` is not one of them.
   */
  phasesSkippedBy({ firstSeq }: Visit): string[] {
    if (!this.ended && !this.isChosenRound) return [];
    const after = this.visited.filter((one) => one.firstSeq > firstSeq && one.phase !== RETURNS);
    return [...new Set(after.map(({ phase }) => phase))];
  }

  /** Whether a round of chosen tasks runs, which opened after the end of the execution. */
  get isChosenRound(): boolean {
    return this.current?.isChosenRound === true;
  }

  currentVisit(): Visit {
    assert(this.current !== null, "an execution that handles a phase's event or message has a current visit");
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
