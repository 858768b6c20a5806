/**
 * When to copy the WAL into the database file. SQLite does not tell how long the WAL is, so it is estimated from
 * what was written, and the estimate corrected by the length that each checkpoint reports. The WAL file is kept
 * and overwritten, not truncated: a commit that makes a file longer costs about twice as much.
 */
import type { Connection, Statement } from "./driver.ts";

/** Pages in the WAL at which it is copied: 16 MiB, which takes some 50 ms. */
const PAGES_MAX = 4_000;
const CHARS_PER_PAGE = 3_500;
/** The estimate is an upper bound. It is trusted to be at most this many times too high. */
const CORRECTION_MAX = 4;

export class Checkpoints {
  readonly #statement: Statement;
  #estimate = 0;
  /** Estimated pages per page found. */
  #correction = 1;

  constructor(connection: Connection) {
    this.#statement = connection.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  }

  /** After a commit: how many rows it wrote or changed, and how many characters they hold. */
  note(rows: number, chars: number): void {
    this.#estimate += 4 + rows + chars / CHARS_PER_PAGE;
  }

  get due(): boolean {
    return this.#estimate >= PAGES_MAX * this.#correction;
  }

  /** Copies the WAL into the database and makes both durable. */
  run(): void {
    const estimate = this.#estimate;
    // If it fails for want of room, the next try comes after half as much again.
    this.#estimate = estimate / 2;
    const { log } = this.#statement.get<{ log: number }>([]) ?? { log: 0 };
    this.#correction = Math.min(CORRECTION_MAX, Math.max(1, estimate / Math.max(1, log)));
    this.#estimate = 0;
  }
}
