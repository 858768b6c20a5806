/**
 * The store port: the one durable truth. Adapters: memory, sqlite, postgres. Executions are in partitions
 * (partition-of.ts), and a partition has one owner at a time (cluster-store.ts; an embedded store has one partition,
 * which is its opener's). An engine node writes only by `commit`, which is all or nothing per partition and refused
 * where the fence does not hold; everything else reads, or puts content that is named by its own hash.
 *
 * A commit ends in a verdict: `ok` (durable, but for the partitions it names as fenced), `fenced` (this owner is
 * stale: nothing was written), or it throws `StoreFault`: outcome unknown unless the fault says that nothing was
 * written.
 */
import type { Damage } from "../kernel/journal/damage.ts";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import type { FoundOrders } from "./found-orders.ts";
import type { SearchWord } from "./search-terms.ts";

/** Who writes: a stale owner's writes are refused. */
export interface Fence {
  /** Changes when a database is restored from a copy: voids all leases and tokens. */
  readonly generation: string;
  /** Partition -> the epoch in which this owner has it. What is written to others is refused. */
  readonly epochs: Readonly<Record<number, number>>;
}

/** A partition that this owner has. */
export interface Ownership {
  readonly partition: number;
  /** Changes each time the store is opened (embedded) or the partition is taken (cluster). */
  readonly epoch: number;
  /** The newest epoch that ended without a clean release; executions last written in it or before may have open leases. */
  readonly uncleanEpoch: number;
  /**
   * When epochs ended that were not released cleanly, by the store's clock, in order. An epoch may be missing: then a later
   * one stands for it. Undefined: the store does not know.
   */
  readonly uncleanEnds?: readonly UncleanEnd[];
  /** All owners from this epoch on store what they give out of limits. Undefined: none does. */
  readonly limitsStoredFrom?: number;
}

/** The end of an epoch whose owner lost its lease or gave up. */
export interface UncleanEnd {
  readonly epoch: number;
  readonly at: number;
}

/** How many ends of epochs a store remembers for each partition. */
export const UNCLEAN_ENDS_MAX = 32;

/** The status of an execution whose stored data cannot be read. */
export const DAMAGED = "damaged";

export interface StoreInfo {
  /** What was found wrong when the store was opened, and did not keep it from opening. */
  readonly warnings?: readonly string[];
  /** At least so many transactions of an embedded store's log were complete and could not be read when it was opened. */
  readonly lostTransactions?: number;
  readonly generation: string;
  /** Secret key for attempt tokens, kept in the store. */
  readonly key: string;
  /** How many partitions there are; fixed when the store is made. */
  readonly partitions: number;
  /** What this owner has after opening: everything (embedded), or nothing yet (cluster). */
  readonly owned: readonly Ownership[];
}

/** What an execution needs from its owner. */
export type Want = "work" | "time" | "nothing";

/** The small row of an execution: what lists show. Changed on status or phase only. */
export interface Head {
  readonly id: string;
  /** Where the execution lives: `partitionOf(id, partitions)`. */
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

/**
 * A message to an execution: stored by the sender's commit, gone with the receiver's. It is in the partition of its
 * receiver, which may be any.
 */
export interface MailboxMessage {
  /** Unique, made by the sender. */
  readonly id: string;
  readonly to: string;
  /** The message, as JSON text. */
  readonly body: string;
}

/** A letter as read: `order` is the order in which letters were stored. */
export interface StoredMailboxMessage extends MailboxMessage {
  readonly order: number;
  /** Why its body cannot be read. */
  readonly damage?: string;
}

export interface LogLine {
  /** The number of the event that brought it, within its attempt, from 1. */
  readonly n: number;
  readonly at: number;
  /** debug, info, warn, error; progress; run (the life of a script's runs). */
  readonly level: string;
  readonly text: string;
  /** The script's run that wrote it. */
  readonly run?: string;
}

/** Lines of one attempt, stored as one row. `task` -1 is the enumeration. */
export interface LogRow {
  /** The attempt's id. */
  readonly attempt: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  /** The number of the attempt. */
  readonly number: number;
  readonly worker: string;
  readonly lines: readonly LogLine[];
  /** True: some of these lines may be stored already (their attempt was taken over); those are left out, by `n`. */
  readonly mayRepeat: boolean;
}

/** A log row as read; `order` grows in the order of storing. */
export interface StoredLogRow extends Omit<LogRow, "mayRepeat"> {
  readonly order: number;
}

/** Tasks that failed for good in one `tasks.settled` event. */
export interface DeadLetter {
  readonly seq: number;
  readonly tasks: readonly number[];
}

/** A dead letter as read; `order` grows in the order of storing. */
export interface StoredDeadLetter extends DeadLetter {
  readonly order: number;
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
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
  readonly letters?: readonly MailboxMessage[];
  readonly logs?: readonly LogRow[];
  readonly deadLetters?: readonly DeadLetter[];
  /** Its dead letters from before this write, from this sequence number on, are gone: they are tried again. 0: none. */
  readonly deadLettersCleared?: number;
}

export interface Commit {
  readonly fence: Fence;
  /** Of any of the owner's partitions. */
  readonly writes: readonly ExecutionWrite[];
  /** Letters that these writes have applied, or that have nobody to apply them: gone with this commit. */
  readonly lettersTaken?: readonly string[];
}

/**
 * `exists`: a create found its id taken; only that write was left out. `fenced`: of these partitions nothing was
 * written and no letter taken. `kind: "fenced"`: of none that the commit touches.
 */
export type CommitVerdict =
  | { readonly kind: "ok"; readonly exists: readonly string[]; readonly fenced: readonly number[] }
  | { readonly kind: "fenced"; readonly why: string; readonly partitions: readonly number[] };

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
  /** Why not even its head, or its marks, can be read: then there are no entries. */
  readonly damage?: Damage;
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
  /** Whether rows come with their chain hashes. */
  readonly chains?: boolean;
}

