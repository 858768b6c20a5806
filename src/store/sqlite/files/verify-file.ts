/** Verifies a database file before it is opened for writing, so that a damaged file, or one of another program, is refused unchanged. */
import { closeSync, existsSync, openSync, readSync, rmSync, statSync } from "node:fs";
import { type Connection, type Driver, SqliteError } from "../driver.ts";
import { faultOf, StoreUnreadable, type UnreadableReason } from "../faults.ts";
import { isOfIndex } from "../index-repair.ts";

/** The application id in the header of a SQLite file: "Rond" marks it as a database of Rondo. */
export const APPLICATION_ID = 0x526f6e64;

const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";

/** Files up to this size are checked as a whole at every open. Pages of larger files are checked when they are read. */
const CHECKED_WHOLE_BYTES = 64 * 1024 * 1024;

export interface Verified {
  /** The version of the store's tables; null if the file does not exist yet. */
  readonly version: number | null;
  /** Messages about indexes that differ from their tables. These indexes must be rebuilt before anything is read. */
  readonly indexes: readonly string[];
}

/** Verifies the store in `file`. `every`: checks every page and index of a large file too. Throws `StoreUnreadable`. */
export function verifyFile(
  file: string,
  options: { driver: Driver; newestVersion: number; every?: boolean; migrations?: readonly string[] },
): Verified {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? null;
  const walSize = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (size === null) {
    if (walSize === 0) return { version: null, indexes: [] };
    throw unreadable(file, "damaged", "is missing, but its write-ahead log is there");
  }
  const version = verifyHeader(file, { size, hasWal: walSize > 0, newestVersion: options.newestVersion });
  // An interrupted migration must be rolled back first, which needs a connection that writes.
  if (existsSync(`${file}-journal`)) return { version, indexes: [] };
  const isWhole = options.every === true || size + walSize <= CHECKED_WHOLE_BYTES;
  const { driver, migrations } = options;
  const schema = migrations === undefined ? null : schemaOf(driver, migrations.slice(0, version));
  return { version, indexes: verifyContent(file, { driver, isWhole, schema }) };
}

function verifyHeader(
  file: string,
  options: { size: number; hasWal: boolean; newestVersion: number },
): number {
  const header = readHeader(file);
  if (header.length < HEADER_BYTES || header.toString("latin1", 0, 16) !== MAGIC)
    throw unreadable(
      file,
      "damaged",
      options.size === 0 ? "is damaged (it is empty)" : "is no SQLite database",
    );
  if (header.readUInt32BE(68) !== APPLICATION_ID)
    throw unreadable(file, "foreign", "is a SQLite database of another program");
  const version = header.readUInt32BE(60);
  if (version > options.newestVersion)
    throw unreadable(
      file,
      "newer",
      `was written by a newer Rondo (store version ${version}, this one knows up to ${options.newestVersion})`,
    );
  const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const pages = header.readUInt32BE(24) === header.readUInt32BE(92) ? header.readUInt32BE(28) : 0;
  // If there is a WAL, the file can be too short after an interrupted checkpoint. The checkpoint will run again.
  if (!options.hasWal && options.size < pages * pageSize)
    throw unreadable(
      file,
      "damaged",
      `is damaged (it has ${options.size} bytes, but should have ${pages * pageSize})`,
    );
  return version;
}

/**
 * Verifies the content of a database, and returns messages about indexes. It uses only `exec`, so that the connection is really
 * closed (driver.ts). `exec` returns no rows, so results are read from the texts of errors. Files that a read-only connection
 * creates beside the database are removed.
 */
