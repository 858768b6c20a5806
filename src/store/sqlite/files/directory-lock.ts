/**
 * Ownership of a store's directory. The lock is an exclusive transaction on the empty SQLite file `lock.db`, held while the
 * owner lives: a POSIX lock, which the kernel releases when the process dies. `owner.json` has the process and address of the
 * owner, and the epoch in which it opened the store. It stays after a kill, so that the next owner can check whether the store
 * still has that epoch (`opened`).
 *
 * POSIX locks do not exclude the same process, hence the second lock per process. A process loses its locks when it closes
 * any file handle on the locked file, so only SQLite may open `lock.db` or `rondo.db` in the owner.
 */
import {
  chmodSync,
  closeSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Connection, Driver } from "../driver.ts";
import { SqliteError } from "../driver.ts";
import { DirectoryOwned, type Owner } from "../faults.ts";
import { syncDirectory, syncFile } from "./durable-files.ts";

const LOCK_FILE = "lock.db";
const OWNER_FILE = "owner.json";
const BUSY = 5;

export interface OpenedStore {
  readonly generation: string;
  readonly epoch: number;
}

interface OwnerFile extends Owner {
  readonly opened?: OpenedStore;
}

/** The lock of a directory, held by this process. */
export class DirectoryLock {
  readonly #directory: string;
  readonly #connection: Connection;
  /** The store that the last owner had open when it was killed. Null if it closed the store, or if this is unknown. */
  readonly left: OpenedStore | null;
  #content: OwnerFile;

  private constructor(directory: string, connection: Connection, owner: Owner) {
    this.#directory = directory;
    this.#connection = connection;
    this.left = readFile(directory)?.opened ?? null;
    // The former owner's entry is kept until this owner has opened the store. If this owner is killed before, the next one
    // needs the entry too.
    this.#content = { ...owner, ...(this.left === null ? {} : { opened: this.left }) };
  }

  /** Takes the lock, or throws `DirectoryOwned`. */
  static take(directory: string, driver: Driver, owner: Owner): DirectoryLock {
    const file = join(directory, LOCK_FILE);
    keepPrivate(file);
    const connection = driver.open(file);
    try {
      connection.exec("PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    } catch (error) {
      connection.close();
      if (error instanceof SqliteError && (error.code & 0xff) === BUSY)
        throw new DirectoryOwned(directory, readOwner(directory));
      throw error;
    }
    const lock = new DirectoryLock(directory, connection, owner);
    try {
      lock.#writeOwner();
    } catch (error) {
      lock.release();
      throw error;
    }
    return lock;
  }

  /** Writes the address of this owner's API to `owner.json`, for other processes that find the directory in use. */
  announce(listening: string): void {
    this.#content = { ...this.#content, listening };
    this.#writeOwner();
  }

  /** Records in `owner.json` that the store is open, with its epoch. From now on the database has a WAL. */
  noteOpened(opened: OpenedStore): void {
    this.#content = { ...this.#content, opened };
    this.#writeOwner();
  }

  /** Records durably that the database file is complete, so that a missing WAL loses nothing. */
  noteWhole(): void {
    const { opened: _, ...content } = this.#content;
    this.#content = content;
    this.#writeOwner();
    syncFile(join(this.#directory, OWNER_FILE));
    syncDirectory(this.#directory);
  }

  /**
   * Releases the lock. With `keep`, `owner.json` stays, because the files of the store were moved away and the next owner must know that.
   */
  release({ keep }: { readonly keep: boolean } = { keep: false }): void {
    if (!keep) rmSync(join(this.#directory, OWNER_FILE), { force: true });
    this.#connection.close();
  }

  #writeOwner(): void {
    const file = join(this.#directory, OWNER_FILE);
    writeFileSync(`${file}.new`, `${JSON.stringify(this.#content)}\n`, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
}

/** Creates the lock file so that only its owner can read it; SQLite would make it readable for all. An existing file is not opened. */
function keepPrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const { mode, uid } = statSync(file);
    if ((mode & 0o077) !== 0 && uid === process.getuid?.()) chmodSync(file, 0o600);
  }
}

/** The owner according to `owner.json`; null if the file is missing or unreadable. */
export function readOwner(directory: string): Owner | null {
  const file = readFile(directory);
  if (file === null) return null;
  const { opened: _, ...owner } = file;
  return owner;
}

export function readOpened(directory: string): OpenedStore | null {
  return readFile(directory)?.opened ?? null;
}

function readFile(directory: string): OwnerFile | null {
  try {
    const { pid, startedAt, listening, opened } = JSON.parse(
      readFileSync(join(directory, OWNER_FILE), "utf8"),
    );
    if (!Number.isInteger(pid) || !Number.isInteger(startedAt)) return null;
    const isOpened = typeof opened?.generation === "string" && Number.isInteger(opened.epoch);
    return {
      ...{ pid, startedAt },
      ...(typeof listening === "string" ? { listening } : {}),
      ...(isOpened ? { opened: { generation: opened.generation, epoch: opened.epoch } } : {}),
    };
  } catch {
    // The file `owner.json` is missing or damaged. It is only information: the lock decides who owns the directory.
    return null;
  }
}

/** Whether the process in `owner.json` runs. This is only information: the lock decides about ownership. */
export function hasLiveOwner(directory: string): boolean {
  const owner = readOwner(directory);
  if (owner === null) return false;
  try {
    return process.kill(owner.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The directories that this process uses. All copies of this module in the process share the set. */
const HELD = Symbol.for("rondo.directories");
const held: Set<string> = ((globalThis as Record<symbol, unknown>)[HELD] ??=
  new Set<string>()) as Set<string>;

/** Marks a directory (a real path) as used by this process; throws `DirectoryOwned` if it is used already. */
export function claimInProcess(directory: string): void {
  if (held.has(directory)) throw new DirectoryOwned(directory, readOwner(directory));
  held.add(directory);
}

export function isClaimedInProcess(directory: string): boolean {
  return held.has(directory);
}

export function releaseInProcess(directory: string): void {
  held.delete(directory);
}
