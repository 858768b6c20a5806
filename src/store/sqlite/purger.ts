/**
 * Deletes executions in two steps, in short transactions, so that commits can run in between:
 * 1. `forget` deletes the execution's row, snapshot, timers and marks, and notes its number in the table `purged`. From
 *    then on the execution does not exist, and its id is free.
 * 2. `sweep` deletes journal, logs and dead letters of the noted numbers, a limited number of rows at a time. The next
 *    purge finishes a sweep that a crash interrupted. Numbers are never reused.
 * The `Shrinker` then returns free pages to the file system.
 */
import { DAMAGED, type MailboxMessage } from "../store.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { type Connection, prepareAll, type Statement, textValue } from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";
import { Pace } from "./pace.ts";
import type { SearchIndex } from "./search-index.ts";
import type { SqliteWriter } from "./sqlite-writer.ts";

/** The target duration of one call in milliseconds, and the limits of how many executions (`SWEEP_PACE`: rows) it deletes. */
const FORGET_PACE = { goalMs: 10, first: 16, min: 4, max: 100 };
const SWEEP_PACE = { goalMs: 10, first: 32, min: 4, max: 1_000 };

/** The objects that all writers other than the commit share. */
export interface WriteParts {
  readonly connection: Connection;
  readonly writer: SqliteWriter;
  readonly checkpoints: Checkpoints;
}

interface Swept {
  readonly rows: number;
  readonly more: boolean;
}

export class Purger {
  readonly #connection: Connection;
  readonly #writer: SqliteWriter;
  readonly #checkpoints: Checkpoints;
  readonly #search: Pick<SearchIndex, "removing">;
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;
  readonly #forgetPace = new Pace(FORGET_PACE);
  readonly #sweepPace = new Pace(SWEEP_PACE);

  constructor({ connection, writer, checkpoints }: WriteParts, search: Pick<SearchIndex, "removing">) {
    this.#connection = connection;
    this.#writer = writer;
    this.#checkpoints = checkpoints;
    this.#search = search;
    this.#statements = prepareAll(connection, STATEMENTS);
  }

  /** Runs the first step of a purge for some of these executions, those that have ended. Returns how many ids it has handled. */
  forget(ids: readonly string[]): number {
    return this.#forgetPace.run((size) => {
      const some = ids.slice(0, size);
      this.#forgetAll(some, this.#writer.lastE);
      this.#writer.forget(some);
      this.#checkpoints.note(4 * some.length, 0);
      return some.length;
    });
  }

  #forgetAll(ids: readonly string[], lastE: number): void {
    const { ended, keepLastE } = this.#statements;
    inTransaction(this.#connection, () => {
      const executions: number[] = [];
      for (const id of new Set(ids)) {
        const e = ended.get<{ e: number }>([id])?.e;
        if (e !== undefined) executions.push(e);
      }
      if (executions.length === 0) return;
      keepLastE.run([lastE]);
      const removeTerms = this.#search.removing(executions);
      for (const e of executions) this.#delete(e);
      removeTerms();
    });
  }

  #delete(e: number): void {
    const { note, head, snapshot, timers, opened } = this.#statements;
    for (const statement of [note, head, snapshot, timers, opened]) statement.run([e]);
  }

  /**
   * Runs the first step of a purge for a damaged execution, which can never end. Also deletes mailbox messages to it, and
   * stores the message if one is given.
   */
  dropDamaged(execution: string, message: MailboxMessage | null): boolean {
    const { damaged, keepLastE, dropMail, post } = this.#statements;
    const isDropped = inTransaction(this.#connection, () => {
      const e = damaged.get<{ e: number }>([execution])?.e;
      if (e === undefined) return false;
      keepLastE.run([this.#writer.lastE]);
      this.#delete(e);
      dropMail.run([execution]);
      if (message !== null) post.run([message.id, message.to, textValue(message.body), message.id]);
      return true;
    });
    this.#writer.forget([execution]);
    return isDropped;
  }

  /** Deletes some rows of purged executions. Returns true if there are more. */
  sweep(): boolean {
    if (this.#statements.next.get([]) === undefined) return false;
    const { rows, more } = this.#sweepPace.run((size) =>
      inTransaction(this.#connection, () => this.#sweepRows(size)),
    );
    this.#checkpoints.note(2 * rows, 0);
    return more;
  }

  #sweepRows(most: number): Swept {
    const { next, done, journal, logs, deadLetters } = this.#statements;
    let rows = 0;
    for (;;) {
      const e = next.get<{ e: number }>([])?.e;
      if (e === undefined) return { rows, more: false };
      for (const statement of [journal, logs, deadLetters]) {
        rows += statement.run([e, most - rows]);
        if (rows >= most) return { rows, more: true };
      }
      done.run([e]);
    }
  }
}

