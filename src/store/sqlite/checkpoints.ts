/**
 * Decides when a checkpoint copies the WAL into the database. The length of the WAL is estimated from the written rows, and
 * corrected by each checkpoint. The WAL file is reused, because a commit that extends a file costs about twice as much.
 */
import type { Connection, Statement } from "./driver.ts";

/** The number of pages in the WAL at which a checkpoint is due: 16 MiB. Such a checkpoint takes about 50 ms. */
const PAGES_MAX = 4_000;
const CHARS_PER_PAGE = 3_500;
/** The estimate of the WAL's length is an upper bound. This is the greatest factor by which it is assumed to be too high. */
const CORRECTION_MAX = 4;

export class Checkpoints {
  readonly #statement: Statement;
  #estimate = 0;
  /** How many pages were estimated for each page that the last checkpoint found in the WAL. */
  #correction = 1;

  constructor(connection: Connection) {
    this.#statement = connection.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  }

  /** Called after a write with the number of changed rows and their characters. */
  note(rows: number, chars: number): void {
    this.#estimate += 4 + rows + chars / CHARS_PER_PAGE;
  }

  get due(): boolean {
    return this.#estimate >= PAGES_MAX * this.#correction;
  }

  /** Copies the WAL into the database and makes both durable. */
  run(): void {
    const estimate = this.#estimate;
    // The estimate is halved and not reset yet. If the checkpoint fails because the disk is full, the next one is then tried
    // after half as many writes.
    this.#estimate = estimate / 2;
    const { log } = this.#statement.get<{ log: number }>([]) ?? { log: 0 };
    this.#correction = Math.min(CORRECTION_MAX, Math.max(1, estimate / Math.max(1, log)));
    this.#estimate = 0;
  }
}
