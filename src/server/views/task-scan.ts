/** Folds a journal into the task indexes of all visits of an execution: a second, smaller fold beside the kernel's. */
import { planOfText } from "../../kernel/apply-moved.ts";
import { type HandlerPlan, NEXT, type Plan } from "../../kernel/definition/plan.ts";
import type { Event, Place, Recorded, TasksEnumerated, TasksSettled } from "../../kernel/event.ts";
import { HandlerState } from "../../kernel/execution.ts";
import { Dependencies } from "../../kernel/tasks/dependencies.ts";
import { IdentitySet } from "../../kernel/tasks/identity-set.ts";
import { TaskTable } from "../../kernel/tasks/task-table.ts";
import { unwrap } from "../../std/rejection.ts";
import { TaskBars } from "./task-bars.ts";
import { TaskIndex } from "./task-index.ts";

/** A handler of a visit, and its tasks. */
export interface IndexedHandler extends Place {
  readonly index: TaskIndex;
  readonly bars: TaskBars;
  readonly startedAt: number;
  /** When the handler ended; null while it is open. */
  endedAt: number | null;
}

interface ScannedHandler extends IndexedHandler {
  /** Commands that have a result but are not done, each with the number of its attempt. */
  readonly receipted: Map<number, number>;
  /** Tasks that wait for others; null if the definition has no `after`. */
  readonly waits: WaitingTasks | null;
}

export class TaskScan {
  #plan: Plan;
  readonly #handlers = new Map<string, ScannedHandler>();
  /** The number of the last event of the scan. */
  seq = 0;
  /** The times of the first and the last event of the scan. */
  startedAt = 0;
  lastAt = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  /** Handlers of all visits, in the order in which they started. */
  get handlers(): IterableIterator<IndexedHandler> {
    return this.#handlers.values();
  }

  get bytes(): number {
    let sum = 0;
    for (const { index } of this.#handlers.values()) sum += index.bytes;
    return sum;
  }

  /** Applies the next event of the journal. */
  apply({ seq, at, event }: Recorded): void {
    if (seq <= this.seq) return;
    this.seq = seq;
    this.lastAt = at;
    if (seq === 1) this.startedAt = at;
    if (event.kind === "moved") this.#plan = unwrap(planOfText(event.definition));
    else if (event.kind === "handler.started") this.#start(event, at);
    // If a clean-up is retried, its visit starts again.
    else if (event.kind === "retried" || event.kind === "phase.started") {
      for (const scanned of this.#handlers.values()) {
        if (scanned.phase !== event.phase || scanned.visit !== event.visit) continue;
        scanned.index.reopen();
        scanned.waits?.reopen();
        scanned.endedAt = null;
        for (const [task, attempt] of scanned.receipted)
          scanned.index.note(task, { state: "waiting", attempt, at: at - this.startedAt });
      }
    } else if ("handler" in event) this.#fold(event, seq, at);
  }

  #start({ phase, visit, handler }: Place, at: number): void {
    const plan = this.#planOf(phase, handler);
    const isOne = plan === undefined || plan.waits || new HandlerState(plan).impliesTask;
    const origin = this.#plan.byName.get(phase)?.compensates ?? null;
    const compensated =
      origin === null ? undefined : this.#handlers.get(keyOf({ phase: origin, visit, handler }));
    const index =
      compensated?.index.compensating() ??
      new TaskIndex(plan?.waits === true ? "waiting" : "pending", isOne ? 1 : 0);
    const place = { phase, visit, handler };
    const waits = plan?.definition.after === undefined ? null : new WaitingTasks(index);
    const receipted = new Map<number, number>();
    const bars = new TaskBars();
    if (plan?.mode === "sleep") bars.wait("sleep", undefined, at);
    if (plan?.mode === "waitFor") bars.wait("signal", plan.definition.waitFor, at);
    this.#handlers.set(keyOf(place), {
      ...place,
      index,
      bars,
      startedAt: at,
      endedAt: null,
      receipted,
      waits,
    });
  }

  #fold(event: Extract<Event, Place>, seq: number, at: number): void {
    const scanned = this.#handlers.get(keyOf(event));
    if (scanned === undefined) return;
    const { index } = scanned;
    const since = at - this.startedAt;
    remember(index, event, seq);
    scanned.bars.apply(event, at);
    switch (event.kind) {
      case "tasks.enumerated":
        index.addPage(event.from, event.count, seq);
        scanned.waits?.add(event);
        return;
      case "handler.enumerated":
        return index.setTotal(event.total);
      case "handler.finished":
        scanned.endedAt = at;
        return index.close();
      case "handler.retrying":
      case "handler.lost":
        // A handler is assumed to have a single task until its code enumerates tasks.
        if (index.total === 1 && !index.isPaged) index.setTotal(0);
        return;
      case "task.step":
        if (event.reason !== "done") index.release(event.task);
        return;
      case "task.waiting":
        return index.note(event.task, { state: "waiting", attempt: event.attempt, at: since });
      case "child.started":
        index.hasChildren = true;
        return index.note(event.task, { state: "running", attempt: event.attempt, at: since });
      case "command.receipted": {
        const { task, attempt, worker } = event;
        // The post-operations of a result run before the task is done.
        if (event.result === null || this.#planOf(event.phase, event.handler)?.command?.holds !== true)
          return;
        scanned.receipted.set(task, attempt);
        return index.note(task, { state: "waiting", attempt, worker, at: since });
      }
      default:
        if (event.kind === "tasks.retried") {
          scanned.endedAt = null;
          index.retry(event.tasks);
          scanned.waits?.reopen(event.tasks);
          return;
        }
        if ("tasks" in event) foldTasks(index, event, { seq, at: since });
        if (event.kind === "tasks.settled") scanned.waits?.settle(event);
        if (event.kind === "tasks.settled" && scanned.receipted.size > 0)
          event.tasks.forEach((task, i) => event.statuses[i] === "done" && scanned.receipted.delete(task));
    }
  }

  #planOf(phase: string, handler: string): HandlerPlan | undefined {
    const plan = this.#plan.byName.get(phase);
    return handler === NEXT
      ? (plan?.decision ?? undefined)
      : plan?.handlers.find(({ name }) => name === handler);
  }
}

