/**
 * The store port: the one durable truth. Adapters: memory, sqlite, (postgres). An engine node writes only by
 * `commit`, which is all or nothing per partition and refused if the fence does not hold; everything else reads,
 * or puts content that is named by its own hash.
 *
 * A commit ends in a verdict: `ok` (durable), `fenced` (this owner is stale: nothing was written), or it throws
 * `StoreFault`: outcome unknown unless the fault says that nothing was written.
 */
import type { Entry } from "../kernel/journal-entry.ts";

/** Who writes: a stale owner's writes are refused. */
export interface Fence {
  /** Changes when a database is restored from a copy: voids all leases and tokens. */
  readonly generation: string;
  /** Changes each time a store is opened (embedded) or a partition taken (cluster). */
  readonly epoch: number;
}

export interface StoreInfo {
  readonly fence: Fence;
  /** The newest epoch that ended without a clean close; executions last written in it or before may have open leases. */
  readonly uncleanEpoch: number;
  /** Secret key for attempt tokens, kept in the store. */
  readonly key: string;
  readonly partitions: number;
}

/** What an execution needs from its owner. */
export type Want = "work" | "time" | "nothing";

/** The small row of an execution: what lists show. Changed on status or phase only. */
export interface Head {
  readonly id: string;
  readonly partition: number;
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  readonly status: string;
  readonly phase: string | null;
  /** `work`: has something to dispatch or to drain; `time`: waits for timers or signals only; `nothing`: is over. */
  readonly want: Want;
  readonly priority: number;
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly error: string | null;
}

/** A head as read: `order` is the age order given at creation, unique in the store. */
export interface StoredHead extends Head {
  readonly order: number;
}

export interface StoredTimer {
  readonly execution: string;
  readonly timer: string;
  readonly due: number;
}

export interface Snapshot {
  /** Sequence number of the last event folded in. */
  readonly seq: number;
  readonly foldVersion: number;
  /** The journal's chain hash at `seq`; if it differs on load, the snapshot is ignored. */
  readonly chain: string;
  readonly body: string;
}

/** Everything one execution's step writes. */
export interface ExecutionWrite {
  readonly execution: string;
  /** True: the execution is created; the write is refused as `exists` if the id is taken. */
  readonly create: boolean;
  /** Sequence number of the last event before this write: must be the journal's end, else the write is fenced. */
  readonly after: number;
  readonly entries: readonly Entry[];
  /** The chain hash after the last entry. */
  readonly chain: string;
  readonly head: Head | null;
  readonly timersSet: readonly { readonly timer: string; readonly due: number }[];
  readonly timersCleared: readonly string[];
  /** How far pages were opened for leases: `<phase>.<visit>.<handler>` -> tasks. Marks not named here stay. */
  readonly opened: Readonly<Record<string, number>> | null;
  readonly snapshot: Snapshot | null;
}

export interface Commit {
  readonly fence: Fence;
  readonly writes: readonly ExecutionWrite[];
}

/** `exists`: a create found its id taken; only that write was left out. */
export type CommitVerdict =
  | { readonly kind: "ok"; readonly exists: readonly string[] }
  | { readonly kind: "fenced"; readonly why: string };

/** An execution as loaded: the latest valid snapshot, if any, and the rows after it. */
export interface LoadedExecution {
  readonly head: StoredHead;
  readonly snapshot: Snapshot | null;
  readonly entries: readonly Entry[];
  /** Chain hash at the end of the journal. */
  readonly chain: string;
  readonly opened: Readonly<Record<string, number>>;
  /** The epoch of the last write. */
  readonly epoch: number;
}

export interface JournalRange {
  readonly execution: string;
  /** First sequence number wanted; a row that contains it is included whole. */
  readonly from: number;
  /** Last sequence number wanted. */
  readonly to?: number;
  /** Stops after this many rows, or when about this many characters have been read. */
  readonly rowsMax?: number;
  readonly charsMax?: number;
}

export interface HeadFilter {
  readonly project?: string;
  readonly workflow?: string;
  readonly status?: string;
}

/** The world failed. Only drivers catch it. */
export class StoreFault extends Error {
  override name = "StoreFault";
  /** Worth trying again. */
  readonly retryable: boolean;
  /** True: nothing was written. False: the outcome is unknown. */
  readonly nothingWritten: boolean;
  constructor(message: string, options: { retryable: boolean; nothingWritten: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
    this.nothingWritten = options.nothingWritten;
  }
}

export interface Store {
  /** Opens, migrates, takes ownership. The epoch is new and durable when this resolves. */
  open(): Promise<StoreInfo>;
  /** The fenced, durable write. */
  commit(commit: Commit): Promise<CommitVerdict>;
  /** Executions by id, in the given order; null for what does not exist. A snapshot of another `foldVersion` is ignored. */
  load(
    ids: readonly string[],
    options?: { readonly foldVersion?: number },
  ): Promise<readonly (LoadedExecution | null)[]>;
  /** Rows of a journal, in order. */
  readJournal(range: JournalRange): Promise<readonly Entry[]>;
  /** Heads with `want: work`, oldest first per (project, workflow) pair: at most `each` of every pair, with order > after. */
  scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
  }): Promise<readonly StoredHead[]>;
  /** Timers due up to `until`, soonest first. */
  scanTimers(options: { until: number; max: number }): Promise<readonly StoredTimer[]>;
  /** Heads by filter, newest first, order < before. */
  listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]>;
  /** Definitions by hash: content-addressed, so written without a fence. The newest of a name is the last one put. */
  putDefinition(name: string, hash: string, body: string): Promise<void>;
  getDefinition(by: { hash: string } | { newestOf: string }): Promise<{ hash: string; body: string } | null>;
  /** Releases ownership. `clean`: no lease is open, so nothing is suspect after it. */
  close(options: { clean: boolean }): Promise<void>;
}

/** The key of a (project, workflow) pair in `scanWork`. */
export function workKey(project: string, workflow: string): string {
  return `${project}/${workflow}`;
}
