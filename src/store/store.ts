/**
 * The store port, which holds all durable state. Its adapters are memory, sqlite and postgres. Executions are in partitions
 * (partition-of.ts), and a partition has one owner at a time (cluster-store.ts). An embedded store has one partition, which
 * belongs to the process that opened it.
 * An engine node writes executions only by `commit`, which is atomic per partition and refused for a partition that the writer
 * no longer owns. A commit returns `ok` (durable, except for the partitions that it lists as fenced) or `fenced` (the owner is
 * stale and nothing was written), or it throws `StoreFault`: then the outcome is unknown, unless the fault says that nothing
 * was written.
 */
import type { Damage } from "../kernel/journal/damage.ts";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import type { FoundOrders } from "./found-orders.ts";
import type { SearchWord } from "./search-terms.ts";

/** The fencing token of a writer: the store refuses writes of a stale owner. */
export interface Fence {
  /**
   * The generation of the store. It changes when a database is restored from a copy, which makes all leases and tokens invalid.
   */
  readonly generation: string;
  /** The epoch in which this owner has each partition. Writes to other partitions are refused. */
  readonly epochs: Readonly<Record<number, number>>;
}

export interface Ownership {
  readonly partition: number;
  /** The epoch of the ownership. It changes each time the store is opened (embedded) or the partition is taken (cluster). */
  readonly epoch: number;
  /**
   * The newest epoch that ended without a clean release. Executions that were last written in that epoch or before may have open leases.
   */
  readonly uncleanEpoch: number;
  /**
   * When epochs ended uncleanly, in order. If the end of an epoch is missing, the next later one is used for it. Undefined if
   * the store does not record this.
   */
  readonly uncleanEnds?: readonly UncleanEnd[];
  /** The first epoch whose owner stored its grants of limits; all later owners do too. Undefined if no owner does. */
  readonly limitsStoredFrom?: number;
}

/** When an epoch ended whose owner lost its lease or gave up. */
export interface UncleanEnd {
  readonly epoch: number;
  readonly at: number;
}

/** The most ends of unclean epochs that a store keeps for each partition. */
export const UNCLEAN_ENDS_MAX = 32;

/** The status of an execution whose stored data cannot be read. */
export const DAMAGED = "damaged";

export interface StoreInfo {
  /** Problems that were found when the store was opened. They did not prevent the opening. */
  readonly warnings?: readonly string[];
  /**
   * The number of complete transactions in an embedded store's WAL that could not be read when it was opened. The real number
   * may be higher.
   */
  readonly lostTransactions?: number;
  readonly generation: string;
  /** Secret key for attempt tokens, kept in the store. */
  readonly key: string;
  /** The number of partitions, fixed when the store is created. */
  readonly partitions: number;
  /** The partitions that the process owns after opening: all of an embedded store, none yet in a cluster. */
  readonly owned: readonly Ownership[];
}

export type Want = "work" | "time" | "nothing";

/** The summary row of an execution, which lists show. It is written only when the status or the phase changes. */
export interface Head {
  readonly id: string;
  readonly partition: number;
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  readonly status: string;
  readonly phase: string | null;
  /**
   * What the owner of the execution must do: `work` (dispatch or drain tasks), `time` (only wait for timers or signals),
   * `nothing` (the execution has ended).
   */
  readonly want: Want;
  readonly priority: number;
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly error: string | null;
}

/** Whether an execution runs and only waits for a time or a signal. */
export function isWaiting({ status, want }: Pick<Head, "status" | "want">): boolean {
  return status === "running" && want === "time";
}

/** The statuses of executions that have not ended and are not damaged. */
export const OPEN_STATUSES = ["running", "paused", "cancelling", "cleaning"] as const;

/**
 * The name of the tag in which a head stores the hash of the definition to which the execution was moved (decision 112). Only
 * the next three functions use it. Users cannot give a tag an empty name, so it cannot collide with their tags. A tag needs no
 * column of its own, and nodes of earlier versions keep it.
 */
const MOVED_TO = "";

/** Returns the tags to store in a head: those of the user, and the hash of the current definition if the execution was moved. */
export function headTags(tags: Head["tags"], created: string, current: string): Head["tags"] {
  return created === current ? tags : { ...tags, [MOVED_TO]: current };
}

/** Returns the hash of the definition that an execution has now. The field `hash` is that of the definition with which it was created. */
export function currentHash({ hash, tags }: Pick<Head, "hash" | "tags">): string {
  return tags[MOVED_TO] ?? hash;
}

