/** Writes mailbox messages, logs and dead letters of a commit, except for those that are stored already. */
import { linesAfter } from "../packed-log.ts";
import { type Connection, integer, prepareAll, type Statement, textValue } from "./driver.ts";
import type { RowLog, RowRecords } from "./packed-commit.ts";

/** The number of written rows and characters, for the estimate of the WAL's length. */
interface Written {
  readonly rows: number;
  readonly chars: number;
}

export class RecordWriter {
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;

  constructor(connection: Connection) {
    this.#statements = prepareAll(connection, STATEMENTS);
  }

  write(e: number, records: RowRecords): Written {
    const { message, clearDeadLetters, deadLetter } = this.#statements;
    let rows = 0;
    let chars = 0;
    for (const { id, to, body } of records.mail) {
      rows += 2 * message.run([id, to, textValue(body), id]);
      chars += body.length;
    }
    for (const log of records.logs) {
      rows += this.#log(e, log);
      chars += log.body.length;
    }
    if (records.deadLettersCleared > 0) rows += 3 * clearDeadLetters.run([e, records.deadLettersCleared]);
    for (const { seq, tasks } of records.deadLetters) {
      rows += 3 * deadLetter.run([seq, tasks, e]);
      chars += tasks.length;
    }
    return { rows, chars };
  }

  hasOneOf(ids: readonly string[]): boolean {
    return ids.some((id) => this.#statements.findMessage.get([id]) !== undefined);
  }

  takeMail(ids: readonly string[]): Written {
    let rows = 0;
    for (const id of ids) rows += 2 * this.#statements.takeMessage.run([id]);
    return { rows, chars: 0 };
  }

  #log(e: number, { attempt, lastN, mayRepeat, body }: RowLog): number {
    if (lastN === 0) return 0;
    let left: string | null = body;
    if (mayRepeat) {
      const stored = this.#statements.lastLine.get<{ last: number }>([e, attempt])?.last ?? 0;
      if (stored > 0) left = linesAfter(attempt, body, stored);
    }
    if (left === null) return 0;
    return this.#statements.log.run([e, attempt, lastN, left]);
  }
}

const STATEMENTS = {
  // The statement does not use ON CONFLICT, because that would use up an order number for a duplicate.
  message: `INSERT INTO letters (id, recipient, body) SELECT ?, ?, ?
      WHERE NOT EXISTS (SELECT 1 FROM letters WHERE id = ?)`,
  findMessage: "SELECT row FROM letters WHERE id = ?",
  takeMessage: "DELETE FROM letters WHERE id = ?",
  log: "INSERT INTO logs (e, attempt, last_n, body) VALUES (?, ?, ?, ?)",
  lastLine: `SELECT ${integer("last_n")} AS last FROM logs WHERE e = ? AND attempt = ? ORDER BY last_n DESC LIMIT 1`,
  clearDeadLetters: "DELETE FROM dead_letters WHERE e = ? AND seq >= ?",
  deadLetter: `INSERT INTO dead_letters (e, seq, project, workflow, tasks)
      SELECT e, ?, project, workflow, ? FROM executions WHERE e = ?`,
} as const;
