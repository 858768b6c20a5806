/**
 * The synchronous store of one directory, which runs in the store's thread:
 * 1. it owns the directory (directory-lock.ts) and its database (open-database.ts);
 * 2. it writes each commit in one fenced transaction; reads and backups use the same connection;
 * 3. it runs checkpoints of the WAL after the reply to a commit;
 * 4. it turns errors of SQLite into faults, and refuses all further writes after a fault that may have damaged the file;
 * 5. it refuses writes while its files are moved away or replaced (open-files.ts).
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, Bug } from "../../std/assert.ts";
import { joinParts, type SyncStore } from "../derived-store.ts";
import { type CommitVerdict, type Fence, StoreFault, type StoreInfo, type TableFinding } from "../store.ts";
import { Checkpoints } from "./checkpoints.ts";
import { type Bytes, type Connection, type Driver, integer, text, textOf } from "./driver.ts";
import { DiskFailed, faultOf, type Owner, StoreUnreadable } from "./faults.ts";
import { copyDatabase } from "./files/copy-database.ts";
import { DirectoryLock } from "./files/directory-lock.ts";
import { OpenFiles } from "./files/open-files.ts";
import { isLogLost } from "./files/wal-losses.ts";
import { damageMark, databaseFile, openDatabase } from "./open-database.ts";
import { type Packed, unpackWrites } from "./packed-commit.ts";
import { Purger, Shrinker } from "./purger.ts";
import { RecordReader } from "./record-reader.ts";
import { Repairs } from "./repairs.ts";
import { SearchIndex, SearchReader } from "./search-index.ts";
import { SideWriter } from "./side-writer.ts";
import { SqliteReader } from "./sqlite-reader.ts";
import { SqliteWriter } from "./sqlite-writer.ts";

/** The methods of the store port that the parts of this store implement. TypeScript checks that no method is missing. */
type Answers = Omit<SyncStore, "commit" | "readLogs" | "purge" | "auditTables"> &
  Pick<RecordReader, "readLogs">;

/** The methods that the engine's thread can call. */
export type ThreadMethods = Answers &
  Pick<
    DirectoryStore,
    "open" | "announce" | "commit" | "auditTables" | "forget" | "sweep" | "shrink" | "backup" | "close"
  >;

interface Opened {
  readonly lock: DirectoryLock;
  readonly connection: Connection;
  readonly files: OpenFiles;
  readonly checkpoints: Checkpoints;
  readonly writer: SqliteWriter;
  readonly purger: Purger;
  readonly shrinker: Shrinker;
  readonly repairs: Repairs;
  readonly answers: Answers;
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

/** An embedded store has one owner, so one partition is enough. */
const PARTITIONS = 1;

interface Context {
  readonly writing: boolean;
  /** The file that the call uses, for error messages, if it is not the database. */
  readonly file?: string;
  /** Whether the call fails if the files of the store were moved. By default, writes fail then. */
  readonly isPlaced?: boolean;
}

const READING: Context = { writing: false };
const WRITING: Context = { writing: true };
/** The close of the store copies the WAL into the database file. This is allowed even if the WAL file was moved away. */
const CLOSING: Context = { writing: true, isPlaced: false };

export class DirectoryStore {
  readonly #directory: string;
  readonly #file: string;
  readonly #driver: Driver;
  #opened: Opened | null = null;
  /** The first fault after which the database file must not be written any more; null if there was none. */
  #stopped: StoreFault | null = null;

  constructor(directory: string, driver: Driver) {
    this.#directory = directory;
    this.#file = databaseFile(directory);
    this.#driver = driver;
  }

  /** Runs a call from the engine's thread: by a method of this class, or else by one of its parts. */
  call<M extends keyof ThreadMethods>(
    method: M,
    args: Parameters<ThreadMethods[M]>,
  ): ReturnType<ThreadMethods[M]> {
    const target: object = method in this ? this : this.#use().answers;
    const run: unknown = Reflect.get(target, method);
    if (typeof run !== "function")
      throw new Bug(
        `the store's thread does not know the call ${method}: it is of another build than the engine; build or install Rondo again`,
      );
    return Reflect.apply(run, target, args);
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
    this.#guard(READING, () => this.#use().lock.announce(listening));
  }

