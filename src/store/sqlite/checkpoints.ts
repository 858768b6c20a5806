/**
 * Decides when to copy the WAL into the database. Its length is estimated from the written rows and corrected by each
 * checkpoint. The WAL file is reused, since a commit that extends a file costs about twice as much.
 */
import type { Connection, Statement } from "./driver.ts";

/** The number of pages in the WAL at which a checkpoint is due: 16 MiB, whose checkpoint takes some 50 ms. */
const PAGES_MAX = 4_000;
const CHARS_PER_PAGE = 3_500;
/** The estimate is an upper bound; this is the greatest factor by which it is assumed to be too high. */
const CORRECTION_MAX = 4;

export class Checkpoints {
  readonly #statement: Statement;
  #estimate = 0;
  /** The number of estimated pages for each page that the last checkpoint found. */
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
    // If the disk is full, the next try comes after half as many writes again.
    this.#estimate = estimate / 2;
    const { log } = this.#statement.get<{ log: number }>([]) ?? { log: 0 };
    this.#correction = Math.min(CORRECTION_MAX, Math.max(1, estimate / Math.max(1, log)));
    this.#estimate = 0;
  }
}
