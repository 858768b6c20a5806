/** Collects changes of many tasks of one handler, and emits them in as few events as possible, each small enough for a journal row. */
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

/** The settlements that are not emitted yet, as the columns of their event. */
type SettledColumns = ReturnType<typeof noSettled>;

function noSettled() {
  return {
    tasks: [] as number[],
    attempts: [] as number[],
    statuses: [] as SettledStatus[],
    reasons: [] as (string | null)[],
    workers: [] as string[],
    ms: [] as number[],
    payloads: [] as string[],
  };
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
  /** The highest task with changes to emit; -1 if there is none. */
  #highest = -1;
  /** The tasks with changes to emit. It is made at the first question about a task that is not above `#highest`; null before. */
  #held: Set<number> | null = null;
  #settled: SettledColumns | null = null;
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
    if (task > this.#highest) return false;
    this.#held ??= this.#tasks();
    return this.#held.has(task);
  }

  /** Settles the task of a receipt. */
  settleReceipt(receipt: Receipt, status: SettledStatus, reason: string | null, payload: string): void {
    this.#settle(receipt, { status, reason, payload });
  }

  settle(settlement: Settlement): void {
    this.#settle(settlement, settlement);
  }

  #settle(
    { task, attempt, worker, ms }: Pick<Settlement, "task" | "attempt" | "worker" | "ms">,
    { status, reason, payload }: Pick<Settlement, "status" | "reason" | "payload">,
  ): void {
    closeRun(this.#step, this.#handler, task, "ended");
    if (this.#handler.progress.tasks.size > 0) closeWaits(this.#step, this.#handler, task);
    if (this.#handler.taskChildren.size > 0) stopTaskChildren(this.#step, this.#handler, task);
    this.#hold(task, payload.length);
    this.#settled ??= noSettled();
    const settled = this.#settled;
    settled.tasks.push(task);
    settled.attempts.push(attempt);
    settled.statuses.push(status);
    settled.reasons.push(reason);
    settled.workers.push(worker);
    settled.ms.push(ms);
    settled.payloads.push(payload);
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
    if (this.#highest === -1) return;
    const step = this.#step;
    const at = step.execution.currentVisit().place(this.#handler.plan.name);
    const retries = this.#retries;
    const settled = this.#settled;
    const late = this.#late;
    const waits = this.#waits;
    if (waits.length > 0) this.#waits = [];
    if (retries.length > 0) this.#retries = [];
    this.#settled = null;
    if (late.length > 0) this.#late = [];
    this.#highest = -1;
    this.#held = null;
    this.#chars = 0;
    if (
      (settled !== null || retries.length + waits.length > 0) &&
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
    if (settled !== null) step.emit({ kind: "tasks.settled", ...at, ...settled });
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

  #hold(task: number, chars: number): void {
    if (
      (this.#settled?.tasks.length ?? 0) + this.#retries.length + this.#waits.length >= LIMITS.rowItems ||
      this.#chars + chars > LIMITS.rowBytes
    )
      this.flush();
    this.#note(task);
    this.#chars += chars;
  }

  #note(task: number): void {
    if (task > this.#highest) this.#highest = task;
    this.#held?.add(task);
  }

  /** Collects the tasks with changes to emit. */
  #tasks(): Set<number> {
    const tasks = new Set(this.#settled?.tasks);
    for (const list of [this.#retries, this.#waits, this.#late]) for (const { task } of list) tasks.add(task);
    return tasks;
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