/** Returns the tags that a user gave the execution. */
export function userTags({ tags }: Pick<Head, "tags">): Head["tags"] {
  if (tags[MOVED_TO] === undefined) return tags;
  const { [MOVED_TO]: _, ...given } = tags;
  return given;
}

/** A head as it is read. `order` is a number that is unique in the store and grows in the order of creation. */
export interface StoredHead extends Head {
  readonly order: number;
}

export interface StoredTimer {
  readonly execution: string;
  readonly timer: string;
  readonly due: number;
}

/**
 * The key of a timer in a map. Ids of executions and names of timers may contain any character but control characters, so the keys of two
 * timers differ, and the id ends at the line break.
 */
export function timerKey({ execution, timer }: Pick<StoredTimer, "execution" | "timer">): string {
  return `${execution}\n${timer}`;
}

export interface Snapshot {
  /** The sequence number of the last event that the snapshot contains. */
  readonly seq: number;
  readonly foldVersion: number;
  /** The journal's chain hash at `seq`. If the journal has a different one when it is loaded, the snapshot is ignored. */
  readonly chain: string;
  readonly body: string;
}

/** A message to an execution, stored in the partition of the receiver. The sender's commit stores it, the receiver's commit deletes it. */
export interface MailboxMessage {
  /** The id of the message, unique, made by the sender. */
  readonly id: string;
  readonly to: string;
  /** The message, as JSON text. */
  readonly body: string;
}

/** A mailbox message as it is read. `order` is a number that grows in the order of storing. */
export interface StoredMailboxMessage extends MailboxMessage {
  readonly order: number;
  /** Why the body of the message cannot be read; undefined if it can be read. */
  readonly damage?: string;
}

export interface LogLine {
  /** The number of the worker event that contained the line, counted from 1 within the attempt. */
  readonly n: number;
  readonly at: number;
  /** The level of the line: debug, info, warn, error; progress; or run (the start and end of a script's runs). */
  readonly level: string;
  readonly text: string;
  /** The run of a script that wrote the line. */
  readonly run?: string;
  /** The fields of the line as JSON text. */
  readonly fields?: string;
}

/** Log lines of one attempt, stored as one row. If `task` is -1, the attempt is an enumeration. */
export interface LogRow {
  readonly attempt: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly number: number;
  readonly worker: string;
  readonly lines: readonly LogLine[];
  /**
   * Whether some of the lines may be stored already, because another node had the attempt before. The store leaves out lines
   * whose number `n` is stored.
   */
  readonly mayRepeat: boolean;
}

/** A log row as it is read. `order` is a number that grows in the order of storing. */
export interface StoredLogRow extends Omit<LogRow, "mayRepeat"> {
  readonly order: number;
}

export interface DeadLetter {
  readonly seq: number;
  readonly tasks: readonly number[];
}

/** A dead letter as it is read. `order` is a number that grows in the order of storing. */
export interface StoredDeadLetter extends DeadLetter {
  readonly order: number;
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
}

/** Everything that one step of an execution writes. */
export interface ExecutionWrite {
  readonly execution: string;
  /** Whether the write creates the execution. If the id exists already, the store leaves the write out and reports the id in `exists`. */
  readonly create: boolean;
  /** The sequence number of the last event before this write. If the stored journal ends at another event, the write is fenced. */
  readonly after: number;
  readonly entries: readonly Entry[];
  /** The chain hash of the journal after the last entry of this write. */
  readonly chain: string;
  readonly head: Head | null;
  readonly timersSet: readonly { readonly timer: string; readonly due: number }[];
  readonly timersCleared: readonly string[];
  /** The number of tasks that were opened for leases, by `<phase>.<visit>.<handler>`. Numbers of other keys stay unchanged. */
  readonly opened: Readonly<Record<string, number>> | null;
  readonly snapshot: Snapshot | null;
  readonly mail?: readonly MailboxMessage[];
  readonly logs?: readonly LogRow[];
  readonly deadLetters?: readonly DeadLetter[];
  /**
   * The sequence number from which on the stored dead letters of the execution are deleted, because their tasks are retried. 0
   * deletes none.
   */
  readonly deadLettersCleared?: number;
}

export interface Commit {
  readonly fence: Fence;
  /** The writes, to any of the owner's partitions. */
  readonly writes: readonly ExecutionWrite[];
  /** The ids of mailbox messages that this commit deletes: these writes have applied them, or no execution will ever apply them. */
  readonly mailTaken?: readonly string[];
}

/**
 * The answer to a commit. `exists`: ids of executions that were not created, because the id exists already. `fenced`:
 * partitions in which nothing was written.
 */
