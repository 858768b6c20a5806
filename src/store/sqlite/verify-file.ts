/**
 * Looks at a database file before anything opens it for writing, so that a damaged, foreign or newer file is
 * refused with not a byte changed. Two looks: at the header's bytes, then through a read-only connection (which
 * sees the WAL and, unlike any other, never checkpoints). The header tells the truth about the version because
 * migrations run without a WAL (open-database.ts).
 */
import { closeSync, existsSync, openSync, readSync, rmSync, statSync } from "node:fs";
import type { Driver } from "./driver.ts";
import { faultOf, StoreUnreadable, type UnreadableReason } from "./faults.ts";

/** "Rond": marks a SQLite file as ours, in its header. */
export const APPLICATION_ID = 0x526f6e64;

const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";

/** Files up to this size are checked whole at every open; larger ones page by page as they are read. */
const CHECKED_WHOLE_BYTES = 64 * 1024 * 1024;

/**
 * The version of the store in `file`, or null if there is none yet. `every`: checks every page and index, however
 * large the file is. Throws `StoreUnreadable`.
 */
export function verifyFile(
  file: string,
  options: { driver: Driver; newestVersion: number; every?: boolean },
): number | null {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? null;
  const walSize = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (size === null) {
    if (walSize === 0) return null;
    throw unreadable(file, "damaged", "is missing, but its write-ahead log is there");
  }
  const version = verifyHeader(file, { size, hasWal: walSize > 0, newestVersion: options.newestVersion });
  // A migration that was cut off: its rollback comes first, and only an open for writing can do that.
  const cutOff = existsSync(`${file}-journal`);
  const quick = size + walSize <= CHECKED_WHOLE_BYTES ? "quick_check" : null;
  if (!cutOff)
    verifyContent(file, {
      driver: options.driver,
      check: options.every === true ? "integrity_check" : quick,
    });
  return version;
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
  // With a WAL, a shorter file can be a checkpoint that was cut off and will be done again.
  if (!options.hasWal && options.size < pages * pageSize)
    throw unreadable(file, "damaged", `is damaged (${options.size} bytes of ${pages * pageSize})`);
  return version;
}

/**
 * Only `exec`, so that the connection is closed for good at the end; a result is turned into an error by `json`.
 * Even a read-only connection makes the files beside the database, empty; they go again.
 */
function verifyContent(
  file: string,
  { driver, check }: { driver: Driver; check: "quick_check" | "integrity_check" | null },
): void {
  const companions = [`${file}-wal`, `${file}-shm`].filter((companion) => !existsSync(companion));
  const connection = driver.open(file, { readOnly: true });
  try {
    connection.exec("SELECT * FROM sqlite_schema; SELECT * FROM meta");
    if (check !== null)
      connection.exec(`SELECT json(CASE ${check} WHEN 'ok' THEN '0' ELSE 'x' END) FROM pragma_${check}`);
  } catch (error) {
    const fault = faultOf(error, { file, writing: false });
    if (fault !== error) throw fault;
    throw new StoreUnreadable(file, {
      reason: "damaged",
      what: `is damaged (its tables do not hang together: ${String(error)})`,
      cause: error,
    });
  } finally {
    connection.close();
    for (const companion of companions) rmSync(companion, { force: true });
  }
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
