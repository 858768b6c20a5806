/**
 * The store port over PostgreSQL, for a node of a cluster. Connections, each for one thing:
 * 1. commits: one call at a time, all that wait travel together (commit-queue.ts);
 * 2. membership: renewals, taking and releasing partitions, hints; nothing delays it;
 * 3. two for everything else.
 */
import { assert } from "../../std/assert.ts";
import { assertDocumentKey, assertWritable } from "../check-write.ts";
import { type ClusterStore, type Hint, type Membership } from "../cluster-store.ts";
import type { FoundOrders } from "../found-orders.ts";
import { partitionOf } from "../partition-of.ts";
import { SearchIndexer } from "../search-indexer.ts";
import type { SearchWord } from "../search-terms.ts";
import {
  type Commit,
  type CommitVerdict,
  type Derived,
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type MailboxMessage,
  type Ownership,
  type Partitions,
  type StatusCounts,
  type StoredDeadLetter,
  type StoredDocument,
  type StoredHead,
  type StoredLogRow,
  type StoredMailboxMessage,
  type StoredTimer,
  StoreFault,
  type StoreInfo,
  type Swap,
  type TableFinding,
} from "../store.ts";
import { headKey } from "./commit-columns.ts";
import { Database, PARTITIONS_DEFAULT } from "./database.ts";
import { Link } from "./link.ts";
import { linkOptions, makeParts, type PostgresParts, type PostgresStoreOptions } from "./postgres-parts.ts";
import { SCHEMA_DEFAULT } from "./schema-place.ts";

