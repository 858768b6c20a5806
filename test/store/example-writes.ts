/** Writes for store tests: small, valid, with every part to be overridden. */
import type { Entry } from "../../src/kernel/journal/journal-entry.ts";
import {
  type ExecutionWrite,
  fenceOf,
  type Head,
  type LogRow,
  type Store,
  type StoreInfo,
} from "../../src/store/store.ts";

export function headOf(id: string, parts: Partial<Head> = {}): Head {
  return {
    id,
    partition: 0,
    workflow: "orders",
    hash: "a".repeat(64),
    project: "default",
    status: "running",
    phase: "first",
    want: "work",
    priority: 0,
    createdAt: 1_700_000_000_000,
    finishedAt: null,
    tags: {},
    error: null,
    ...parts,
  };
}

export function entry(seq: number, body = `{"v":1,"seq":${seq}}`, count = 1): Entry {
  return { seq, count, at: 1_700_000_000_000 + seq, body };
}

/** A write of one row after `after`. */
export function step(execution: string, after: number, parts: Partial<ExecutionWrite> = {}): ExecutionWrite {
  return {
    execution,
    create: false,
    after,
    entries: [entry(after + 1)],
    chain: `chain-${execution}-${after + 1}`,
    head: null,
    timersSet: [],
    timersCleared: [],
    opened: null,
    snapshot: null,
    ...parts,
  };
}

/** A write that creates an execution with one row. */
export function start(execution: string, parts: Partial<ExecutionWrite> = {}): ExecutionWrite {
  return step(execution, 0, { create: true, head: headOf(execution), ...parts });
}

/** A head of an execution that has ended. */
export function endedHead(id: string, finishedAt: number, parts: Partial<Head> = {}): Head {
  return headOf(id, { status: "done", phase: null, want: "nothing", finishedAt, ...parts });
}

/** A log row with a line for each number. */
export function logRow(numbers: readonly number[], parts: Partial<LogRow> = {}): LogRow {
  return {
    attempt: "attempt-1",
    phase: "first",
    visit: 1,
    handler: "work",
    task: 0,
    number: 1,
    worker: "worker-1",
    lines: numbers.map((n) => ({ n, at: 1_700_000_000_000 + n, level: "info", text: `line ${n}` })),
    mayRepeat: false,
    ...parts,
  };
}

/** Commits, and expects it to be accepted. */
export async function commit(
  store: Store,
  info: StoreInfo,
  writes: readonly ExecutionWrite[],
  mailTaken?: readonly string[],
) {
  const taken = mailTaken === undefined ? {} : { mailTaken };
  const verdict = await store.commit({ fence: fenceOf(info), writes, ...taken });
  if (verdict.kind !== "ok") throw new Error(`fenced: ${verdict.why}`);
  if (verdict.fenced.length > 0) throw new Error(`fenced: partitions ${verdict.fenced.join(", ")}`);
  return verdict.exists;
}
