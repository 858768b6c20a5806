/**
 * The synchronous store of one directory, as it runs in the store's thread:
 * 1. owns the directory (directory-lock.ts) and its database (open-database.ts);
 * 2. writes by one fenced transaction per commit, reads through the same connection, copies itself as a whole;
 * 3. copies the WAL when it is long, after the commit's answer has gone out;
 * 4. turns errors of SQLite into faults, and after one that puts the file in doubt refuses every further write;
 * 5. refuses writes while its files are not in their places (open-files.ts).
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import { assert } from "../../std/assert.ts";
import type { FoundOrders } from "../found-orders.ts";
import type { PackedLogRow } from "../packed-log.ts";
import type { SearchWord } from "../search-terms.ts";
import {
  type CommitVerdict,
  type Derived,
  type Fence,
  type HeadFilter,
  type JournalRange,
  type LoadedExecution,
  type MailboxMessage,
  type StoredDeadLetter,
  type StoredDocument,
  type StoredHead,
  type StoredMailboxMessage,
  type StoredTimer,
  StoreFault,
  type StoreInfo,
  type Swap,
  type TableFinding,
} from "../store.ts";
import { Checkpoints } from "./checkpoints.ts";
import { copyDatabase } from "./copy-database.ts";
import { DirectoryLock } from "./directory-lock.ts";
import { type Bytes, type Connection, type Driver, integer, text, textOf } from "./driver.ts";
import { DiskFailed, faultOf, type Owner, StoreUnreadable } from "./faults.ts";
import { damageMark, databaseFile, openDatabase } from "./open-database.ts";
import { OpenFiles } from "./open-files.ts";
import type { RowWrite } from "./packed-commit.ts";
import { Purger } from "./purger.ts";
import { RecordReader } from "./record-reader.ts";
import { Repairs } from "./repairs.ts";
import { SearchIndex } from "./search-index.ts";
import { Shrinker } from "./shrinker.ts";
import { SideWriter } from "./side-writer.ts";
import { SqliteReader } from "./sqlite-reader.ts";
import { SqliteWriter } from "./sqlite-writer.ts";
import { isLogLost } from "./wal-losses.ts";

interface Opened {
  readonly lock: DirectoryLock;
  readonly connection: Connection;
  readonly files: OpenFiles;
  readonly writer: SqliteWriter;
  readonly reader: SqliteReader;
  readonly records: RecordReader;
  readonly side: SideWriter;
  readonly purger: Purger;
  readonly repairs: Repairs;
  readonly search: SearchIndex;
  readonly checkpoints: Checkpoints;
  readonly shrinker: Shrinker;
}

const META = `SELECT ${text("generation")} AS generation, ${text("key")} AS key, ${integer("partitions")} AS partitions,
  ${integer("epoch")} AS epoch, ${integer("unclean_epoch")} AS unclean_epoch, ${integer("clean")} AS clean FROM meta`;

interface MetaRow {
  readonly generation: Bytes;
  readonly key: Bytes;
  readonly partitions: number;
  readonly epoch: number;
  readonly unclean_epoch: number;
  readonly clean: number;
}

/** An embedded store has one owner, and so one partition. */
const PARTITIONS = 1;

interface Context {
  readonly writing: boolean;
  /** The file that is concerned, if not the database. */
  readonly file?: string;
  /** Refused while the files are not in their places; every write is, unless this says otherwise. */
  readonly isPlaced?: boolean;
}

/** What puts the WAL into the database file: it is of use also if the WAL is not in its place. */
const CLOSING: Context = { writing: true, isPlaced: false };

export class DirectoryStore {
  readonly #directory: string;
  readonly #file: string;
  readonly #driver: Driver;
  #opened: Opened | null = null;
  /** Set by the first fault after which the file must not be written again. */
  #stopped: StoreFault | null = null;

  constructor(directory: string, driver: Driver) {
    this.#directory = directory;
    this.#file = databaseFile(directory);
    this.#driver = driver;
  }