/** Notes an event in the histories of its tasks. Outcomes are noted by the index itself. */
function remember(index: TaskIndex, event: Extract<Event, Place>, seq: number): void {
  if (event.kind === "tasks.settled" || event.kind === "tasks.enumerated" || event.kind === "tasks.accepted")
    return;
  if ("tasks" in event) for (const task of event.tasks) index.remember(task, seq);
  else if ("task" in event) index.remember(event.task, seq);
}

type TaskLists = Exclude<
  Extract<Event, { readonly tasks: readonly number[] }>,
  { kind: "tasks.enumerated" | "tasks.retried" }
>;

function foldTasks(index: TaskIndex, event: TaskLists, { seq, at }: { seq: number; at: number }): void {
  if (event.kind === "tasks.settled") return index.settle(event, { seq, at });
  for (let i = 0; i < event.tasks.length; i++) {
    const task = event.tasks[i] as number;
    const attempt = event.attempts[i] as number;
    switch (event.kind) {
      case "tasks.started":
        index.note(task, { state: "running", attempt, at, worker: event.workers[i] as string });
        break;
      case "tasks.lost":
        index.note(task, { state: "pending", attempt, worker: event.workers[i] as string, reason: "lost" });
        break;
      case "tasks.waiting":
        index.note(task, { state: "waiting", attempt, at });
        break;
      case "tasks.retrying": {
        const reason = event.reasons[i] as string;
        const state = reason === "released" ? "pending" : "retrying";
        index.note(task, { state, attempt, at, reason, seq, place: i });
        break;
      }
      case "tasks.accepted":
      case "tasks.late":
        break;
    }
  }
}

function keyOf({ phase, visit, handler }: Place): string {
  return `${phase}.${visit}.${handler}`;
}

/** The tasks of one handler that wait for other tasks. It uses the tables of the kernel. */
class WaitingTasks {
  readonly #index: TaskIndex;
  readonly #tasks = new TaskTable();
  readonly #known = new IdentitySet(true);
  readonly #dependencies = new Dependencies();

  constructor(index: TaskIndex) {
    this.#index = index;
  }

  add({ from, count, identities, afters }: TasksEnumerated): void {
    const page = { from, identities: identities ?? [], afters: afters ?? [] };
    this.#dependencies.add(page, this.#tasks, this.#known);
    this.#mark(from, from + count);
  }

  settle({ tasks, attempts, statuses }: TasksSettled): void {
    tasks.forEach((task, i) => {
      const status = statuses[i] ?? "done";
      this.#tasks.settle(task, attempts[i] ?? 0, status);
      if (status !== "done") return this.#dependencies.failed(task);
      const waiters = this.#dependencies.waitersOf(task).filter((waiter) => this.#isBlocked(waiter));
      this.#dependencies.done(task, this.#tasks, 1);
      for (const waiter of waiters) if (!this.#isBlocked(waiter)) this.#index.release(waiter);
    });
  }

  /** Makes tasks pending again: those of a retry, or all that are not done. */
  reopen(tasks?: readonly number[]): void {
    const { total } = this.#index;
    if (tasks === undefined) this.#tasks.reopen(total);
    else for (const task of tasks) this.#tasks.retry(task, 1);
    this.#dependencies.restore(this.#tasks, total);
    this.#mark(0, total);
  }

  #isBlocked(task: number): boolean {
    return this.#dependencies.blocked.has(task);
  }

  #mark(from: number, to: number): void {
    for (let task = from; task < to; task++)
      if (this.#isBlocked(task)) this.#index.note(task, { state: "waiting", attempt: 0 });
  }
}