  commit(fence: Fence, packed: Packed, mailTaken: readonly string[] = []): CommitVerdict {
    return this.#guard(WRITING, () => {
      const { writer, checkpoints } = this.#use();
      const verdict = writer.commit(fence, unpackWrites(packed), mailTaken);
      checkpoints.note(writer.written.rows, writer.written.chars);
      return verdict;
    });
  }

  auditTables(options: { readonly repair: boolean }): TableFinding[] {
    return this.#guard({ writing: options.repair }, () => this.#use().repairs.auditTables(options));
  }

  /** Runs the first step of a purge (purger.ts) for some of the ids; returns how many it has handled. */
  forget(ids: readonly string[]): number {
    return this.#guard(WRITING, () => this.#use().purger.forget(ids));
  }

  /** Runs a part of the second step of a purge. Returns true if there is more to do. */
  sweep(): boolean {
    return this.#guard(WRITING, () => this.#use().purger.sweep());
  }

  /** Returns some free pages of the database file to the file system. Returns true if there are more. */
  shrink(): boolean {
    return this.#guard(WRITING, () => this.#use().shrinker.shrink());
  }

  /** Writes a consistent, durable copy of the database into an empty file. */
  backup(file: string): void {
    this.#guard(READING, () => copyDatabase(this.#use().connection, file));
  }

  /**
   * Called when no call of the engine is running: runs a checkpoint if one is due. A full disk is ignored, because the next
   * commit reports it.
   */
  maintain(): void {
    const checkpoints = this.#opened?.checkpoints;
    if (checkpoints?.due !== true || this.#stopped !== null) return;
    this.#unlessFull(() => checkpoints.run());
  }

  /** The fault if files of the store were moved away or replaced; null if all are in their places. */
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
          "The store has lost at least 1 transaction. The most recently acknowledged writes may be missing; compare with a backup",
      );
    }
    connection.exec(
      `UPDATE meta SET unclean_epoch = CASE clean WHEN 0 THEN epoch ELSE unclean_epoch END,
        epoch = epoch + 1, clean = 0`,
    );
    const { partitions, epoch, uncleanEpoch, generation, key } = this.#readMeta(connection);
    const checkpoints = new Checkpoints(connection);
    const writer = new SqliteWriter(connection, { generation, epoch });
    const written = { connection, writer, checkpoints };
    const search = new SearchIndex(written);
    const repairs = new Repairs(written);
    const reads = [
      new SqliteReader(connection),
      new RecordReader(connection),
      new SearchReader(connection),
    ] as const;
    const purger = new Purger(written, search);
    const writes = [new SideWriter(connection, checkpoints), search, repairs, purger] as const;
    this.#opened = {
      lock,
      connection,
      files: new OpenFiles(this.#file),
      checkpoints,
      writer,
      purger,
      shrinker: new Shrinker(connection, checkpoints),
      repairs,
      answers: Object.assign(
        joinParts(writes, (run) => this.#guard(WRITING, run)),
        joinParts(reads, (run) => this.#guard(READING, run)),
      ),
    };
    lock.noteOpened({ generation, epoch });
    if (partitions !== PARTITIONS)
      warnings.push(
        `${this.#file}: the table meta says that there are ${partitions} partitions, but an embedded store has one`,
      );
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

  /** Marks the database as damaged. The next open then checks the whole file, however large it is, and refuses a damaged one. */
  #markDamaged(fault: StoreUnreadable): void {
    try {
      writeFileSync(damageMark(this.#file), `${fault.message}\n`, { mode: 0o600 });
    } catch (error) {
      // The mark could not be written, perhaps because of the same fault of the disk. The first fault is reported anyway.
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
