/**
 * Restores a backup into a directory without a store:
 * 1. it checks the seal of the backup, if there is one, before it creates anything;
 * 2. it owns the directory meanwhile, as a store does;
 * 3. it copies the backup under another name and verifies the copy: a database of Rondo, of a known version, every page;
 * 4. it sets a new generation and a new key, so that older leases and tokens are invalid, and marks the store as not closed
 *    cleanly, since leases may have been open when the backup was made;
 * 5. it makes the copy durable and renames it. Until then the directory has no store.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  realpathSync,
  renameSync,
  statSync,
  truncateSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { makeDirectory } from "../../../std/make-directory.ts";
import { RondoError, reject } from "../../../std/rejection.ts";
import { type Driver, loadDriver } from "../driver.ts";
import { DirectoryOwned, faultOf, StoreUnreadable, type UnreadableReason } from "../faults.ts";
import { MIGRATIONS } from "../migrations.ts";
import { databaseFile, newGeneration, newKey } from "../open-database.ts";
import { sealedBytes } from "./backup-seal.ts";
import { claimInProcess, DirectoryLock, isClaimedInProcess, releaseInProcess } from "./directory-lock.ts";
import { removeDatabase, syncDirectory, syncFile } from "./durable-files.ts";
import { verifyFile } from "./verify-file.ts";

/** Restores a backup. Throws `RondoError`, `DirectoryOwned` or `StoreUnreadable`. */
export async function restoreBackup(options: { file: string; directory: string }): Promise<void> {
  const driver = await loadDriver();
  const backup = checkSeal(findBackup(options.file));
  const directory = openDirectory(options.directory);
  claimInProcess(directory);
  try {
    guard(directory, () => {
      const lock = DirectoryLock.take(directory, driver, { pid: process.pid, startedAt: Date.now() });
      try {
        restore(backup, directory, driver);
      } finally {
        lock.release();
      }
    });
  } finally {
    releaseInProcess(directory);
  }
}

interface Backup {
  readonly path: string;
  readonly bytes: number;
}

function restore(backup: Backup, directory: string, driver: Driver): void {
  const file = databaseFile(directory);
  if ([file, `${file}-wal`, `${file}-journal`].some((path) => existsSync(path)))
    throw rejected("conflict", `the directory ${directory} has a store already`, {
      hint: "choose an empty directory, or move that store away (all files that begin with rondo.db)",
    });
  const copy = `${file}.new`;
  removeDatabase(copy);
  try {
    copyFileSync(backup.path, copy);
    chmodSync(copy, 0o600);
    truncateSync(copy, backup.bytes);
    verifyCopy(copy, backup.path, driver);
    renew(copy, driver);
    syncFile(copy);
    renameSync(copy, file);
    syncDirectory(directory);
  } catch (error) {
    removeDatabase(copy);
    throw error;
  }
}

/** Returns the real path of the backup; throws if it is not a file that can be copied. */
function findBackup(file: string): string {
  const path = resolve(file);
  const hint = "give the file that `rondo backup` has written";
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true)
    throw rejected("not_found", `there is no file ${path}`, { hint });
  const backup = realpathSync(path);
  // A store that this process has open must not be read as a file, because closing the file would release SQLite's lock.
  if (isClaimedInProcess(dirname(backup)) && backup === databaseFile(dirname(backup)))
    throw new DirectoryOwned(dirname(backup), null);
  for (const suffix of ["-wal", "-journal"])
    if ((statSync(backup + suffix, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw rejected("conflict", `${path} is no backup: a part of it is in ${backup}${suffix}`, { hint });
  return backup;
}

function checkSeal(path: string): Backup {
  const bytes = guard(dirname(path), () => sealedBytes(path));
  if (bytes !== null) return { path, bytes };
  const what = "is damaged (it is not as `rondo backup` has written it: its checksum differs)";
  throw new StoreUnreadable(path, { reason: "damaged", what, advice: ADVICE.damaged });
}

const ADVICE: Readonly<Record<UnreadableReason, string>> = {
  damaged: "restore another backup, and keep this file for inspection",
  foreign: "give the file that `rondo backup` has written",
  newer: "restore it with the newer Rondo",
};

function verifyCopy(copy: string, backup: string, driver: Driver): void {
  try {
    const { indexes } = verifyFile(copy, { driver, newestVersion: MIGRATIONS.length, every: true });
    if (indexes.length > 0)
      throw new StoreUnreadable(copy, { reason: "damaged", what: `is damaged (${indexes[0]})` });
  } catch (error) {
    if (!(error instanceof StoreUnreadable)) throw error;
    const { reason, what } = error;
    throw new StoreUnreadable(backup, { reason, what, advice: ADVICE[reason], cause: error });
  }
}

/** Gives the copy its new generation and key. It uses only `exec`, so that the connection is really closed (driver.ts). */
function renew(copy: string, driver: Driver): void {
  const connection = driver.open(copy);
  try {
    connection.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    connection.exec(`UPDATE meta SET generation = '${newGeneration()}', key = '${newKey()}', clean = 0`);
  } finally {
    connection.close();
  }
}

function openDirectory(path: string): string {
  return guard(resolve(path), () => realpathSync(makeDirectory(path, 0o700)));
}

function guard<T>(directory: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw faultOf(error, { file: databaseFile(directory), writing: false });
  }
}

function rejected(
  code: "conflict" | "not_found",
  message: string,
  more: { readonly hint: string },
): RondoError {
  return new RondoError(reject(code, message, more));
}