const STATEMENTS = {
  damaged: `SELECT e FROM executions WHERE id = ? AND status = '${DAMAGED}'`,
  dropMail: "DELETE FROM letters WHERE recipient = ?",
  post: `INSERT INTO letters (id, recipient, body) SELECT ?, ?, ?
    WHERE NOT EXISTS (SELECT 1 FROM letters WHERE id = ?)`,
  ended: "SELECT e FROM executions WHERE id = ? AND finished_at IS NOT NULL AND want = 'nothing'",
  note: "INSERT INTO purged VALUES (?)",
  keepLastE: "UPDATE meta SET last_e = max(last_e, ?)",
  head: "DELETE FROM executions WHERE e = ?",
  snapshot: "DELETE FROM snapshots WHERE e = ?",
  timers: "DELETE FROM timers WHERE e = ?",
  opened: "DELETE FROM opened WHERE e = ?",
  // If a number in `purged` belongs to an existing execution, that entry is damaged data, and the rows of the execution stay.
  next: `SELECT e FROM purged WHERE NOT EXISTS (SELECT 1 FROM executions x WHERE x.e = purged.e) ORDER BY e LIMIT 1`,
  done: "DELETE FROM purged WHERE e = ?",
  journal: "DELETE FROM journal WHERE row IN (SELECT row FROM journal WHERE e = ? LIMIT ?)",
  logs: "DELETE FROM logs WHERE row IN (SELECT row FROM logs WHERE e = ? LIMIT ?)",
  deadLetters: "DELETE FROM dead_letters WHERE row IN (SELECT row FROM dead_letters WHERE e = ? LIMIT ?)",
} as const;

/** How many free pages stay in the file: the larger of this number and a share of the file. */
const KEPT_PAGES = 1_024;
const KEPT_SHARE = 0.1;
/** The target duration of one call in milliseconds, and the limits of how many pages it returns. */
const SHRINK_PACE = { goalMs: 10, first: 64, min: 8, max: 2_000 };
const INCREMENTAL = 2;

/**
 * Returns pages that a purge has freed to the file system, a few at a time. The database needs `auto_vacuum = INCREMENTAL`;
 * one of an older version gets it by `rondo backup` and `rondo restore`. Some free pages stay for new executions.
 */
export class Shrinker {
  readonly #connection: Connection;
  readonly #checkpoints: Checkpoints;
  readonly #free: Statement;
  readonly #all: Statement;
  readonly #isPossible: boolean;
  readonly #pace = new Pace(SHRINK_PACE);

  constructor(connection: Connection, checkpoints: Checkpoints) {
    this.#connection = connection;
    this.#checkpoints = checkpoints;
    this.#free = connection.prepare("PRAGMA freelist_count");
    this.#all = connection.prepare("PRAGMA page_count");
    const mode = connection.prepare("PRAGMA auto_vacuum").get<{ auto_vacuum: number }>([]);
    this.#isPossible = mode?.auto_vacuum === INCREMENTAL;
  }

  shrink(): boolean {
    const surplus = this.#isPossible ? this.#surplus() : 0;
    if (surplus <= 0) return false;
    const pages = Math.min(this.#pace.size, surplus);
    // This transaction is synced like a commit. Otherwise the next commit would sync its pages too, which could take long.
    this.#pace.run(() => this.#connection.exec(`PRAGMA incremental_vacuum(${pages})`));
    this.#checkpoints.note(pages, 0);
    if (surplus > pages) return true;
    // The database file gets shorter only when a checkpoint copies the WAL. This checkpoint also truncates the WAL.
    this.#connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return false;
  }

  #surplus(): number {
    const { freelist_count: free = 0 } = this.#free.get<{ freelist_count: number }>([]) ?? {};
    const { page_count: all = 0 } = this.#all.get<{ page_count: number }>([]) ?? {};
    return free - Math.max(KEPT_PAGES, Math.floor((all - free) * KEPT_SHARE));
  }
}
