/**
 * Ownership of a store's directory. The lock is an exclusive transaction on the empty SQLite file `lock.db`, held
 * for the life of the owner: a POSIX lock, which the kernel frees when the process dies, whatever killed it.
 * `owner.json` says who and where the owner is; it is only information, and is stale after a kill.
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
import { DirectoryOwned, type Owner } from "./faults.ts";

const LOCK_FILE = "lock.db";
const OWNER_FILE = "owner.json";
const BUSY = 5;

/** The lock as held by this process. */
export class DirectoryLock {
  readonly #directory: string;
  readonly #connection: Connection;
  #owner: Owner;

  private constructor(directory: string, connection: Connection, owner: Owner) {
    this.#directory = directory;
    this.#connection = connection;
    this.#owner = owner;
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
    this.#owner = { ...this.#owner, listening };
    this.#writeOwner();
  }

  release(): void {
    rmSync(join(this.#directory, OWNER_FILE), { force: true });
    this.#connection.close();
  }

  #writeOwner(): void {
    const file = join(this.#directory, OWNER_FILE);
    writeFileSync(`${file}.new`, `${JSON.stringify(this.#owner)}\n`, { mode: 0o600 });
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
  try {
    const { pid, startedAt, listening } = JSON.parse(readFileSync(join(directory, OWNER_FILE), "utf8"));
    if (!Number.isInteger(pid) || !Number.isInteger(startedAt)) return null;
    return { pid, startedAt, ...(typeof listening === "string" ? { listening } : {}) };
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
