/** Caches the task indexes of a few executions and extends them as their journals grow. */
import type { Plan } from "../../kernel/definition/plan.ts";
import { decodeColumns, type Entry } from "../../kernel/journal/journal-entry.ts";
import type { ExecutionStore } from "../../store/store.ts";
import { TaskScan } from "./task-scan.ts";

interface Kept {
  readonly scan: TaskScan;
  /** Resolves when no request is reading journal rows into the scan. */
  idle: Promise<void>;
}

/** The most memory of all indexes together. The newest index is kept even if it exceeds this limit. */
const BYTES_MAX = 134_217_728;
const KEPT_MAX = 32;
const ROWS = 64;
const CHARS = 1_048_576;

export class TaskIndexes {
  readonly #store: ExecutionStore;
  readonly #kept = new Map<string, Kept>();

  constructor(store: ExecutionStore) {
    this.#store = store;
  }

  /**
   * Scans the tasks of an execution up to an event. `isPast`: later events exist. `createdAt` tells executions with a reused id
   * apart.
   */
  async scan(
    execution: string,
    plan: Plan,
    at: { seq: number; isPast: boolean; createdAt?: number },
  ): Promise<TaskScan> {
    const key = `${execution} ${at.createdAt ?? 0}${at.isPast ? " past" : ""}`;
    let kept = this.#kept.get(key);
    if (kept === undefined || (at.isPast && kept.scan.seq > at.seq))
      kept = { scan: new TaskScan(plan), idle: Promise.resolve() };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    const { scan } = kept;
    const read = kept.idle.then(() => this.#extend(scan, execution, at.seq));
    // If this read fails, the next read continues from where this one stopped.
    kept.idle = read.catch(() => {});
    await read;
    this.#trim();
    return scan;
  }

  async #extend(scan: TaskScan, execution: string, to: number): Promise<void> {
    while (scan.seq < to) {
      const entries: readonly Entry[] = await this.#store.readJournal({
        execution,
        from: scan.seq + 1,
        to,
        rowsMax: ROWS,
        charsMax: CHARS,
      });
      if (entries.length === 0) return;
      for (const entry of entries)
        for (const recorded of decodeColumns(entry)) if (recorded.seq <= to) scan.apply(recorded);
    }
  }

  #trim(): void {
    let bytes = 0;
    for (const { scan } of this.#kept.values()) bytes += scan.bytes;
    for (const [key, { scan }] of this.#kept) {
      if (this.#kept.size <= 1 || (bytes <= BYTES_MAX && this.#kept.size <= KEPT_MAX)) return;
      this.#kept.delete(key);
      bytes -= scan.bytes;
    }
  }
}
