/**
 * Writes commits to SQLite. Each commit is one transaction with a check of the fence, and one fsync. The writer caches written
 * executions, and numbers new ones.
 */
import { whyNotAtEnd, whyOtherGeneration, whyStale } from "../check-write.ts";
import { RecentExecutions } from "../recent-executions.ts";
import type { CommitVerdict, Fence } from "../store.ts";
import { type Bytes, type Connection, integer, type Statement, text, textOf, textValue } from "./driver.ts";
import { DiskFailed } from "./faults.ts";
import { ManyRows } from "./many-rows.ts";
import type { RowHead, RowWrite } from "./packed-commit.ts";
import { RecordWriter } from "./record-writer.ts";

const RECENT_MAX = 100_000;

export interface Noted {
  /** The numbers of executions whose heads were written with an error. The search index needs them. */
  readonly failed: readonly number[];
  /** The latest end of an execution that was written. */
  readonly finishedAt: number;
}

/** The cached state of a recently written execution. */
interface Known {
  readonly e: number;
  end: number;
  status: string;
  want: string;
  finishedAt: number | null;
  epoch: number;
}

const PARTITION = 0;

export class SqliteWriter {
  readonly #connection: Connection;
  readonly #generation: string;
  readonly #epoch: number;
  readonly #recent = new RecentExecutions<Known>(RECENT_MAX);
  readonly #statements: Statements;
  readonly #records: RecordWriter;
  #lastE: number;
  /** The number of rows that the current commit has written, for the estimate of the WAL's length. `#chars` is the number of characters. */
  #rows = 0;
  #chars = 0;
  /** Executions with a new error, which the search index has not read yet (`Noted`). */
  readonly #failed: number[] = [];
  #finishedAt = 0;
  /** Executions whose heads are changed by rows that are collected but not yet written. */
  readonly #changed = new Set<number>();

  constructor(connection: Connection, owner: { readonly generation: string; readonly epoch: number }) {
    this.#connection = connection;
    this.#generation = owner.generation;
    this.#epoch = owner.epoch;
    this.#statements = prepareStatements(connection);
    this.#records = new RecordWriter(connection);
    this.#lastE = this.#readLastE();
  }

  commit(fence: Fence, writes: readonly RowWrite[], mailTaken: readonly string[]): CommitVerdict {
    const stale = this.#whyStale(fence, writes, mailTaken);
    if (stale !== null) return fenced(stale);
    const exists: string[] = [];
    this.#rows = 0;
    this.#chars = 0;
    this.#connection.exec("BEGIN IMMEDIATE");
    try {
      const created = changesCreated(writes) ? null : this.#createAll(writes);
      let creates = 0;
      for (const write of writes) {
        const known = !write.create
          ? this.#find(write.execution)
          : created === null
            ? this.#createOne(write)
            : (created[creates++] ?? null);
        if (write.create && known === null) {
          exists.push(write.execution);
          continue;
        }
        const why = whyNotAtEnd(write, known?.end ?? null);
        if (known === null || why !== null) {
          this.#takeBack();
          return fenced(why ?? "");
        }
        this.#write(known, write);
      }
      if (mailTaken.length > 0) this.#count(this.#records.takeMail(mailTaken));
      this.#flush();
      this.#connection.exec("COMMIT");
    } catch (error) {
      this.#takeBack();
      throw error;
    }
    return { kind: "ok", exists, fenced: [] };
  }