/** A row as read. */
export interface JournalRow extends Entry {
  /** If it was asked for: the chain hash after this row; null inside of a write. */
  readonly chain?: string | null;
}

export interface HeadFilter {
  readonly project?: string;
  readonly workflow?: string;
  readonly status?: string;
}

/** Executions by status; one that none is in may be left out. */
export type StatusCounts = Readonly<Record<string, number>>;

/** A document as it must be before a write, and as it is after it. */
export interface Swap {
  readonly was: string | null;
  readonly body: string;
}

/** A document in a list. */
export interface StoredDocument {
  readonly id: string;
  readonly body: string;
  /** Why its body is not what was put; it is not to be used. */
  readonly damage?: string;
}

/** Which partitions a scan is about; null: all. */
export type Partitions = readonly number[] | null;

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

/** What follows from the journal of an execution, to be put in order. */
export interface Derived {
  readonly head: Head;
  /** All of its own timers (those of the engine begin with ~ and stay); null: they stay as they are. */
  readonly timers: readonly { readonly timer: string; readonly due: number }[] | null;
  /** All marks of how far pages were opened, and those kept with them (`LoadedExecution.opened`); null: they stay as they are. */
  readonly opened: Readonly<Record<string, number>> | null;
  /** The last event of the journal that it follows from: if there are more by now, nothing is written. Null: not asked. */
  readonly end: number | null;
}

/** Something in the tables that does not agree, besides what one execution's journal tells. */
export interface TableFinding {
  readonly table: string;
  readonly message: string;
  readonly isRepaired: boolean;
}

/** Finding and mending what can be derived, and getting rid of what cannot be read. */
export interface StoreRepairs {
  /** Writes what was derived from a journal; false: the journal has gone on, or there is no such execution. */
  putDerived(derived: Derived): Promise<boolean>;
  /** All timers of an execution, those of the engine included. */
  timersOf(execution: string): Promise<readonly { readonly timer: string; readonly due: number }[]>;
  /**
   * Forgets an execution whose status is `damaged`, with letters to it, and stores a letter to whoever waits for it.
   * False: it is not damaged, or not there; nothing was written.
   */
  dropDamaged(execution: string, letter: MailboxMessage | null): Promise<boolean>;
  /** Checks counts (and the indexes of an embedded store); `repair` derives them anew, and the search index with them. */
  auditTables(options: { readonly repair: boolean }): Promise<readonly TableFinding[]>;
}

/**
 * Executions by what they say. The index is written behind the commits, so it can be a little late; it may hold too much,
 * and what it finds is compared with the heads (search-heads.ts).
 */
export interface SearchIndex {
  /** The executions that a word of a search may fit, newest first, order < before. */
  findOrders(word: SearchWord, options: { before: number; max: number }): Promise<FoundOrders>;
  /** The heads of executions by their order, those that are there. */
  headsOf(orders: readonly number[]): Promise<readonly StoredHead[]>;
  /** Brings the index a bit further; true: there is more to do. Stores that are opened do that by themselves. */
  indexSome(): Promise<boolean>;
  /** Makes the index anew, behind the commits. */
  clearIndex(): Promise<void>;
}

