/** Baselines of the disk without an engine. All calls are synchronous, except those of `RawFile`. */
import { closeSync, fdatasync, fdatasyncSync, openSync, rmSync, write, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const ROWS_PER_SYNC = 1_000;
const BLOCK = Buffer.alloc(4_096, "rondo ");

/** The rows of a task. */
export interface RawRows {
  readonly task: (n: number) => unknown;
  readonly result: (n: number) => unknown;
}

export const SMALL_ROWS: RawRows = { task: (n) => ({ n }), result: (n) => ({ n }) };

/** Tasks per second, with a row for each task and each receipt appended to a file, synced every 1,000 rows. */
export function rawTasksPerSecond(directory: string, tasks: number, { task, result } = SMALL_ROWS): number {
  return withFile(directory, (file) => {
    const from = performance.now();
    let text = "";
    let rows = 0;
    const append = (row: unknown): void => {
      text += `${JSON.stringify(row)}\n`;
      if (++rows % ROWS_PER_SYNC !== 0) return;
      writeSync(file, text);
      fdatasyncSync(file);
      text = "";
    };
    for (let n = 0; n < tasks; n++) append(task(n));
    for (let n = 0; n < tasks; n++) append({ task: n, attempt: 1, status: "done", result: result(n) });
    if (text !== "") {
      writeSync(file, text);
      fdatasyncSync(file);
    }
    return (tasks / (performance.now() - from)) * 1_000;
  });
}

const writeLater = promisify(write);
const syncLater = promisify(fdatasync);

/** A file to which rows are appended, with one sync for each batch. The process goes on meanwhile. */
export class RawFile {
  readonly #file: number;

  constructor(directory: string) {
    this.#file = openSync(join(directory, "rows"), "w");
  }

  async append(rows: readonly string[]): Promise<void> {
    await writeLater(this.#file, Buffer.from(`${rows.join("\n")}\n`));
    await syncLater(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** A file that times one append of 4 KiB with its fdatasync. */
export class SyncProbe {
  readonly #directory: string;
  readonly #file: number;

  constructor(directory: string) {
    this.#directory = directory;
    this.#file = openSync(join(directory, PROBE), "w");
  }

  /** The milliseconds of one append with its sync. */
  time(): number {
    const from = performance.now();
    writeSync(this.#file, BLOCK);
    fdatasyncSync(this.#file);
    return performance.now() - from;
  }

  close(): void {
    closeSync(this.#file);
    rmSync(join(this.#directory, PROBE));
  }
}

const PROBE = "sync-probe";

function withFile<T>(directory: string, use: (file: number) => T): T {
  const path = join(directory, "raw");
  const file = openSync(path, "w");
  try {
    return use(file);
  } finally {
    closeSync(file);
    rmSync(path);
  }
}