  /** Removes and returns what the search index must read: at most `max` executions. */
  takeNoted(max: number): Noted {
    return { failed: this.#failed.splice(0, max), finishedAt: this.#finishedAt };
  }

  get hasNoted(): boolean {
    return this.#failed.length > 0;
  }

  /** Puts back executions that could not be indexed. */
  noteAgain({ failed }: Noted): void {
    this.#failed.unshift(...failed);
  }

  get written(): { rows: number; chars: number } {
    return { rows: this.#rows, chars: this.#chars };
  }

  /** The greatest number that an execution has so far. */
  get lastE(): number {
    return this.#lastE;
  }

  forget(ids: readonly string[]): void {
    for (const id of ids) this.#recent.delete(id);
  }

  /** Returns why a commit is refused; null if it is accepted. A commit of a stale owner that changes nothing is accepted. */
  #whyStale(fence: Fence, writes: readonly RowWrite[], mailTaken: readonly string[]): string | null {
    const another = whyOtherGeneration(fence, this.#generation);
    if (another !== null) return another;
    const why = whyStale(fence, PARTITION, this.#epoch);
    return why !== null && (writes.length > 0 || this.#records.hasOneOf(mailTaken)) ? why : null;
  }

  /**
   * Inserts the rows of all new executions of a commit, many rows in one statement, before anything else is written. Returns an
   * entry for each, in order; null if the id exists already.
   */
  #createAll(writes: readonly RowWrite[]): (Known | null)[] {
    const rows: { readonly id: string; readonly known: Known }[] = [];
    for (const write of writes)
      if (write.create)
        rows.push({ id: write.execution, known: this.#create(write, this.#lastE + rows.length + 1) });
    if (rows.length === 0) return [];
    if (this.#statements.create.flush() === rows.length) {
      for (const { id, known } of rows) this.#created(id, known);
      return rows.map(({ known }) => known);
    }
    // An id exists already. Nothing else has been written, so the transaction starts over and inserts row by row: an id that
    // exists then uses up no number.
    this.#connection.rollback();
    this.#connection.exec("BEGIN IMMEDIATE");
    return writes.filter(({ create }) => create).map((write) => this.#createOne(write));
  }

  /** Inserts the row of an execution. Returns null if the id exists already. */
  #createOne(write: RowWrite): Known | null {
    const known = this.#create(write, this.#lastE + 1);
    if (this.#statements.create.flush() === 0) return null;
    this.#created(write.execution, known);
    return known;
  }

  #created(id: string, known: Known): void {
    this.#lastE = known.e;
    this.#rows++;
    this.#recent.set(id, known);
  }

  /** Adds the row of an execution to the batch. */
  #create(write: RowWrite, e: number): Known {
    const head = write.head as RowHead;
    const { create } = this.#statements;
    create.share([
      head.partition,
      head.workflow,
      head.hash,
      head.project,
      head.status,
      head.phase,
      head.want,
      head.priority,
      head.finishedAt,
      head.error === null ? null : textValue(head.error),
      this.#epoch,
    ]);
    create.add(e, write.execution, head.createdAt, head.tags);
    const { status, want, finishedAt } = head;
    return { e, end: 0, status, want, finishedAt, epoch: this.#epoch };
  }

  #write(known: Known, write: RowWrite): void {
    const { e } = known;
    const { entries, snapshot } = write;
    const last = entries.length - 1;
    for (let i = 0; i <= last; i++) {
      const { seq, count, at, body } = entries[i] as RowWrite["entries"][number];
      const chain = i === last ? write.chain : null;
      this.#statements.append.add(e, seq, count, at, chain, textValue(body));
      known.end = seq + count - 1;
      this.#chars += body.length;
    }
    if (write.head !== null && !write.create) this.#writeHead(known, write.head);
    else if (known.epoch !== this.#epoch) this.#statements.touch.run([this.#epoch, e]);
    known.epoch = this.#epoch;
    for (const timer of write.timersCleared) this.#statements.clearTimer.run([e, timer]);
    for (const { timer, due } of write.timersSet) this.#statements.setTimer.run([e, timer, due]);
    for (const { mark, tasks } of write.opened) this.#statements.open.run([e, mark, tasks]);
    if (snapshot !== null) {
      const { seq, foldVersion, chain, body } = snapshot;
      this.#statements.snapshot.run([e, seq, foldVersion, chain, textValue(body)]);
      this.#chars += body.length;
    }
    if (write.records !== null) this.#count(this.#records.write(e, write.records));
    this.#rows += 1 + write.timersCleared.length + write.timersSet.length + write.opened.length;
  }

  /** Writes a head. Indexed columns are written only if they change, since each change updates an index. */
  #writeHead(known: Known, head: RowHead): void {
    const { status, want, finishedAt, phase, priority, tags } = head;
    if (head.error !== null) this.#failed.push(known.e);
    if (finishedAt !== null) this.#finishedAt = Math.max(this.#finishedAt, finishedAt);
    const error = head.error === null ? null : textValue(head.error);
    // The collected rows are written first, because one statement cannot change the same execution twice.
    if (this.#changed.has(known.e)) this.#flush();
    this.#changed.add(known.e);
    if (known.status === status && known.want === want && known.finishedAt === finishedAt) {
      this.#statements.changeRest.add(known.e, phase, priority, tags, error, this.#epoch);
      return;
    }
    this.#statements.changeAll.add(
      known.e,
      phase,
      priority,
      tags,
      error,
      this.#epoch,
      status,
      want,
      finishedAt,
    );
    known.status = status;
    known.want = want;
    known.finishedAt = finishedAt;
  }

  #flush(): void {
    this.#statements.append.flush();
    this.#statements.changeRest.flush();
    this.#statements.changeAll.flush();
    this.#changed.clear();
  }

  #count(written: { rows: number; chars: number }): void {
    this.#rows += written.rows;
    this.#chars += written.chars;
  }

  #find(id: string): Known | null {
    const recent = this.#recent.get(id);
    if (recent !== undefined) return recent;
    type Row = { e: number; status: Bytes; want: Bytes; finishedAt: number | null; epoch: number };
    const found = this.#statements.find.get<Row>([id]);
    if (found === undefined) return null;
    const { e, finishedAt, epoch } = found;
    const status = textOf(found.status);
    const want = textOf(found.want);
    const end = this.#statements.end.get<{ end: number }>([e])?.end ?? 0;
    const known = { e, end, status, want, finishedAt, epoch };
    this.#recent.set(id, known);
    return known;
  }

  #takeBack(): void {
    this.#statements.create.clear();
    this.#statements.append.clear();
    this.#statements.changeRest.clear();
    this.#statements.changeAll.clear();
    this.#changed.clear();
    try {
      this.#connection.rollback();
      this.#recent.clear();
      this.#lastE = this.#readLastE();
    } catch (error) {
      throw new DiskFailed("a commit failed, and its rollback failed too", error);
    }
  }

