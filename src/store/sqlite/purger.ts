/**
 * Forgets executions in two steps, so that no transaction is long and commits come in between:
 * 1. `forget`: the execution's row and all that is found by it go, and its number is noted in `purged`. From here
 *    on it does not exist, and its id is free.
 * 2. `sweep`: journal, logs and dead letters of the noted numbers go, so many rows at a time. What a crash leaves
 *    to be swept is swept by the next purge. Numbers are never given again, so nobody is mistaken for another.
 */
import type { Connection, Statement } from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";
import { Pace } from "./pace.ts";
import type { SearchIndex } from "./search-index.ts";

/** How long one call should take; executions that it forgets, and rows that it sweeps. */
const FORGET_PACE = { goalMs: 10, first: 16, min: 4, max: 100 };
const SWEEP_PACE = { goalMs: 10, first: 32, min: 4, max: 1_000 };

/** How many rows went, and whether there is more to sweep. */
export interface Swept {
  readonly rows: number;
  readonly more: boolean;
}

export class Purger {
  readonly #connection: Connection;
  readonly #search: Pick<SearchIndex, "removing">;
  readonly #statements: ReturnType<typeof prepareStatements>;
  readonly #forgetPace = new Pace(FORGET_PACE);
  readonly #sweepPace = new Pace(SWEEP_PACE);

  constructor(connection: Connection, search: Pick<SearchIndex, "removing">) {
    this.#connection = connection;
    this.#search = search;
    this.#statements = prepareStatements(connection);
  }

  /**
   * The first of these executions are gone, if they have ended; says how many were looked at. `lastE` is the greatest number
   * given so far.
   */
  forget(ids: readonly string[], lastE: number): number {
    return this.#forgetPace.run((size) => {
      const some = ids.slice(0, size);
      this.#forgetAll(some, lastE);
      return some.length;
    });
  }

  #forgetAll(ids: readonly string[], lastE: number): void {
    const { ended, note, keepLastE, head, snapshot, timers, opened } = this.#statements;
    inTransaction(this.#connection, () => {
      const executions: number[] = [];
      for (const id of new Set(ids)) {
        const e = ended.get<{ e: number }>([id])?.e;
        if (e !== undefined) executions.push(e);
      }
      if (executions.length === 0) return;
      keepLastE.run([lastE]);
      const removeTerms = this.#search.removing(executions);
      for (const e of executions) {
        note.run([e]);
        for (const statement of [head, snapshot, timers, opened]) statement.run([e]);
      }
      removeTerms();
    });
  }

  /** Deletes some of what is left of forgotten executions. */
  sweep(): Swept {
    if (this.#statements.next.get([]) === undefined) return { rows: 0, more: false };
    return this.#sweepPace.run((size) => inTransaction(this.#connection, () => this.#sweepRows(size)));
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

function prepareStatements(connection: Connection) {
  const prepare = (sql: string): Statement => connection.prepare(sql);
  return {
    ended: prepare("SELECT e FROM executions WHERE id = ? AND finished_at IS NOT NULL"),
    note: prepare("INSERT INTO purged VALUES (?)"),
    keepLastE: prepare("UPDATE meta SET last_e = max(last_e, ?)"),
    head: prepare("DELETE FROM executions WHERE e = ?"),
    snapshot: prepare("DELETE FROM snapshots WHERE e = ?"),
    timers: prepare("DELETE FROM timers WHERE e = ?"),
    opened: prepare("DELETE FROM opened WHERE e = ?"),
    // A row of a living execution is damaged: nothing of it is to be swept.
    next: prepare(
      `SELECT e FROM purged WHERE NOT EXISTS (SELECT 1 FROM executions x WHERE x.e = purged.e) ORDER BY e LIMIT 1`,
    ),
    done: prepare("DELETE FROM purged WHERE e = ?"),
    journal: prepare("DELETE FROM journal WHERE row IN (SELECT row FROM journal WHERE e = ? LIMIT ?)"),
    logs: prepare("DELETE FROM logs WHERE row IN (SELECT row FROM logs WHERE e = ? LIMIT ?)"),
    deadLetters: prepare(
      "DELETE FROM dead_letters WHERE row IN (SELECT row FROM dead_letters WHERE e = ? LIMIT ?)",
    ),
  } satisfies Record<string, Statement>;
}