export type CommitVerdict =
  | { readonly kind: "ok"; readonly exists: readonly string[]; readonly fenced: readonly number[] }
  | { readonly kind: "fenced"; readonly why: string; readonly partitions: readonly number[] };

/** An execution as it is loaded: the latest valid snapshot, if there is one, and the journal rows after it. */
export interface LoadedExecution {
  readonly head: StoredHead;
  readonly snapshot: Snapshot | null;
  readonly entries: readonly Entry[];
  /** Chain hash at the end of the journal. */
  readonly chain: string;
  readonly opened: Readonly<Record<string, number>>;
  /** The epoch of the partition at the last write of the execution. */
  readonly epoch: number;
  /** Why the head or the marks cannot be read. If this is set, there are no entries. */
  readonly damage?: Damage;
}

export interface JournalRange {
  readonly execution: string;
  /** The first sequence number to read. A row that contains it is returned whole. */
  readonly from: number;
  /** The last sequence number wanted. */
  readonly to?: number;
  /** The read stops after this many rows. `charsMax`: it also stops when about this many characters have been read. */
  readonly rowsMax?: number;
  readonly charsMax?: number;
  /** Whether the rows are returned with their chain hashes. */
  readonly chains?: boolean;
}

export interface JournalRow extends Entry {
  /** The chain hash after this row, if `chains` was set; null for a row that is not the last of its write. */
  readonly chain?: string | null;
}

export interface HeadFilter {
  readonly project?: string;
  readonly workflow?: string;
  readonly status?: string;
}

/** Numbers of executions by status; a status without executions may be missing. */
export type StatusCounts = Readonly<Record<string, number>>;

/** A compare-and-set of a document: the body that it must have (`was`), and the new body. */
export interface Swap {
  readonly was: string | null;
  readonly body: string;
}

/** A document of some kind. */
export interface NamedDocument {
  readonly id: string;
  readonly body: string;
}

export interface StoredDocument extends NamedDocument {
  /** Why the body is damaged. A damaged body must not be used. */
  readonly damage?: string;
}

/** The partitions that a scan reads; null for all. */
export type Partitions = readonly number[] | null;