  #readLastE(): number {
    return this.#statements.lastE.get<{ e: number }>([])?.e ?? 0;
  }
}

function fenced(why: string): CommitVerdict {
  return { kind: "fenced", why, partitions: [PARTITION] };
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(connection: Connection) {
  const prepare = (sql: string): Statement => connection.prepare(sql);
  return {
    lastE: prepare(
      // The row of the newest execution may be lost. Its number must not be used again while there is a journal with that number.
      `SELECT ${integer(
        "max(last_e, coalesce((SELECT max(e) FROM executions), 0), coalesce((SELECT max(e) FROM journal), 0))",
      )} AS e FROM meta`,
    ),
    find: prepare(
      `SELECT e, ${text("status")} AS status, ${text("want")} AS want, ${integer("finished_at")} AS finishedAt,
        ${integer("epoch")} AS epoch FROM executions WHERE id = ?`,
    ),
    end: prepare(
      `SELECT ${integer("seq + count - 1")} AS "end" FROM journal WHERE e = ? ORDER BY seq DESC LIMIT 1`,
    ),
    create: new ManyRows(
      connection,
      4,
      (rows) =>
        `INSERT INTO executions (e, id, created_at, tags, partition, workflow, hash, project, status, phase, want, priority,
          finished_at, error, epoch)
          SELECT * FROM (VALUES ${rows}), (SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          WHERE true ON CONFLICT (id) DO NOTHING`,
    ),
    append: new ManyRows(
      connection,
      6,
      (rows) => `INSERT INTO journal (e, seq, count, at, chain, body) VALUES ${rows}`,
    ),
    changeRest: new ManyRows(
      connection,
      6,
      (rows) =>
        `UPDATE executions SET phase = column2, priority = column3, tags = column4, error = column5, epoch = column6
          FROM (VALUES ${rows}) WHERE e = column1`,
    ),
    changeAll: new ManyRows(
      connection,
      9,
      (rows) =>
        `UPDATE executions SET phase = column2, priority = column3, tags = column4, error = column5, epoch = column6,
          status = column7, want = column8, finished_at = column9 FROM (VALUES ${rows}) WHERE e = column1`,
    ),
    touch: prepare("UPDATE executions SET epoch = ? WHERE e = ?"),
    setTimer: prepare("INSERT OR REPLACE INTO timers VALUES (?, ?, ?)"),
    clearTimer: prepare("DELETE FROM timers WHERE e = ? AND timer = ?"),
    open: prepare("INSERT OR REPLACE INTO opened VALUES (?, ?, ?)"),
    snapshot: prepare("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)"),
  } satisfies Record<string, Statement | ManyRows>;
}

/** Whether a write of the commit changes an execution that another write of it creates. Their order must then be kept. */
function changesCreated(writes: readonly RowWrite[]): boolean {
  const created = new Set<string>();
  for (const { create, execution } of writes) if (create) created.add(execution);
  if (created.size === 0 || created.size === writes.length) return false;
  return writes.some(({ create, execution }) => !create && created.has(execution));
}
