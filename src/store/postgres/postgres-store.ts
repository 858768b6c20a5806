/**
 * The store port over PostgreSQL, for a node of a cluster. It has these connections:
 * 1. one for commits: a call carries all waiting commits, and the next one may be sent while it runs (commit-queue.ts);
 * 2. one for membership: renewals, taking and releasing partitions, hints; no other call delays it;
 * 3. two for everything else.
 */
import { assert } from "../../std/assert.ts";
import { systemClock } from "../../std/clock.ts";
import { assertWritable } from "../check-write.ts";
import type { ClusterStore, Hint, Membership } from "../cluster-store.ts";
import { callMethod, DerivedStore, type StoreMethod } from "../derived-store.ts";
import { partitionOf } from "../partition-of.ts";
import { SearchIndexer } from "../search-indexer.ts";
import {
  type Commit,
  type CommitVerdict,
  type LoadedExecution,
  type MailboxMessage,
  type Ownership,
  StoreFault,
  type StoreInfo,
  type TableFinding,
} from "../store.ts";
import { headKey } from "./commit-columns.ts";
import { Database, PARTITIONS_DEFAULT } from "./database.ts";
import { Hosts } from "./hosts.ts";
import { Link } from "./link.ts";
import { linkOptions, makeParts, type PostgresParts, type PostgresStoreOptions } from "./postgres-parts.ts";
import { SCHEMA_DEFAULT } from "./schema-place.ts";

export class PostgresStore extends DerivedStore implements ClusterStore {
  readonly #options: PostgresStoreOptions;
  #opened: PostgresParts | null = null;
  readonly #indexer = new SearchIndexer(this);
  #callback: ((hint: Hint) => void) | null = null;

  constructor(options: PostgresStoreOptions) {
    super();
    this.#options = options;
  }

  async open(): Promise<StoreInfo> {
    assert(this.#opened === null, "a store is opened once");
    const { schema = SCHEMA_DEFAULT, partitions = PARTITIONS_DEFAULT } = this.#options;
    const { url, nodeUrl, clock = systemClock(), onLine } = this.#options;
    const hosts = new Hosts(url, clock, onLine);
    const database = new Database(schema, { nodeUrl, clock });
    // The set-up of the first connection has no timeout, because it runs the migrations, which can take long.
    const first = new Link({
      ...linkOptions(this.#options, hosts, "open"),
      begin: async (client) => void (await database.open(client, partitions)),
    });
    try {
      await first.connected();
    } finally {
      await first.end();
    }
    this.#opened = makeParts({ database, hosts }, this.#options, (hint) => this.#callback?.(hint));
    this.#indexer.start();
    const { generation, key, partitions: count } = database.meta;
    return { generation, key, partitions: count, owned: [] };
  }

  override async commit(commit: Commit): Promise<CommitVerdict> {
    const { queue, hints, meta, search } = this.#use();
    for (const write of commit.writes) assertWritable(write, partitionOf(write.execution, meta.partitions));
    const verdict = await queue.commit(commit);
    if (verdict.kind === "ok") {
      hints.mail(this.#foreignPartitions(commit));
      search.committed(commit);
    }
    return verdict;
  }

  override async load(
    ids: readonly string[],
    options: { readonly foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    const { reader, knowledge, membership, meta, queue } = this.#use();
    await queue.settled();
    const ownedIn = new Map(ids.map((id) => [id, membership.epochOf(partitionOf(id, meta.partitions))]));
    const { forgotten } = knowledge;
    const loaded = await reader.loadAll(ids, options.foldVersion);
    for (const [id, { e, end, phase, execution }] of loaded) {
      const epoch = ownedIn.get(id);
      if (epoch === undefined || execution.damage !== undefined) continue;
      const head = headKey(execution.head);
      knowledge.suggest(id, { e, end, epoch: execution.epoch, ownedIn: epoch, head, phase }, forgotten);
    }
    return ids.map((id) => loaded.get(id)?.execution ?? null);
  }

  override async purge(ids: readonly string[]): Promise<void> {
    const { side, queue, knowledge, membership, meta, search } = this.#use();
    const { lock, partitions } = meta;
    const executions = ids.map((id) => ({ id, partition: partitionOf(id, partitions) }));
    const remove = await search.removing(ids);
    // No commit runs while executions are deleted, so the cache stays right until they are removed from it.
    await queue.alone(async () => {
      knowledge.forget(ids);
      await side.forget(executions, { lock, incarnation: membership.incarnation });
    });
    await remove();
    await side.sweep();
  }

  override async auditTables({ repair }: { readonly repair: boolean }): Promise<readonly TableFinding[]> {
    // Rebuilding the search index is cheaper than comparing it.
    if (repair) await this.clearIndex();
    return this.#use().repairs.auditTables({ repair });
  }

  async now(): Promise<number> {
    return this.#use().records.now();
  }

  async renew(): Promise<Membership> {
    const { membership, hints, database, control } = this.#use();
    const { isNew, walPosition, ...renewed } = await membership.renew();
    database.sawWalPosition(walPosition, control.timeline);
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

  async post(messages: readonly MailboxMessage[]): Promise<void> {
    if (messages.length === 0) return;
    const { membership, hints, meta } = this.#use();
    const placed = messages.map((message) => ({
      ...message,
      partition: partitionOf(message.to, meta.partitions),
    }));
    await membership.post(placed);
    hints.mail(placed.map(({ partition }) => partition));
  }

  onHint(callback: (hint: Hint) => void): void {
    this.#callback = callback;
  }

  async close(options: { clean: boolean }): Promise<void> {
    const opened = this.#opened;
    if (opened === null) return;
    this.#indexer.stop();
    // After this point, calls of the store are refused.
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

  protected override answer(method: StoreMethod, args: readonly unknown[]): unknown {
    return callMethod(this.#use().answers, method, args);
  }

  /** Returns the partitions of other owners to which a commit sends mailbox messages. */
  *#foreignPartitions({ writes, fence }: Commit): Generator<number> {
    const { partitions } = this.#use().meta;
    for (const { mail } of writes) {
      if (mail === undefined) continue;
      for (const { to } of mail) {
        const partition = partitionOf(to, partitions);
        if (!(partition in fence.epochs)) yield partition;
      }
    }
  }
}