function verifyContent(
  file: string,
  { driver, isWhole, schema }: { driver: Driver; isWhole: boolean; schema: string | null },
): string[] {
  const companions = [`${file}-wal`, `${file}-shm`].filter((companion) => !existsSync(companion));
  const connection = driver.open(file, { readOnly: true });
  // Returns where the damage is, for the case that SQLite throws.
  let where = () => " in sqlite_schema";
  try {
    connection.exec("SELECT count(*) FROM sqlite_schema");
    where = () => " in meta";
    if (textOfError(connection, "SELECT count(*) FROM meta") !== "1")
      throw unreadable(file, "damaged", "is damaged in meta: its one row, which names the store, is missing");
    where = () => " in sqlite_schema";
    // A file with other tables or indexes is refused, because this code would read and write it wrongly.
    if (schema !== null && textOfError(connection, SCHEMA) !== schema)
      throw unreadable(
        file,
        "damaged",
        "is damaged in sqlite_schema: it describes other tables than Rondo's",
      );
    where = () => damagedTable(connection);
    const wrong = isWhole ? check(connection, CHECK) : [];
    const grave = wrong.filter((message) => !isOfIndex(message));
    const [first] = grave;
    if (first === undefined) return wrong;
    const names = textOfError(connection, NAMES);
    const worst = grave.find((message) => tableIn(message, names) !== "") ?? first;
    throw unreadable(file, "damaged", `is damaged${tableIn(worst, names) || where()}: ${worst}`);
  } catch (error) {
    const fault = faultOf(error, { file, writing: false });
    if (fault instanceof StoreUnreadable && fault !== error) {
      const what = `is damaged${where()}: ${(error as Error).message}`;
      throw new StoreUnreadable(file, { reason: "damaged", what, cause: error });
    }
    if (fault !== error || error instanceof StoreUnreadable) throw fault;
    throw new StoreUnreadable(file, {
      reason: "damaged",
      what: `is damaged (its tables are inconsistent: ${String(error)})`,
      cause: error,
    });
  } finally {
    connection.close();
    for (const companion of companions) rmSync(companion, { force: true });
  }
}

/** SQL that reads all messages of the integrity check, one per line. */
const CHECK =
  "SELECT group_concat(integrity_check, char(10)) FROM pragma_integrity_check(100) WHERE integrity_check <> 'ok'";
/** Returns SQL for the integrity check of one table and its indexes. */
const checkOf = (table: string): string => CHECK.replace("(100)", `('${table}')`);
const TABLES = "SELECT group_concat(name, char(10)) FROM sqlite_schema WHERE type = 'table'";
/** SQL that reads the root page and the name of each table and index. */
const NAMES = "SELECT group_concat(rootpage || '=' || name, char(10)) FROM sqlite_schema";
/** SQL that reads the schema: tables, indexes and triggers. */
const SCHEMA =
  "SELECT group_concat(type || name || tbl_name || coalesce(sql, ''), char(10)) FROM (SELECT * FROM sqlite_schema ORDER BY name)";
const TOLD = "bad JSON path: '";

/** Runs a check and returns its messages, without those about single values. */
function check(connection: Connection, sql: string): string[] {
  const messages = textOfError(connection, sql).split("\n");
  return messages.filter((message) => message !== "" && !isOfValue(message));
}

/**
 * Finds the place of damage for which SQLite names no table: the first table that fails its own check, or none if the damage is
 * outside of all tables.
 */
function damagedTable(connection: Connection): string {
  const found = textOfError(connection, TABLES)
    .split("\n")
    .find((table) => {
      try {
        return check(connection, checkOf(table)).some((message) => !isOfIndex(message));
      } catch (error) {
        if (error instanceof SqliteError) return true;
        throw error;
      }
    });
  return found === undefined ? " outside of its tables (integrity_check)" : ` in ${found}`;
}

function schemaOf(driver: Driver, migrations: readonly string[]): string {
  const connection = driver.open(":memory:");
  try {
    for (const sql of migrations) connection.exec(sql);
    return textOfError(connection, SCHEMA);
  } finally {
    connection.close();
  }
}

/** Runs a statement and returns its result. The result is made part of an invalid JSON path, and read from SQLite's error message. */
function textOfError(connection: Connection, sql: string): string {
  try {
    connection.exec(`SELECT json_extract('{}', 'x' || coalesce((${sql}), ''))`);
  } catch (error) {
    const { message } = error as Error;
    const from = message.indexOf(TOLD);
    if (from < 0) throw error;
    return message.slice(from + TOLD.length + 1, -1);
  }
  throw new Error("SQLite should have refused the text as a JSON path");
}

/** Whether a message is about a value of a wrong type. Such damage is found when the row is read. */
function isOfValue(message: string): boolean {
  return /^(?:NULL|non-\w+|\w+) value in \w+\.\w+/.test(message) || message.startsWith("*** in database");
}

function tableIn(message: string, names: string): string {
  const root = /(?:Tree|tree page) (\d+)/i.exec(message)?.[1];
  const name = names.split("\n").find((line) => line.startsWith(`${root}=`));
  return name === undefined ? "" : ` in ${name.slice(name.indexOf("=") + 1)}`;
}

function readHeader(file: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const handle = openSync(file, "r");
  try {
    return header.subarray(0, readSync(handle, header, 0, HEADER_BYTES, 0));
  } finally {
    closeSync(handle);
  }
}

function unreadable(file: string, reason: UnreadableReason, what: string): StoreUnreadable {
  return new StoreUnreadable(file, { reason, what });
}
