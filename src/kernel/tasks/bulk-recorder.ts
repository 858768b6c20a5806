/** Collects changes of many tasks of one handler, and emits them in as few events as possible, each small enough for a journal row. */
import { SparseSet } from "../../std/sparse.ts";
import { LIMITS } from "../definition/definition.ts";
import type { AttemptStatus, OpenWait, Place, RetryReason, SettledStatus } from "../event.ts";
import type { HandlerState } from "../execution.ts";
import type { Receipt } from "../message.ts";
import type { Step } from "../step.ts";
import { closeRun } from "./run-notices.ts";
import { stopTaskChildren } from "./task-children.ts";
import { closeWaits } from "./wait-timers.ts";

interface Settlement {
  readonly task: number;
  readonly attempt: number;
  readonly status: SettledStatus;
  readonly reason: string | null;
  readonly worker: string;
  readonly ms: number;
  readonly payload: string;
}

interface Retry {
  readonly task: number;
  readonly attempt: number;
  readonly reason: RetryReason;
  readonly until: number;
  readonly error: string;
}

interface Suspension {
  readonly task: number;
  readonly attempt: number;
  readonly waits: readonly OpenWait[];
}

/** A single sleep, or a single wait for one signal. Versions before 6 know only this form. */
interface SingleWait extends Pick<Suspension, "task" | "attempt"> {
  readonly name: string;
  /** The time at which a sleep ends; 0 if the task waits for a signal. */
  readonly due: number;
  readonly signal: string | null;
}

interface Late {
  readonly task: number;
  readonly attempt: number;
  readonly status: AttemptStatus;
  readonly accepted: boolean;
}

export class BulkRecorder {
  readonly #step: Step;
  readonly #handler: HandlerState;
  /** The first task with changes to emit; -1 if there is none. The next field has the others. */
  #first = -1;
  readonly #others = new SparseSet<number>();
  #settled: Settlement[] = [];
  #retries: Retry[] = [];
  #late: Late[] = [];
  #waits: Suspension[] = [];
  #chars = 0;

  constructor(step: Step, handler: HandlerState) {
    this.#step = step;
    this.#handler = handler;
  }

  /** Whether the recorder has a change of this task that is not emitted yet. */
  holds(task: number): boolean {
    return task === this.#first || this.#others.has(task);
  }

  /** Settles the task of a receipt. */
  settleReceipt(receipt: Receipt, status: SettledStatus, reason: string | null, payload: string): void {
    const { task, attempt, worker, ms } = receipt;
    this.settle({ task, attempt, status, reason, worker, ms, payload });
  }

