/** Writes for store tests: small, valid, with every part to be overridden. */
import type { Entry } from "../../src/kernel/journal-entry.ts";
import type { ExecutionWrite, Head, Store, StoreInfo } from "../../src/store/store.ts";

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

/** Commits, and expects it to be accepted. */
export async function commit(store: Store, info: StoreInfo, writes: readonly ExecutionWrite[]) {
  const verdict = await store.commit({ fence: info.fence, writes });
  if (verdict.kind !== "ok") throw new Error(`fenced: ${verdict.why}`);
  return verdict.exists;
}
