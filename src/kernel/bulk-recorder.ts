/** Gathers what happened to many tasks of one handler into as few events as fit the rows. */
import { LIMITS } from "./definition.ts";
import type { AttemptStatus, Place, RetryReason, SettledStatus } from "./event.ts";
import type { HandlerState } from "./execution.ts";
import type { Receipt } from "./message.ts";
import type { Step } from "./step.ts";

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

interface Late {
  readonly task: number;
  readonly attempt: number;
  readonly status: AttemptStatus;
  readonly accepted: boolean;
}

export class BulkRecorder {
  readonly #step: Step;
  readonly #handler: HandlerState;
  readonly #held = new Set<number>();
  #settled: Settlement[] = [];
  #retries: Retry[] = [];
  #late: Late[] = [];
  #chars = 0;

  constructor(step: Step, handler: HandlerState) {
    this.#step = step;
    this.#handler = handler;
  }

  /** True if something about the task waits to be emitted. */
  holds(task: number): boolean {
    return this.#held.has(task);
  }

  /** Notes how the task of a receipt ends. */
  settleReceipt(receipt: Receipt, status: SettledStatus, reason: string | null, payload: string): void {
    const { task, attempt, worker, ms } = receipt;
    this.settle({ task, attempt, status, reason, worker, ms, payload });
  }

  settle(settlement: Settlement): void {
    this.#hold(settlement.task, settlement.payload.length);
    this.#settled.push(settlement);
  }

  retry(retry: Retry): void {
    this.#hold(retry.task, retry.error.length);
    this.#retries.push(retry);
  }

  late(late: Late): void {
    this.#held.add(late.task);
    this.#late.push(late);
  }

  /** Emits what was gathered. */
  flush(): void {
    const step = this.#step;
    const at = step.execution.currentVisit().place(this.#handler.plan.name);
    const retries = this.#retries;
    const settled = this.#settled;
    const late = this.#late;
    this.#retries = [];
    this.#settled = [];
    this.#late = [];
    this.#held.clear();
    this.#chars = 0;
    if (retries.length + settled.length > 0 && this.#handler.impliesTask && !this.#handler.sealed) {
      step.emit({ kind: "handler.enumerated", ...at, total: 1 });
    }
    if (late.length > 0) {
      step.emit({ kind: "tasks.late", ...at, ...columns(late) });
    }
    if (retries.length > 0) {
      const { tasks, attempts } = columns(retries);
      step.emit({
        kind: "tasks.retrying",
        ...at,
        tasks,
        attempts,
        reasons: retries.map((r) => r.reason),
        untils: retries.map((r) => r.until),
        errors: retries.map((r) => r.error),
      });
    }
    if (settled.length > 0) this.#emitSettled(at, settled);
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
      this.#settled.length + this.#retries.length >= LIMITS.rowItems ||
      this.#chars + chars > LIMITS.rowBytes
    )
      this.flush();
    this.#held.add(task);
    this.#chars += chars;
  }
}

function columns(late: readonly Late[]): {
  tasks: number[];
  attempts: number[];
  statuses: AttemptStatus[];
  accepted: boolean[];
};
function columns(items: readonly { task: number; attempt: number }[]): {
  tasks: number[];
  attempts: number[];
};
function columns(items: readonly (Partial<Late> & { task: number; attempt: number })[]): object {
  return {
    tasks: items.map((item) => item.task),
    attempts: items.map((item) => item.attempt),
    statuses: items.map((item) => item.status),
    accepted: items.map((item) => item.accepted),
  };
}
