/** Durable changes of files and directories. */
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";

export function syncFile(file: string): void {
  const handle = openSync(file, "r+");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export function syncDirectory(directory: string): void {
  // Windows cannot sync a directory, and does not need it.
  if (process.platform === "win32") return;
  const handle = openSync(directory, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Removes a database that is not in use, with its journal and WAL. */
export function removeDatabase(file: string): void {
  for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
}