export interface Store extends StoreRepairs, SearchIndex {
  /** Opens, migrates; an embedded store is owned when this resolves, in a new and durable epoch. */
  open(): Promise<StoreInfo>;
  /** Calls the listener when the store finds by itself that it cannot be written, and with null when it can be again. */
  onUnwritable?(listener: (fault: Error | null) => void): void;
  /** The fenced, durable write. */
  commit(commit: Commit): Promise<CommitVerdict>;
  /** Executions by id, in the given order; null for what does not exist. A snapshot of another `foldVersion` is ignored. */
  load(
    ids: readonly string[],
    options?: { readonly foldVersion?: number },
  ): Promise<readonly (LoadedExecution | null)[]>;
  /** Rows of a journal, in order. */
  readJournal(range: JournalRange): Promise<readonly JournalRow[]>;
  /** Heads with `want: work`, oldest first per (project, workflow) pair: at most `each` of every pair, with order > after. */
  scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
    partitions: Partitions;
  }): Promise<readonly StoredHead[]>;
  /** Timers due up to `until`, and not before `from`, soonest first. */
  scanTimers(options: {
    from?: number;
    until: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredTimer[]>;
  /** Heads by filter, newest first, order < before. */
  listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]>;
  /**
   * Letters not taken yet, in the order of storing, with order > after. In a cluster a letter that is stored while
   * another is read can have a smaller order: to find what is new, begin at 0.
   */
  scanLetters(options: {
    after: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredMailboxMessage[]>;
  /** Log rows of an execution in the order of storing, with order > after. */
  readLogs(options: { execution: string; after: number; rowsMax: number }): Promise<readonly StoredLogRow[]>;
  /** Dead letters, newest first, order < before. */
  listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): Promise<readonly StoredDeadLetter[]>;
  /** Takes tasks out of a dead letter (null: all of them); an empty one is gone. */
  dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void>;
  /** How many executions there are in each status, kept exactly by every write: nothing is counted when asked. */
  countHeads(filter: Omit<HeadFilter, "status">): Promise<StatusCounts>;
  /** Ids of executions that ended before a time and want nothing any more, oldest first. */
  listEnded(options: { finishedBefore: number; max: number }): Promise<readonly string[]>;
  /** Forgets executions that have ended, with everything about them; others, and those of other owners, are left alone. */
  purge(ids: readonly string[]): Promise<void>;
  /** Small things by kind and id (schedules, tokens, the audit log, settings): written without a fence, null deletes. */
  putDocument(kind: string, id: string, body: string | null): Promise<void>;
  /** Puts a document only if the one that is there is `was` (null: none is); false: it is another, nothing was written. */
  swapDocument(kind: string, id: string, swap: Swap): Promise<boolean>;
  /** Throws `DamagedData` if it is not what was put. */
  getDocument(kind: string, id: string): Promise<string | null>;
  /** Documents of a kind in the order of their ids (bytewise), after an id, or newest first before one. */
  listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): Promise<readonly StoredDocument[]>;
  /** Definitions by hash: content-addressed, so written without a fence. The newest of a name is the last one put. */
  putDefinition(name: string, hash: string, body: string): Promise<void>;
  getDefinition(by: { hash: string } | { newestOf: string }): Promise<{ hash: string; body: string } | null>;
  /** Forgets a name whose newest definition is this one, and the definition: no execution may have it, which is not looked at. */
  dropDefinition(name: string, hash: string): Promise<void>;
  /** Names of workflows with the hash of their newest definition, in the order of names. */
  listDefinitions(options: {
    after: string;
    max: number;
  }): Promise<readonly { readonly name: string; readonly hash: string }[]>;
  /** Releases what is owned. `clean`: no lease is open, so nothing is suspect after it. */
  close(options: { clean: boolean }): Promise<void>;
}

/** The key of a (project, workflow) pair in `scanWork`. */
export function workKey(project: string, workflow: string): string {
  return `${project}/${workflow}`;
}

/** The fence of an owner that has these partitions. */
export function fenceOf(owner: { readonly generation: string; readonly owned: readonly Ownership[] }): Fence {
  const epochs: Record<number, number> = {};
  for (const { partition, epoch } of owner.owned) epochs[partition] = epoch;
  return { generation: owner.generation, epochs };
}