  settle(settlement: Settlement): void {
    closeRun(this.#step, this.#handler, settlement.task, "ended");
    if (this.#handler.progress.tasks.size > 0) closeWaits(this.#step, this.#handler, settlement.task);
    if (this.#handler.taskChildren.size > 0) stopTaskChildren(this.#step, this.#handler, settlement.task);
    this.#hold(settlement.task, settlement.payload.length);
    this.#settled.push(settlement);
  }

  retry(retry: Retry): void {
    closeRun(this.#step, this.#handler, retry.task, "ended");
    this.#hold(retry.task, retry.error.length);
    this.#retries.push(retry);
  }

  wait(wait: Suspension): void {
    closeRun(this.#step, this.#handler, wait.task, "ended");
    this.#hold(wait.task, 0);
    this.#waits.push(wait);
  }

  late(late: Late): void {
    this.#note(late.task);
    this.#late.push(late);
  }

  /** Emits all collected changes. */
  flush(): void {
    if (this.#first === -1) return;
    const step = this.#step;
    const at = step.execution.currentVisit().place(this.#handler.plan.name);
    const retries = this.#retries;
    const settled = this.#settled;
    const late = this.#late;
    const waits = this.#waits;
    if (waits.length > 0) this.#waits = [];
    if (retries.length > 0) this.#retries = [];
    if (settled.length > 0) this.#settled = [];
    if (late.length > 0) this.#late = [];
    this.#first = -1;
    this.#others.clear();
    this.#chars = 0;
    if (
      retries.length + settled.length + waits.length > 0 &&
      this.#handler.impliesTask &&
      !this.#handler.sealed
    ) {
      step.emit({ kind: "handler.enumerated", ...at, total: 1 });
    }
    if (late.length > 0) {
      step.emit({
        kind: "tasks.late",
        ...at,
        ...columns(late),
        statuses: late.map((l) => l.status),
        accepted: late.map((l) => l.accepted),
      });
    }
    if (retries.length > 0) {
      step.emit({
        kind: "tasks.retrying",
        ...at,
        ...columns(retries),
        reasons: retries.map((r) => r.reason),
        untils: retries.map((r) => r.until),
        errors: retries.map((r) => r.error),
      });
    }
    if (waits.length > 0) this.#emitWaits(at, waits);
    if (settled.length > 0) this.#emitSettled(at, settled);
  }

  /**
   * Emits the waits of suspended tasks. Tasks with one plain wait share an event. A task with several waits, or with a wait of a form
   * that version 6 added, gets an event of its own.
   */
  #emitWaits(at: Place, suspended: readonly Suspension[]): void {
    const single: SingleWait[] = [];
    for (const { task, attempt, waits } of suspended) {
      const [wait] = waits;
      // If the wait was answered while its attempt ran, the task continues at once. The older form of the event cannot say that.
      const known = this.#handler.progress.tasks.get(task)?.named.get(wait?.name ?? "");
      if (waits.length === 1 && wait !== undefined && isPlain(wait) && known?.kind !== "step")
        single.push({
          task,
          attempt,
          name: wait.name,
          due: wait.due ?? 0,
          signal: wait.signals?.[0] ?? null,
        });
      else this.#step.emit({ kind: "task.waiting", ...at, task, attempt, waits });
    }
    if (single.length === 0) return;
    this.#step.emit({
      kind: "tasks.waiting",
      ...at,
      ...columns(single),
      names: single.map((w) => w.name),
      dues: single.map((w) => w.due),
      signals: single.map((w) => w.signal),
    });
  }

  #emitSettled(at: Place, settled: readonly Settlement[]): void {
    const n = settled.length;
    const tasks = new Array<number>(n);
    const attempts = new Array<number>(n);
    const statuses = new Array<SettledStatus>(n);
    const reasons = new Array<string | null>(n);
    const workers = new Array<string>(n);
    const ms = new Array<number>(n);
    const payloads = new Array<string>(n);
    for (let i = 0; i < n; i++) {
      const s = settled[i] as Settlement;
      tasks[i] = s.task;
      attempts[i] = s.attempt;
      statuses[i] = s.status;
      reasons[i] = s.reason;
      workers[i] = s.worker;
      ms[i] = s.ms;
      payloads[i] = s.payload;
    }
    this.#step.emit({
      kind: "tasks.settled",
      ...at,
      tasks,
      attempts,
      statuses,
      reasons,
      workers,
      ms,
      payloads,
    });
  }

  #hold(task: number, chars: number): void {
    if (
      this.#settled.length + this.#retries.length + this.#waits.length >= LIMITS.rowItems ||
      this.#chars + chars > LIMITS.rowBytes
    )
      this.flush();
    this.#note(task);
    this.#chars += chars;
  }

  #note(task: number): void {
    if (this.#first === -1) this.#first = task;
    else this.#others.add(task);
  }
}

/** Whether a wait has a form that versions before 6 know. */
function isPlain({ retry, match, any, child }: OpenWait): boolean {
  return retry === undefined && match === undefined && any === undefined && child === undefined;
}

/** Settles a single task. */
export function settleOne(step: Step, handler: HandlerState, settlement: Settlement): void {
  const recorder = new BulkRecorder(step, handler);
  recorder.settle(settlement);
  recorder.flush();
}

function columns(items: readonly { task: number; attempt: number }[]): {
  tasks: number[];
  attempts: number[];
} {
  return { tasks: items.map((item) => item.task), attempts: items.map((item) => item.attempt) };
}
