/**
 * Detects files of an open database that were removed or replaced, by device and inode, because writes to them would be lost.
 * This code never opens the files: closing a handle would release SQLite's lock.
 */
import { statSync } from "node:fs";
import { StoreFault } from "../../store.ts";

interface OpenFile {
  readonly path: string;
  readonly identity: string | null;
  /** The advice to the user if the file was removed. */
  readonly advice: string;
}

export class OpenFiles {
  readonly #database: OpenFile;
  readonly #log: OpenFile;

  /** Must be called when the database file and its WAL exist. */
  constructor(database: string) {
    this.#database = openFile(database, DATABASE_ADVICE);
    this.#log = openFile(`${database}-wal`, LOG_ADVICE);
  }

  /** The fault if a file was removed or replaced; null if the files are in their places. */
  get fault(): StoreFault | null {
    return faultOf(this.#database) ?? faultOf(this.#log);
  }

  /** Whether the database file is in its place, so that the WAL can be copied into it. */
  get hasDatabase(): boolean {
    return faultOf(this.#database) === null;
  }
}

const DATABASE_ADVICE =
  "put the file back; or run rondo backup FILE, since this process can still read all data, then stop it, " +
  "move the directory away, and run rondo restore FILE";
const LOG_ADVICE =
  "stop the process with SIGTERM, which writes everything into the database, and start it again";

function openFile(path: string, advice: string): OpenFile {
  return { path, identity: identityOf(path), advice };
}

function faultOf({ path, identity, advice }: OpenFile): StoreFault | null {
  const found = identityOf(path);
  if (found === identity) return null;
  const what = found === null ? "was removed" : "was replaced";
  return new StoreFault(
    `the file ${path} ${what} while this process had it open, so nothing more is written. To go on: ${advice}`,
    { retryable: true, nothingWritten: true },
  );
}

/** The identity of a file; null if there is no such file, or if it cannot be accessed. */
function identityOf(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return null;
    throw error;
  }
}