  open(owner: Owner): StoreInfo {
    return this.#guard({ writing: true, file: join(this.#directory, "lock.db") }, () => {
      const lock = DirectoryLock.take(this.#directory, this.#driver, owner);
      try {
        return this.#guard({ writing: true }, () => this.#openFile(lock));
      } catch (error) {
        lock.release();
        throw error;
      }
    });
  }

  announce(listening: string): void {
    this.#guard({ writing: false }, () => this.#use().lock.announce(listening));
  }

  commit(fence: Fence, writes: readonly RowWrite[], lettersTaken: readonly string[] = []): CommitVerdict {
    return this.#guard({ writing: true }, () => {
      const { writer, checkpoints } = this.#use();
      const verdict = writer.commit(fence, writes, lettersTaken);
      checkpoints.note(writer.written.rows, writer.written.chars);
      return verdict;
    });
  }

  load(ids: readonly string[], options: { foldVersion?: number } = {}): (LoadedExecution | null)[] {
    return this.#read((reader) => ids.map((id) => reader.load(id, options.foldVersion)));
  }

  readJournal(range: JournalRange): Entry[] {
    return this.#read((reader) => reader.readJournal(range));
  }

  scanWork(options: { after: Readonly<Record<string, number>>; each: number }): StoredHead[] {
    return this.#read((reader) => reader.scanWork(options));
  }

  scanTimers(options: { from?: number; until: number; max: number }): StoredTimer[] {
    return this.#read((reader) => reader.scanTimers(options));
  }

  listHeads(filter: HeadFilter, options: { before: number | null; max: number }): StoredHead[] {
    return this.#read((reader) => reader.listHeads(filter, options));
  }

  findOrders(word: SearchWord, options: { before: number; max: number }): FoundOrders {
    return this.#guard({ writing: false }, () => this.#use().search.find(word, options));
  }

  headsOf(orders: readonly number[]): StoredHead[] {
    return this.#read((reader) => reader.headsOf(orders));
  }

  /** Some executions are indexed: true if there are more. */
  indexSome(): boolean {
    return this.#guard({ writing: true }, () => {
      const { search, writer, checkpoints } = this.#use();
      const noted = writer.takeNoted(search.sliceSize);
      try {
        const { rows, more } = search.write(noted);
        checkpoints.note(rows, 0);
        return more || writer.hasNoted;
      } catch (error) {
        writer.noteAgain(noted);
        throw error;
      }
    });
  }

  clearIndex(): void {
    this.#guard({ writing: true }, () => this.#use().search.clear());
  }

  scanLetters(options: { after: number; max: number }): StoredMailboxMessage[] {
    return this.#readRecords((records) => records.scanLetters(options));
  }

  readLogs(options: { execution: string; after: number; rowsMax: number }): PackedLogRow[] {
    return this.#readRecords((records) => records.readLogs(options));
  }

  listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): StoredDeadLetter[] {
    return this.#readRecords((records) => records.listDeadLetters(filter, options));
  }

  dropDeadLetter(order: number, tasks: readonly number[] | null): void {
    this.#writeSide(1, (side) => side.dropDeadLetter(order, tasks));
  }

  countHeads(filter: Omit<HeadFilter, "status">): Record<string, number> {
    return this.#readRecords((records) => records.countHeads(filter));
  }

  listEnded(options: { finishedBefore: number; max: number }): string[] {
    return this.#readRecords((records) => records.listEnded(options));
  }

  putDerived(derived: Derived): boolean {
    return this.#guard({ writing: true }, () => {
      const { repairs, writer, checkpoints } = this.#use();
      const isPut = repairs.putDerived(derived);
      writer.forget([derived.head.id]);
      checkpoints.note(4 + (derived.timers?.length ?? 0), 0);
      return isPut;
    });
  }

  timersOf(execution: string): { timer: string; due: number }[] {
    return this.#guard({ writing: false }, () => this.#use().repairs.timersOf(execution));
  }

  dropDamaged(execution: string, letter: MailboxMessage | null): boolean {
    return this.#guard({ writing: true }, () => {
      const { repairs, writer } = this.#use();
      const isDropped = repairs.dropDamaged(execution, letter, writer.lastE);
      writer.forget([execution]);
      return isDropped;
    });
  }

  auditTables(options: { readonly repair: boolean }): TableFinding[] {
    return this.#guard({ writing: options.repair }, () => this.#use().repairs.auditTables(options));
  }

  /** The first part of a purge: the first of these executions are gone for everybody. Says how many of them. */
  forget(ids: readonly string[]): number {
    return this.#guard({ writing: true }, () => {
      const { purger, writer, checkpoints } = this.#use();
      const forgotten = purger.forget(ids, writer.lastE);
      writer.forget(ids.slice(0, forgotten));
      checkpoints.note(4 * forgotten, 0);
      return forgotten;
    });
  }

  /** The rest of it, some rows at a time: true if there is more. */
  sweep(): boolean {
    return this.#guard({ writing: true }, () => {
      const { purger, checkpoints } = this.#use();
      const { rows, more } = purger.sweep();
      checkpoints.note(2 * rows, 0);
      return more;
    });
  }

  /** Gives some of the free room back to the file system: true if there is more. */
  shrink(): boolean {
    return this.#guard({ writing: true }, () => {
      const { shrinker, checkpoints, connection } = this.#use();
      const { pages, more } = shrinker.run();
      checkpoints.note(pages, 0);
      // The file gets shorter when the WAL is copied; then the WAL itself is cut too.
      if (pages > 0 && !more) connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      return more;
    });
  }

  putDocument(kind: string, id: string, body: string | null): void {
    this.#writeSide(body?.length ?? 0, (side) => side.putDocument(kind, id, body));
  }

  swapDocument(kind: string, id: string, swap: Swap): boolean {
    return this.#writeSide(swap.body.length, (side) => side.swapDocument(kind, id, swap));
  }

  getDocument(kind: string, id: string): string | null {
    return this.#readRecords((records) => records.getDocument(kind, id));
  }

  listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): StoredDocument[] {
    return this.#readRecords((records) => records.listDocuments(kind, options));
  }

  putDefinition(name: string, hash: string, body: string): void {
    this.#writeSide(body.length, (side) => side.putDefinition(name, hash, body));
  }

  dropDefinition(name: string, hash: string): void {
    this.#writeSide(0, (side) => side.dropDefinition(name, hash));
  }

  getDefinition(by: { hash: string } | { newestOf: string }): { hash: string; body: string } | null {
    return this.#read((reader) => reader.getDefinition(by));
  }

  listDefinitions(options: { after: string; max: number }): { name: string; hash: string }[] {
    return this.#readRecords((records) => records.listDefinitions(options));
  }

  /** Puts a consistent, durable copy of the database in the place of an empty file. */
  backup(file: string): void {
    this.#guard({ writing: false }, () => copyDatabase(this.#use().connection, file));
  }

  /** Between calls: copies the WAL if it is long. For want of room it stays; commits will say so. */
  maintain(): void {
    const checkpoints = this.#opened?.checkpoints;
    if (checkpoints?.due !== true || this.#stopped !== null) return;
    this.#unlessFull(() => checkpoints.run());
  }

  /** Why its files are not the ones that are open; null: they are. */
  get filesFault(): StoreFault | null {
    return this.#opened?.files.fault ?? null;
  }

  close(options: { clean: boolean }): void {
    const { connection, lock, files } = this.#use();
    const isInPlace = files.hasDatabase;
    if (this.#stopped === null && isInPlace) {
      if (options.clean) this.#guard(CLOSING, () => connection.exec("UPDATE meta SET clean = 1"));
      this.#unlessFull(() => {
        connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        lock.noteWhole();
      });
    }
    connection.close();
    lock.release({ keep: !isInPlace });
    this.#opened = null;
  }

  #openFile(lock: DirectoryLock): StoreInfo {
    const warnings: string[] = [];
    let lostTransactions = 0;
    const [hasFile, hasLog] = [existsSync(this.#file), existsSync(`${this.#file}-wal`)];
    const connection = openDatabase(this.#file, {
      driver: this.#driver,
      warn: (what) => warnings.push(what),
      noteLost: (transactions) => {
        lostTransactions = transactions;
      },
      beforeMigration: () => lock.noteWhole(),
    });
    const found = this.#readMeta(connection);
    if (isLogLost(lock.left, { ...found, hasFile, hasLog, isClean: found.clean === 1 })) {
      lostTransactions = Math.max(1, lostTransactions);
      warnings.push(
        `The last process that had ${this.#file}${hasFile ? "-wal" : ""} open did not close it, and the file was removed or replaced. ` +
          "The store has lost at least 1 transaction. What was acknowledged last may be missing; compare with a backup",
      );
    }
    connection.exec(
      `UPDATE meta SET unclean_epoch = CASE clean WHEN 0 THEN epoch ELSE unclean_epoch END,
        epoch = epoch + 1, clean = 0`,
    );
    const { partitions, epoch, uncleanEpoch, generation, key } = this.#readMeta(connection);
    const search = new SearchIndex(connection);
    this.#opened = {
      lock,
      connection,
      files: new OpenFiles(this.#file),
      writer: new SqliteWriter(connection, { generation, epoch }),
      reader: new SqliteReader(connection),
      records: new RecordReader(connection),
      side: new SideWriter(connection),
      purger: new Purger(connection, search),
      repairs: new Repairs(connection),
      search,
      checkpoints: new Checkpoints(connection),
      shrinker: new Shrinker(connection),
    };
    lock.noteOpened({ generation, epoch });
    if (partitions !== PARTITIONS)
      warnings.push(`${this.#file}: the table meta says ${partitions} partitions; an embedded store has one`);
    const owned = [{ partition: 0, epoch, uncleanEpoch }];
    return { generation, key, partitions: PARTITIONS, owned, warnings, lostTransactions };
  }

  #readMeta(connection: Connection) {
    const meta = connection.prepare(META).get<MetaRow>([]);
    if (meta === undefined)
      throw new StoreUnreadable(this.#file, {
        reason: "damaged",
        what: "is damaged in meta: its one row is missing",
      });
    const { partitions, epoch, unclean_epoch: uncleanEpoch, clean } = meta;
    return {
      generation: textOf(meta.generation),
      key: textOf(meta.key),
      ...{ partitions, epoch, uncleanEpoch, clean },
    };
  }

  #use(): Opened {
    assert(this.#opened !== null, "the store is open");
    return this.#opened;
  }

  #read<T>(read: (reader: SqliteReader) => T): T {
    return this.#guard({ writing: false }, () => read(this.#use().reader));
  }

  #readRecords<T>(read: (records: RecordReader) => T): T {
    return this.#guard({ writing: false }, () => read(this.#use().records));
  }

  #writeSide<T>(chars: number, write: (side: SideWriter) => T): T {
    return this.#guard({ writing: true }, () => {
      const { side, checkpoints } = this.#use();
      const written = write(side);
      checkpoints.note(1, chars);
      return written;
    });
  }

  /** The next open looks at the whole file, however large it is, and refuses it if SQLite was right. */
  #markDamaged(fault: StoreUnreadable): void {
    try {
      writeFileSync(damageMark(this.#file), `${fault.message}\n`, { mode: 0o600 });
    } catch (error) {
      // The disk may be the reason of it all: the fault itself says more than this.
      if (!(error instanceof Error && "syscall" in error)) throw error;
    }
  }

  #unlessFull(write: () => void): void {
    try {
      this.#guard(CLOSING, write);
    } catch (error) {
      if (!(error instanceof StoreFault && error.retryable)) throw error;
    }
  }

  #guard<T>(context: Context, run: () => T): T {
    const { writing, isPlaced = writing } = context;
    if (writing && this.#stopped !== null) throw this.#stopped;
    const moved = isPlaced ? this.filesFault : null;
    if (moved !== null) throw moved;
    try {
      return run();
    } catch (error) {
      const fault = faultOf(error, { file: context.file ?? this.#file, writing });
      if (fault instanceof DiskFailed || fault instanceof StoreUnreadable) this.#stopped = fault;
      if (fault instanceof StoreUnreadable && this.#opened !== null) this.#markDamaged(fault);
      throw fault;
    }
  }
}