/** A store that many nodes share. */
export class PostgresStore implements ClusterStore {
  readonly #options: PostgresStoreOptions;
  #opened: PostgresParts | null = null;
  readonly #indexer = new SearchIndexer(this);
  #callback: ((hint: Hint) => void) | null = null;

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
  }

  async open(): Promise<StoreInfo> {
    assert(this.#opened === null, "a store is opened once");
    const { schema = SCHEMA_DEFAULT, partitions = PARTITIONS_DEFAULT } = this.#options;
    const database = new Database(schema);
    // Migrating takes as long as it needs.
    const first = new Link({
      ...linkOptions(this.#options, "open"),
      begin: async (client) => void (await database.open(client, partitions)),
    });
    try {
      await first.connected();
    } finally {
      await first.end();
    }
    this.#opened = makeParts(database, this.#options, (hint) => this.#callback?.(hint));
    this.#indexer.start();
    const { generation, key, partitions: count } = database.meta;
    return { generation, key, partitions: count, owned: [] };
  }

  async commit(commit: Commit): Promise<CommitVerdict> {
    const { queue, hints, meta, search } = this.#use();
    for (const write of commit.writes) assertWritable(write, partitionOf(write.execution, meta.partitions));
    const verdict = await queue.commit(commit);
    if (verdict.kind === "ok") {
      hints.letters(this.#foreignPartitions(commit));
      search.committed(commit);
    }
    return verdict;
  }

  async load(
    ids: readonly string[],
    options: { foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    const { reader, knowledge, membership, meta } = await this.#useSettled();
    const ownedIn = new Map(ids.map((id) => [id, membership.epochOf(partitionOf(id, meta.partitions))]));
    const { forgotten } = knowledge;
    const loaded = await reader.load(ids, options.foldVersion);
    for (const [id, { e, end, phase, execution }] of loaded) {
      const epoch = ownedIn.get(id);
      if (epoch === undefined || execution.damage !== undefined) continue;
      const head = headKey(execution.head);
      knowledge.suggest(id, { e, end, epoch: execution.epoch, ownedIn: epoch, head, phase }, forgotten);
    }
    return ids.map((id) => loaded.get(id)?.execution ?? null);
  }

  async readJournal(range: JournalRange): Promise<readonly JournalRow[]> {
    return (await this.#useSettled()).reader.readJournal(range);
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
    partitions: Partitions;
  }): Promise<readonly StoredHead[]> {
    return (await this.#useSettled()).reader.scanWork(options);
  }

  async scanTimers(options: {
    from?: number;
    until: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredTimer[]> {
    return (await this.#useSettled()).reader.scanTimers(options);
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]> {
    return this.#use().reader.listHeads(filter, options);
  }

  async findOrders(word: SearchWord, options: { before: number; max: number }): Promise<FoundOrders> {
    return this.#use().search.find(word, options);
  }

  async headsOf(orders: readonly number[]): Promise<readonly StoredHead[]> {
    return this.#use().search.headsOf(orders);
  }

  async indexSome(): Promise<boolean> {
    return this.#use().search.write();
  }

  async clearIndex(): Promise<void> {
    await this.#use().search.clear();
  }

  async scanLetters(options: {
    after: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredMailboxMessage[]> {
    return (await this.#useSettled()).records.scanLetters(options);
  }

  async readLogs(options: {
    execution: string;
    after: number;
    rowsMax: number;
  }): Promise<readonly StoredLogRow[]> {
    return this.#use().records.readLogs(options);
  }

  async listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): Promise<readonly StoredDeadLetter[]> {
    return this.#use().records.listDeadLetters(filter, options);
  }

  async dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void> {
    await this.#use().side.dropDeadLetter(order, tasks);
  }

  async countHeads(filter: Omit<HeadFilter, "status">): Promise<StatusCounts> {
    return this.#use().records.countHeads(filter);
  }

  async listEnded(options: { finishedBefore: number; max: number }): Promise<readonly string[]> {
    return this.#use().records.listEnded(options);
  }

  async purge(ids: readonly string[]): Promise<void> {
    const { side, queue, knowledge, membership, meta, search } = this.#use();
    const { lock, partitions } = meta;
    const executions = ids.map((id) => ({ id, partition: partitionOf(id, partitions) }));
    const remove = await search.removing(ids);
    // No commit is under way meanwhile: what is known of these executions is true until it is forgotten.
    await queue.alone(async () => {
      knowledge.forget(ids);
      await side.forget(executions, { lock, incarnation: membership.incarnation });
    });
    await remove();
    await side.sweep();
  }

  readonly putDerived = (derived: Derived) => this.#use().repairs.putDerived(derived);
  readonly timersOf = (execution: string) => this.#use().repairs.timersOf(execution);
  readonly dropDamaged = (execution: string, letter: MailboxMessage | null) =>
    this.#use().repairs.dropDamaged(execution, letter);

  async auditTables({ repair }: { readonly repair: boolean }): Promise<readonly TableFinding[]> {
    // The search index is made anew: that is cheaper than comparing it.
    if (repair) await this.clearIndex();
    return this.#use().repairs.auditTables({ repair });
  }

  async putDocument(kind: string, id: string, body: string | null): Promise<void> {
    assertDocumentKey(kind, id);
    await this.#use().side.putDocument(kind, id, body);
  }

  async swapDocument(kind: string, id: string, swap: Swap): Promise<boolean> {
    assertDocumentKey(kind, id);
    return this.#use().side.swapDocument(kind, id, swap);
  }

  async getDocument(kind: string, id: string): Promise<string | null> {
    return this.#use().records.getDocument(kind, id);
  }

  async listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): Promise<readonly StoredDocument[]> {
    return this.#use().records.listDocuments(kind, options);
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    await this.#use().side.putDefinition(name, hash, body);
  }

  async dropDefinition(name: string, hash: string): Promise<void> {
    await this.#use().side.dropDefinition(name, hash);
  }

  async getDefinition(by: { hash: string } | { newestOf: string }) {
    return this.#use().records.getDefinition(by);
  }

  async listDefinitions(options: { after: string; max: number }) {
    return this.#use().records.listDefinitions(options);
  }

  async now(): Promise<number> {
    return this.#use().records.now();
  }

  async renew(): Promise<Membership> {
    const { membership, hints, database } = this.#use();
    const { isNew, walPosition, ...renewed } = await membership.renew();
    database.sawWalPosition(walPosition);
    if (isNew) hints.members();
    return renewed;
  }

  async take(partitions: readonly number[]): Promise<readonly Ownership[]> {
    return this.#use().membership.take(partitions);
  }

  async release(partitions: readonly number[], options: { clean: boolean }): Promise<void> {
    const { membership, hints } = this.#use();
    await membership.release(partitions, options);
    hints.members();
  }

  async leave(options: { clean: boolean }): Promise<void> {
    const { membership, hints } = this.#use();
    await membership.leave(options);
    hints.members();
    await hints.flush();
  }

  async post(letters: readonly MailboxMessage[]): Promise<void> {
    if (letters.length === 0) return;
    const { membership, hints, meta } = this.#use();
    const placed = letters.map((letter) => ({
      ...letter,
      partition: partitionOf(letter.to, meta.partitions),
    }));
    await membership.post(placed);
    hints.letters(placed.map(({ partition }) => partition));
  }

  onHint(callback: (hint: Hint) => void): void {
    this.#callback = callback;
  }

  async close(options: { clean: boolean }): Promise<void> {
    const opened = this.#opened;
    if (opened === null) return;
    this.#indexer.stop();
    // From here on calls are refused.
    this.#opened = null;
    try {
      await opened.queue.idle();
      await opened.membership.leave(options);
      opened.hints.members();
      await opened.hints.flush();
    } finally {
      await Promise.all([opened.commits.end(), opened.control.end(), opened.links.end()]);
    }
  }

  #use(): PostgresParts {
    if (this.#opened === null)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#opened;
  }

  /** For reads that tell what became of a commit: not before that is settled. */
  async #useSettled(): Promise<PostgresParts> {
    const opened = this.#use();
    await opened.queue.settled();
    return opened;
  }

  /** Partitions that a commit's letters go to and that are not its owner's. */
  *#foreignPartitions({ writes, fence }: Commit): Generator<number> {
    const { partitions } = this.#use().meta;
    for (const { letters } of writes) {
      if (letters === undefined) continue;
      for (const { to } of letters) {
        const partition = partitionOf(to, partitions);
        if (!(partition in fence.epochs)) yield partition;
      }
    }
  }
}
