/** Reads stored logs in bounded pieces, line by line. */
import type { LogEntry } from "../sdk/handle.ts";
import type { ExecutionStore } from "../store/store.ts";

const ROWS = 64;

/** The lines of an execution that were stored after `after`, in the order of storing. */
export async function* readLines(
  store: ExecutionStore,
  execution: string,
  after: number,
): AsyncGenerator<LogEntry> {
  for (let last = after; ; ) {
    const rows = await store.readLogs({ execution, after: last, rowsMax: ROWS });
    if (rows.length === 0) return;
    for (const { order, phase, visit, handler, task, attempt, number, worker, lines } of rows) {
      const place = { phase, visit, handler, task, attempt: number, attemptId: attempt, worker };
      last = order;
      for (const { at, level, text, run } of lines) {
        const line = { order, at, ...place, level, text };
        yield run === undefined ? line : { ...line, run };
      }
    }
  }
}
