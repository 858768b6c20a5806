/**
 * Copies the whole database into one new file while the store runs. The new file is either empty, or complete and sealed with a checksum.
 */
import { closeSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { RondoError, reject } from "../../../std/rejection.ts";
import { StoreFault } from "../../store.ts";
import { type Connection, SqliteError } from "../driver.ts";
import { sealFile } from "./backup-seal.ts";
import { removeDatabase, syncDirectory, syncFile } from "./durable-files.ts";

/** Creates the empty file of a copy, so that its name is taken. Returns a function that removes the file if the copy fails. */
export function reserveFile(file: string): () => void {
  try {
    makeEmptyFile(file);
  } catch (cause) {
    const rejection =
      (cause as { code?: unknown }).code === "EEXIST"
        ? reject("conflict", `the file ${file} exists already`, {
            hint: "a backup never overwrites: choose another name, or move that file away",
          })
        : reject("invalid_input", `the backup cannot be written to ${file} (${String(cause)})`, {
            hint: "choose a directory that exists and that the server may write to",
          });
    throw new RondoError(rejection, { cause });
  }
  return () => rmSync(file, { force: true });
}

export function copyDatabase(connection: Connection, file: string): void {
  const unfinished = `${file}.new`;
  let isOurs = false;
  try {
    removeDatabase(unfinished);
    makeEmptyFile(unfinished);
    isOurs = true;
    connection.exec(`VACUUM INTO '${unfinished.replaceAll("'", "''")}'`);
    sealFile(unfinished);
    syncFile(unfinished);
    renameSync(unfinished, file);
    syncDirectory(dirname(file));
  } catch (error) {
    if (isOurs) removeDatabase(unfinished);
    if (error instanceof SqliteError && isOfTheStore(error)) throw error;
    throw new StoreFault(
      `the backup to ${file} failed (${(error as Error).message}); the store itself is not affected. ` +
        "To go on: make sure that the disk of the backup works and has free space, and try again",
      { retryable: true, nothingWritten: true, cause: error },
    );
  }
}

/** Makes a file that only its owner can read, like the database: it contains the key of the attempt tokens. */
function makeEmptyFile(file: string): void {
  closeSync(openSync(file, "wx", 0o600));
}

/** Whether the error means that the database itself is damaged; the empty file of the copy cannot be. */
function isOfTheStore(error: SqliteError): boolean {
  const CORRUPT = 11;
  return (error.code & 0xff) === CORRUPT;
}