/** A failure of the disk, the database or the network. Only the drivers, which do the I/O, catch it. */
export class StoreFault extends Error {
  override name = "StoreFault";
  readonly retryable: boolean;
  /** Whether it is known that nothing was written. If false, the outcome is unknown. */
  readonly nothingWritten: boolean;
  constructor(message: string, options: { retryable: boolean; nothingWritten: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
    this.nothingWritten = options.nothingWritten;
  }
}

/** Data derived from the journal of an execution. */
export interface Derived {
  readonly head: Head;
  /** All timers of the execution; null to leave them unchanged. The engine's own timers, which begin with ~, always stay. */
  readonly timers: readonly { readonly timer: string; readonly due: number }[] | null;
  /** All marks of the execution, such as how many tasks of each handler were opened (`LoadedExecution.opened`); null to leave them unchanged. */
  readonly opened: Readonly<Record<string, number>> | null;
  /**
   * The number of the last event in the journal from which the data was derived. If the journal has more events by now, nothing
   * is written. Null to skip this check.
   */
  readonly end: number | null;
}

/** An inconsistency between tables, which cannot be found in the journal of a single execution. */
export interface TableFinding {
  readonly table: string;
  readonly message: string;
  readonly isRepaired: boolean;
}

export interface WorkScan {
  /** The greatest order number that the caller has seen, by `workKey`. */
  readonly after: Readonly<Record<string, number>>;
  /** The most heads of each (project, workflow) pair. */
  readonly each: number;
  readonly partitions: Partitions;
}

export interface TimerScan {
  readonly from?: number;
  readonly until: number;
  readonly max: number;
  readonly partitions: Partitions;
}

export interface MailScan {
  readonly after: number;
  readonly max: number;
  readonly partitions: Partitions;
}

export interface LogRange {
  readonly execution: string;
  readonly after: number;
  readonly rowsMax: number;
}

/** One page of a list, newest first. It has items with an order below `before`; with null it begins with the newest item. */
export interface Page {
  readonly before: number | null;
  readonly max: number;
}

export interface DeadLetterFilter {
  readonly project?: string;
  readonly workflow?: string;
  readonly execution?: string;
}

/** Options of `listEnded`: executions that ended at or after `finishedFrom` and before `finishedBefore`, with this status. */
export interface EndedRange {
  readonly finishedBefore: number;
  readonly finishedFrom?: number;
  readonly status?: string;
  readonly max: number;
}

/** Options of `listDocuments`: documents with ids after `after` and before `before`, in bytewise order. */
export interface DocumentRange {
  readonly after?: string;
  readonly before?: string;
  readonly descending?: boolean;
  readonly max: number;
}

export interface StoredDefinition {
  readonly hash: string;
  readonly body: string;
}

export interface Timer {
  readonly timer: string;
  readonly due: number;
}

/** Stores executions: the fenced write, and the reads that an engine node needs to go on with them. */
export interface ExecutionStore {
  commit(commit: Commit): Promise<CommitVerdict>;
  /**
   * Loads executions by id, in the given order; null for an id that does not exist. Ignores snapshots of another `foldVersion`.
   */
  load(
    ids: readonly string[],
    options?: { readonly foldVersion?: number },
  ): Promise<readonly (LoadedExecution | null)[]>;
  readJournal(range: JournalRange): Promise<readonly JournalRow[]>;
  /** Finds heads with `want: work`, oldest first for each (project, workflow) pair. */
  scanWork(scan: WorkScan): Promise<readonly StoredHead[]>;
  /** Finds timers that are due between `from` and `until`, soonest first. */
  scanTimers(scan: TimerScan): Promise<readonly StoredTimer[]>;
  /**
   * Finds mailbox messages that no commit has taken yet, with order > after. In a cluster, a scan must start at 0 to find all
   * new messages, because a message that is stored during a scan can have a smaller order than one that the scan returns.
   */
  scanMail(scan: MailScan): Promise<readonly StoredMailboxMessage[]>;
  /** Reads log rows of an execution in the order of storing, with order > after. */
  readLogs(range: LogRange): Promise<readonly StoredLogRow[]>;
  /**
   * Deletes executions that have ended and want nothing, with all their data. Skips executions that are open, that a later
   * execution of the same id still needs, or that belong to another owner.
   */
  purge(ids: readonly string[]): Promise<void>;
  /**
   * Deletes the journal rows of an execution that end before a given event. No fence is needed, because the caller has
   * committed that event, which contains the whole state.
   */
  trimJournal(execution: string, before: number): Promise<void>;
}

/** Lists and searches of executions. The search index can lag behind commits and contain stale entries. */
export interface ExecutionSearch {
  listHeads(filter: HeadFilter, page: Page): Promise<readonly StoredHead[]>;
  /** The number of executions in each status. Every write maintains these counters, so this call counts no rows. */
  countHeads(filter: Omit<HeadFilter, "status">): Promise<StatusCounts>;
  /**
   * Returns the number of running executions with `want: time`, which sleep or wait for signals. It reads a counter, and counts no rows.
   */
  countWaiting(filter: Omit<HeadFilter, "status">): Promise<number>;
  /** Lists ids of executions with `want: nothing` that ended before a time, oldest first. */
  listEnded(options: EndedRange): Promise<readonly string[]>;
  listDeadLetters(filter: DeadLetterFilter, page: Page): Promise<readonly StoredDeadLetter[]>;
  /** Removes tasks from a dead letter (null: all of them). A dead letter without tasks is deleted. */
  dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void>;
  /** Finds the executions that a word of a search may match, newest first, with order < before. */
  findOrders(
    word: SearchWord,
    options: { readonly before: number; readonly max: number },
  ): Promise<FoundOrders>;
  /** Reads the heads of executions by their order; leaves out those that do not exist. */
  headsOf(orders: readonly number[]): Promise<readonly StoredHead[]>;
  /**
   * Adds some more executions to the search index. Returns true if there are more to index. An open store calls this by itself
   * (search-indexer.ts).
   */
  indexSome(): Promise<boolean>;
  /** The order up to which a search finds every execution that has the tags. Later ones may be missing from the index. */
  indexedTo(): Promise<number>;
  /** Empties the search index; later calls of `indexSome` build it again. */
  clearIndex(): Promise<void>;
}

export interface NamedDefinition {
  readonly name: string;
  readonly hash: string;
  readonly body: string;
}

/** What `addDefinitions` found for a name: no definition, the same one, or another one. */
export type FoundDefinition = "none" | "same" | "other";

/** Stores documents and definitions. Writes of them need no fence. */
export interface DocumentStore {
  /** Stores a document (a schedule, a token, a setting, an entry of the audit log); a body of null deletes it. */
  putDocument(kind: string, id: string, body: string | null): Promise<void>;
  /** Stores documents of one kind in one transaction. Each id is given once. */
  putDocuments(kind: string, documents: readonly NamedDocument[]): Promise<void>;
  /** Deletes documents of one kind in one transaction. */
  deleteDocuments(kind: string, ids: readonly string[]): Promise<void>;
  /**
   * Compare-and-set: writes the document only if its body is `was` (null if it must not exist); false if nothing was written.
   */
  swapDocument(kind: string, id: string, swap: Swap): Promise<boolean>;
  /** Reads the body of a document. Throws `DamagedData` if it is damaged. */
  getDocument(kind: string, id: string): Promise<string | null>;
  listDocuments(kind: string, range: DocumentRange): Promise<readonly StoredDocument[]>;
  /** Stores a definition under its hash, and makes it the newest definition of its name. */
  putDefinition(name: string, hash: string, body: string): Promise<void>;
  /**
   * Stores generated definitions under their hashes in one transaction, but only for names that have no definition. Each name
   * is given once; names may share a hash. Returns for each what was found: nothing (the definition was added), the same
   * definition, or another or damaged one, which stays.
   */
  addDefinitions(definitions: readonly NamedDefinition[]): Promise<readonly FoundDefinition[]>;
  getDefinition(by: { hash: string } | { newestOf: string }): Promise<StoredDefinition | null>;
  /**
   * Deletes a definition. If it is the newest definition of the name, the name is deleted too. The caller must check that no
   * execution uses it.
   */
  dropDefinition(name: string, hash: string): Promise<void>;
  /** Lists names of workflows with the hash of their newest definition, in the order of names. */
  listDefinitions(options: {
    readonly after: string;
    readonly max: number;
  }): Promise<readonly { readonly name: string; readonly hash: string }[]>;
}

/** Repair of derived data, and removal of damaged executions. */
export interface StoreRepairs {
  /**
   * Writes data that was derived from a journal. Returns false if the journal has more events by now, or if the execution does not exist.
   */
  putDerived(derived: Derived): Promise<boolean>;
  timersOf(execution: string): Promise<readonly Timer[]>;
  /** Deletes a damaged execution and its mail, and stores `message` for its parent. Returns false if nothing was written. */
  dropDamaged(execution: string, message: MailboxMessage | null): Promise<boolean>;
  /** Checks the counters, and in an embedded store the indexes. With `repair`, they and the search index are computed again. */
  auditTables(options: { readonly repair: boolean }): Promise<readonly TableFinding[]>;
}

/** The methods that every adapter has while it is open. */
export interface StoreMethods extends ExecutionStore, ExecutionSearch, DocumentStore, StoreRepairs {}

/**
 * The names of all methods of the port. Adapters derive their facades and the calls of the store's thread from it
 * (derived-store.ts).
 */
export const STORE_METHODS = Object.keys({
  ...{
    commit: 0,
    load: 0,
    readJournal: 0,
    scanWork: 0,
    scanTimers: 0,
    scanMail: 0,
    readLogs: 0,
    purge: 0,
    trimJournal: 0,
  },
  ...{ listHeads: 0, countHeads: 0, countWaiting: 0, listEnded: 0, listDeadLetters: 0, dropDeadLetter: 0 },
  ...{ findOrders: 0, headsOf: 0, indexSome: 0, indexedTo: 0, clearIndex: 0 },
  ...{
    putDocument: 0,
    putDocuments: 0,
    deleteDocuments: 0,
    swapDocument: 0,
    getDocument: 0,
    listDocuments: 0,
  },
  ...{ putDefinition: 0, addDefinitions: 0, getDefinition: 0, dropDefinition: 0, listDefinitions: 0 },
  ...{ putDerived: 0, timersOf: 0, dropDamaged: 0, auditTables: 0 },
} satisfies Record<keyof StoreMethods, 0>) as readonly (keyof StoreMethods)[];

export interface Store extends StoreMethods {
  /** Opens and migrates the store. After this, the caller owns an embedded store, in a new and durable epoch. */
  open(): Promise<StoreInfo>;
  /** Calls the listener when the store detects that it cannot be written, and with null when it can be written again. */
  onUnwritable?(listener: (fault: Error | null) => void): void;
  /**
   * Closes the store and releases the owned partitions. `clean` means that no lease is open, so the next owner need not expect
   * attempts that still run.
   */
  close(options: { readonly clean: boolean }): Promise<void>;
}

/** The key of a (project, workflow) pair in `scanWork`. */
export function workKey(project: string, workflow: string): string {
  return `${project}/${workflow}`;
}

/** Makes the fence of an owner that has these partitions. */
export function fenceOf(owner: { readonly generation: string; readonly owned: readonly Ownership[] }): Fence {
  const epochs: Record<number, number> = {};
  for (const { partition, epoch } of owner.owned) epochs[partition] = epoch;
  return { generation: owner.generation, epochs };
}
