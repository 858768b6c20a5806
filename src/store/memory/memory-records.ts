/** Mailbox messages, logs and dead letters in maps. Each change adds a function that reverts it to an undo list. */
import type {
  DeadLetter,
  DeadLetterFilter,
  ExecutionWrite,
  LogLine,
  LogRange,
  LogRow,
  MailboxMessage,
  Page,
  StoredDeadLetter,
  StoredLogRow,
  StoredMailboxMessage,
} from "../store.ts";

/** Functions that revert changes, to be called from the last to the first. */
export type Undo = (() => void)[];

export interface Origin {
  readonly id: string;
  readonly workflow: string;
  readonly project: string;
}

export class MemoryRecords {
  readonly #mail = new Map<string, StoredMailboxMessage>();
  /** Log rows by execution, in the order of storing. */
  readonly #logs = new Map<string, StoredLogRow[]>();
  #deadLetters: StoredDeadLetter[] = [];
  readonly #last = { message: 0, log: 0, deadLetter: 0 };

  store(origin: Origin, write: ExecutionWrite, undo: Undo): void {
    const { mail, logs, deadLetters, deadLettersCleared = 0 } = write;
    if (mail !== undefined) for (const message of mail) this.#storeMessage(message, undo);
    if (logs !== undefined) for (const row of logs) this.#storeLog(origin.id, row, undo);
    if (deadLettersCleared > 0) this.#clearDeadLetters(origin.id, deadLettersCleared, undo);
    if (deadLetters !== undefined) for (const dead of deadLetters) this.#storeDead(origin, dead, undo);
  }

  take(messageId: string, undo: Undo): void {
    const message = this.#mail.get(messageId);
    if (message === undefined) return;
    this.#mail.delete(messageId);
    undo.push(() => void this.#mail.set(messageId, message));
  }

  receiverOf(messageId: string): string | null {
    return this.#mail.get(messageId)?.to ?? null;
  }

  /** Stores messages that are durable at once: a simulated crash does not lose them. */
  post(messages: readonly MailboxMessage[]): void {
    for (const message of messages) this.#storeMessage(message, []);
  }

  scanMail(
    options: { after: number; max: number },
    isWanted: (to: string) => boolean,
  ): StoredMailboxMessage[] {
    return [...this.#mail.values()]
      .filter(({ to }) => isWanted(to))
      .filter(({ order }) => order > options.after)
      .sort((a, b) => a.order - b.order)
      .slice(0, options.max);
  }

  readLogs({ execution, after, rowsMax }: LogRange): StoredLogRow[] {
    const rows = this.#logs.get(execution) ?? [];
    return rows.filter(({ order }) => order > after).slice(0, rowsMax);
  }

  listDeadLetters({ project, workflow, execution }: DeadLetterFilter, page: Page): StoredDeadLetter[] {
    return this.#deadLetters
      .filter(({ order }) => order < (page.before ?? Infinity))
      .filter((dead) => project === undefined || dead.project === project)
      .filter((dead) => workflow === undefined || dead.workflow === workflow)
      .filter((dead) => execution === undefined || dead.execution === execution)
      .reverse()
      .slice(0, page.max);
  }

  dropDeadLetter(order: number, tasks: readonly number[] | null): void {
    this.#deadLetters = this.#deadLetters.flatMap((dead) => {
      if (dead.order !== order) return [dead];
      const left = tasks === null ? [] : dead.tasks.filter((task) => !tasks.includes(task));
      return left.length === 0 ? [] : [{ ...dead, tasks: left }];
    });
  }

  /** Deletes logs and dead letters of an execution; mailbox messages to it stay. */
  purge(execution: string): void {
    this.#logs.delete(execution);
    this.#deadLetters = this.#deadLetters.filter((dead) => dead.execution !== execution);
  }

  dropMailTo(execution: string): void {
    for (const [id, { to }] of this.#mail) if (to === execution) this.#mail.delete(id);
  }

  #storeMessage({ id, to, body }: MailboxMessage, undo: Undo): void {
    if (this.#mail.has(id)) return;
    this.#mail.set(id, { id, to, body, order: ++this.#last.message });
    undo.push(() => {
      this.#mail.delete(id);
      this.#last.message--;
    });
  }

  #storeLog(execution: string, { mayRepeat, ...row }: LogRow, undo: Undo): void {
    const rows = this.#logs.get(execution) ?? [];
    const lines = mayRepeat ? linesAfter(row.lines, lastStored(rows, row.attempt)) : row.lines;
    if (lines.length === 0) return;
    rows.push({ ...row, lines, order: ++this.#last.log });
    this.#logs.set(execution, rows);
    undo.push(() => {
      rows.pop();
      this.#last.log--;
    });
  }

  #storeDead(origin: Origin, { seq, tasks }: DeadLetter, undo: Undo): void {
    const { id: execution, workflow, project } = origin;
    const order = ++this.#last.deadLetter;
    this.#deadLetters.push({ seq, tasks, order, execution, workflow, project });
    undo.push(() => {
      this.#deadLetters.pop();
      this.#last.deadLetter--;
    });
  }

  #clearDeadLetters(execution: string, from: number, undo: Undo): void {
    const before = this.#deadLetters;
    this.#deadLetters = before.filter((dead) => dead.execution !== execution || dead.seq < from);
    undo.push(() => {
      this.#deadLetters = before;
    });
  }
}

function lastStored(rows: readonly StoredLogRow[], attempt: string): number {
  const lines = rows.filter((row) => row.attempt === attempt).flatMap((row) => row.lines);
  return lines.reduce((last, { n }) => Math.max(last, n), 0);
}

function linesAfter(lines: readonly LogLine[], last: number): readonly LogLine[] {
  return lines.filter(({ n }) => n > last);
}
