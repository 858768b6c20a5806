/**
 * Whether the files of an open database are still the ones under their names. SQLite goes on with files that were removed
 * or replaced, and whatever it writes to them is lost with the process. A file is told by its device and inode. It is never
 * opened here, since closing a handle would let go of SQLite's lock.
 */
import { statSync } from "node:fs";
import { StoreFault } from "../store.ts";

interface OpenFile {
  readonly path: string;
  readonly identity: string | null;
  /** What to do if it is gone. */
  readonly advice: string;
}

export class OpenFiles {
  readonly #database: OpenFile;
  readonly #log: OpenFile;

  /** To be made when the database and its WAL exist. */
  constructor(database: string) {
    this.#database = openFile(database, DATABASE_ADVICE);
    this.#log = openFile(`${database}-wal`, LOG_ADVICE);
  }

  /** Why nothing must be written now; null: the files are in their places. */
  get fault(): StoreFault | null {
    return faultOf(this.#database) ?? faultOf(this.#log);
  }

  /** The database file is in its place, so whatever is in the WAL can be copied into it. */
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

/** Null: there is no file of this name, or nobody can say so. */
function identityOf(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return null;
    throw error;
  }
}
