/**
 * Ownership of a store's directory. The lock is an exclusive transaction on the empty SQLite file `lock.db`, held
 * for the life of the owner: a POSIX lock, which the kernel frees when the process dies, whatever killed it.
 * `owner.json` says who and where the owner is, and in which epoch it has opened the store. It stays after a kill: then the
 * next owner can tell whether the store still has that epoch (`opened`).
 *
 * Such locks are per process, hence the second guard for one process; and a process loses them when it closes any
 * file handle of its own on the locked file, so nobody but SQLite may open `lock.db` or `rondo.db` in the owner.
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
import type { Connection, Driver } from "./driver.ts";
import { SqliteError } from "./driver.ts";
import { syncDirectory, syncFile } from "./durable-files.ts";
import { DirectoryOwned, type Owner } from "./faults.ts";

const LOCK_FILE = "lock.db";
const OWNER_FILE = "owner.json";
const BUSY = 5;

/** A store as an owner has opened it. */
export interface OpenedStore {
  readonly generation: string;
  readonly epoch: number;
}

interface OwnerFile extends Owner {
  readonly opened?: OpenedStore;
}

/** The lock as held by this process. */
export class DirectoryLock {
  readonly #directory: string;
  readonly #connection: Connection;
  /** What the last owner had opened, if it did not end by itself; null: it did, or it is not known. */
  readonly left: OpenedStore | null;
  #content: OwnerFile;

  private constructor(directory: string, connection: Connection, owner: Owner) {
    this.#directory = directory;
    this.#connection = connection;
    this.left = readFile(directory)?.opened ?? null;
    // Until this owner has opened the store, the next one may have to know it too.
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

  /** Tells those who come second where the owner listens. */
  announce(listening: string): void {
    this.#content = { ...this.#content, listening };
    this.#writeOwner();
  }

  /** Notes that the store is open in an epoch, which is durable, and that it has a WAL from now on. */
  noteOpened(opened: OpenedStore): void {
    this.#content = { ...this.#content, opened };
    this.#writeOwner();
  }

  /** Notes, durably, that everything is in the database file, so that the WAL may go. */
  noteWhole(): void {
    const { opened: _, ...content } = this.#content;
    this.#content = content;
    this.#writeOwner();
    syncFile(join(this.#directory, OWNER_FILE));
    syncDirectory(this.#directory);
  }

  /** `keep`: what this owner had opened is not in its place, and the next one has to know. */
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

/** SQLite would make it readable for all, as earlier versions did. It is not opened here if it is there. */
function keepPrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const { mode, uid } = statSync(file);
    if ((mode & 0o077) !== 0 && uid === process.getuid?.()) chmodSync(file, 0o600);
  }
}

/** Who says to own the directory; null if nothing readable is there. */
export function readOwner(directory: string): Owner | null {
  const file = readFile(directory);
  if (file === null) return null;
  const { opened: _, ...owner } = file;
  return owner;
}

/** What the last owner of a directory had opened, if it did not end by itself; null: it did, or it is not known. */
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
    // Absent, cut short or garbled: the lock decides, this file only informs.
    return null;
  }
}

/** Whether the process that says to own the directory runs. Only for information: the lock decides. */
export function hasLiveOwner(directory: string): boolean {
  const owner = readOwner(directory);
  if (owner === null) return false;
  try {
    return process.kill(owner.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Directories in use by this process, shared by all copies of this module in it. */
const HELD = Symbol.for("rondo.directories");
const held: Set<string> = ((globalThis as Record<symbol, unknown>)[HELD] ??=
  new Set<string>()) as Set<string>;

/** Marks a directory (a real path) as used by this process; throws `DirectoryOwned` if it is. */
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
