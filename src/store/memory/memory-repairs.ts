/** Repairs over the rows in memory. Nothing is derived here but by reading, so tables agree with themselves. */
import { DAMAGED, type Derived, type MailboxMessage } from "../store.ts";
import type { MemoryRecords } from "./memory-records.ts";
import type { ExecutionRow } from "./memory-rows.ts";

export class MemoryRepairs {
  readonly #executions: Map<string, ExecutionRow>;
  readonly #records: MemoryRecords;

  constructor(executions: Map<string, ExecutionRow>, records: MemoryRecords) {
    this.#executions = executions;
    this.#records = records;
  }

  putDerived({ head, timers, opened, end }: Derived): boolean {
    const row = this.#executions.get(head.id);
    if (row === undefined || (end !== null && row.end !== end)) return false;
    const kept = new Map(row.timers);
    if (timers !== null) {
      for (const timer of row.timers.keys()) if (!timer.startsWith("~")) kept.delete(timer);
      for (const { timer, due } of timers) kept.set(timer, due);
    }
    const put = { head: { ...head, order: row.head.order }, timers: kept, opened: opened ?? row.opened };
    this.#executions.set(head.id, { ...row, ...put });
    return true;
  }

  timersOf(execution: string): { timer: string; due: number }[] {
    const timers = [...(this.#executions.get(execution)?.timers ?? [])];
    return timers.map(([timer, due]) => ({ timer, due })).sort((a, b) => (a.timer < b.timer ? -1 : 1));
  }

  dropDamaged(execution: string, letter: MailboxMessage | null): boolean {
    if (this.#executions.get(execution)?.head.status !== DAMAGED) return false;
    this.#executions.delete(execution);
    this.#records.purge(execution);
    this.#records.dropLettersTo(execution);
    if (letter !== null) this.#records.post([letter]);
    return true;
  }
}
