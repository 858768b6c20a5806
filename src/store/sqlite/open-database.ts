/**
 * Opens the database of a directory that this process owns: verifies the file, creates it if it does not exist, migrates an old
 * one, and applies the settings that SQLite does not store.
 *
 * A new database is created under another name and renamed when it is complete. Migrations run in rollback-journal mode, so
 * that the version in the header of the file is never older than its tables, even after a crash: an older Rondo can see from
 * the header alone that it must not open the file.
 */
import { closeSync, existsSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { assert } from "../../std/assert.ts";
import { randomHex, systemRandom } from "../../std/random.ts";
import type { Connection, Driver } from "./driver.ts";
import { removeDatabase, syncDirectory } from "./files/durable-files.ts";
import { APPLICATION_ID, verifyFile } from "./files/verify-file.ts";
import { lostInWal } from "./files/wal-losses.ts";
import { rebuildIndexes } from "./index-repair.ts";
import { MIGRATIONS } from "./migrations.ts";

const CACHE_KIB = 32_768;
/** The size to which the WAL file is truncated when it is reset, if a very large commit has made it larger. */
const WAL_KEPT_BYTES = 64 * 1024 * 1024;

export function databaseFile(directory: string): string {
  return join(directory, "rondo.db");
}

/** Opens a connection to a verified database of the current version. Each commit costs one fsync. */
export function openDatabase(
  file: string,
  options: {
    readonly driver: Driver;
    readonly migrations?: readonly string[];
    readonly warn?: (what: string) => void;
    readonly noteLost?: (transactions: number) => void;
    /** Called before a migration. The migration copies the WAL into the database file and removes it. */
    readonly beforeMigration?: () => void;
  },
): Connection {
  const { driver, migrations = MIGRATIONS, warn = () => {} } = options;
  const mark = damageMark(file);
  const every = existsSync(mark);
  const { version, indexes } = verifyFile(file, {
    driver,
    newestVersion: migrations.length,
    every,
    migrations,
  });
  rmSync(mark, { force: true });
  const lost = lostInWal(`${file}-wal`);
  if (lost > 0) {
    options.noteLost?.(lost);
    warn(
      `${file}-wal is damaged before its end: at least ${lost} transactions after the damage could not be read and are lost. ` +
        "The most recently acknowledged writes may be missing; compare with a backup",
    );
  }
  if (version === null) create(file, driver, migrations);
  else if (version < migrations.length) {
    options.beforeMigration?.();
    migrate(file, driver, { migrations, version });
  }
  const connection = driver.open(file);
  // The locking mode must be set before the first access. EXCLUSIVE keeps other programs out, and keeps the index of the WAL in memory.
  connection.exec("PRAGMA locking_mode = EXCLUSIVE");
  connection.exec("PRAGMA journal_mode = WAL");
  connection.exec("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON");
  // A file that an older version created keeps its own setting. If it is backed up and restored, it gets this one and can
  // shrink (purger.ts).
  connection.exec("PRAGMA auto_vacuum = INCREMENTAL");
  // SQLite's automatic checkpoints are off, because they would hide an fsync error. checkpoints.ts runs the checkpoints.
  connection.exec("PRAGMA wal_autocheckpoint = 0");
  connection.exec(`PRAGMA journal_size_limit = ${WAL_KEPT_BYTES}; PRAGMA cache_size = -${CACHE_KIB}`);
  const mode = connection.prepare("PRAGMA journal_mode").get<{ journal_mode: string }>([]);
  const sync = connection.prepare("PRAGMA synchronous").get<{ synchronous: number }>([]);
  assert(mode?.journal_mode === "wal" && sync?.synchronous === 2, "SQLite runs with a WAL and full sync");
  if (indexes.length > 0) {
    rebuildIndexes(connection);
    warn(
      `${file}: indexes did not match their tables and were rebuilt (${indexes[0]}); run rondo audit --repair`,
    );
  }
  return connection;
}

/** Returns the name of the file that marks a database as damaged. If it exists, the next open checks the whole database. */
export function damageMark(file: string): string {
  return `${file}-damaged`;
}

function create(file: string, driver: Driver, migrations: readonly string[]): void {
  const unfinished = `${file}.new`;
  removeDatabase(unfinished);
  // Only the owner can read the file, since it contains the key of the attempt tokens. The WAL gets the same mode.
  closeSync(openSync(unfinished, "wx", 0o600));
  const connection = driver.open(unfinished);
  try {
    // `auto_vacuum` must be set before the first table exists (purger.ts).
    connection.exec("PRAGMA auto_vacuum = INCREMENTAL");
    connection.exec(`PRAGMA synchronous = FULL; PRAGMA application_id = ${APPLICATION_ID}`);
    apply(connection, { migrations, version: 0 });
    connection.exec(
      `INSERT INTO meta (one, generation, key, partitions, epoch, unclean_epoch, clean, created_at)
        VALUES (1, '${newGeneration()}', '${newKey()}', 1, 0, 0, 1, ${Date.now()}); PRAGMA journal_mode = WAL`,
    );
  } finally {
    connection.close();
  }
  renameSync(unfinished, file);
  syncDirectory(dirname(file));
}

function migrate(file: string, driver: Driver, upgrade: Upgrade): void {
  const connection = driver.open(file);
  try {
    connection.exec(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL",
    );
    apply(connection, upgrade);
    connection.exec("PRAGMA journal_mode = WAL");
  } finally {
    connection.close();
  }
}

interface Upgrade {
  readonly migrations: readonly string[];
  readonly version: number;
}

/** Runs each missing migration in a transaction that also sets the version. */
function apply(connection: Connection, { migrations, version }: Upgrade): void {
  migrations.slice(version).forEach((sql, i) => {
    connection.exec("BEGIN IMMEDIATE");
    try {
      connection.exec(`${sql}; PRAGMA user_version = ${version + i + 1}; COMMIT`);
    } catch (error) {
      connection.rollback();
      throw error;
    }
  });
}

export function newGeneration(): string {
  return randomHex(systemRandom, 4);
}

export function newKey(): string {
  return randomHex(systemRandom, 8);
}
