/**
 * Repairs: writes heads, timers and marks that were derived from a journal, recounts heads, rebuilds indexes, and deletes
 * damaged executions.
 */
import { DAMAGED, type Derived, type MailboxMessage, type TableFinding } from "../store.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { type Bytes, type Connection, integer, type Statement, text, textOf, textValue } from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";
import { indexFindings, rebuildIndexes } from "./index-repair.ts";
import { LostHeads } from "./lost-heads.ts";
import type { WriteParts } from "./purger.ts";
import type { SqliteWriter } from "./sqlite-writer.ts";

export class Repairs {
  readonly #connection: Connection;
  readonly #writer: SqliteWriter;
  readonly #checkpoints: Checkpoints;
  readonly #statements: ReturnType<typeof prepareStatements>;
  readonly #lostHeads: LostHeads;

  constructor({ connection, writer, checkpoints }: WriteParts) {
    this.#lostHeads = new LostHeads(connection);
    this.#connection = connection;
    this.#writer = writer;
    this.#checkpoints = checkpoints;
    this.#statements = prepareStatements(connection);
  }

  putDerived({ head, timers, opened, end }: Derived): boolean {
    const { find, last, change, clearTimers, setTimer, clearMarks, setMark } = this.#statements;
    const isPut = inTransaction(this.#connection, () => {
      const e = find.get<{ e: number }>([head.id])?.e;
      if (e === undefined) return false;
      if (end !== null && (last.get<{ last: number }>([e])?.last ?? 0) !== end) return false;
      const { partition, workflow, hash, project, status, phase, want, priority } = head;
      const { createdAt, finishedAt, tags, error } = head;
      change.run([
        ...[partition, workflow, hash, project, status, phase, want, priority, createdAt, finishedAt],
        ...[JSON.stringify(tags), error === null ? null : textValue(error), e],
      ]);
      if (opened !== null) {
        clearMarks.run([e]);
        for (const [mark, tasks] of Object.entries(opened)) setMark.run([e, mark, tasks]);
      }
      if (timers === null) return true;
      clearTimers.run([e]);
      for (const { timer, due } of timers) setTimer.run([e, timer, due]);
      return true;
    });
    this.#writer.forget([head.id]);
    this.#checkpoints.note(4 + (timers?.length ?? 0), 0);
    return isPut;
  }

  /** The first step of a purge (purger.ts), for an execution that cannot end. */
  dropDamaged(execution: string, message: MailboxMessage | null): boolean {
    const { damaged, note, keepLastE, dropMail, gone, post } = this.#statements;
    const isDropped = inTransaction(this.#connection, () => {
      const e = damaged.get<{ e: number }>([execution])?.e;
      if (e === undefined) return false;
      keepLastE.run([this.#writer.lastE]);
      note.run([e]);
      for (const statement of gone) statement.run([e]);
      dropMail.run([execution]);
      if (message !== null) post.run([message.id, message.to, textValue(message.body), message.id]);
      return true;
    });
    this.#writer.forget([execution]);
    return isDropped;
  }

  /** Compares indexes with tables, journals with heads, and heads with definitions and counters. */
  auditTables({ repair }: { readonly repair: boolean }): TableFinding[] {
    const indexes = indexFindings(this.#connection);
    if (repair && indexes.length > 0) rebuildIndexes(this.#connection);
    const lost = [...this.#lostHeads.audit({ repair }), ...this.#lostHeads.auditDefinitions({ repair })];
    const counts = this.#statements.wrongCounts
      .all<{ project: Bytes; workflow: Bytes; status: Bytes; kept: number; there: number }>([])
      .map(({ kept, there, ...of }) => {
        const [project, workflow, status] = [of.project, of.workflow, of.status].map(textOf);
        return `${project}/${workflow}: ${kept} executions are counted as ${status}; there are ${there}`;
      });
    if (repair && counts.length > 0)
      inTransaction(this.#connection, () => {
        this.#statements.dropCounts.run([]);
        this.#statements.recount.run([]);
      });
    return [
      ...indexes.map((message) => ({ table: "indexes", message, isRepaired: repair })),
      ...lost,
      ...counts.map((message) => ({ table: "head_counts", message, isRepaired: repair })),
    ];
  }
}

function prepareStatements(connection: Connection) {
  const prepare = (sql: string): Statement => connection.prepare(sql);
  return {
    find: prepare("SELECT e FROM executions WHERE id = ?"),
    damaged: prepare(`SELECT e FROM executions WHERE id = ? AND status = '${DAMAGED}'`),
    last: prepare(
      `SELECT ${integer("seq + count - 1")} AS last FROM journal WHERE e = ? ORDER BY seq DESC LIMIT 1`,
    ),
    change: prepare(
      `UPDATE executions SET partition = ?, workflow = ?, hash = ?, project = ?, status = ?, phase = ?, want = ?,
        priority = ?, created_at = ?, finished_at = ?, tags = ?, error = ? WHERE e = ?`,
    ),
    clearTimers: prepare("DELETE FROM timers WHERE e = ? AND substr(timer, 1, 1) <> '~'"),
    setTimer: prepare("INSERT OR REPLACE INTO timers VALUES (?, ?, ?)"),
    clearMarks: prepare("DELETE FROM opened WHERE e = ?"),
    setMark: prepare("INSERT INTO opened (e, mark, tasks) VALUES (?, ?, ?)"),
    note: prepare("INSERT INTO purged VALUES (?)"),
    keepLastE: prepare("UPDATE meta SET last_e = max(last_e, ?)"),
    gone: ["executions", "snapshots", "timers", "opened"].map((table) =>
      prepare(`DELETE FROM ${table} WHERE e = ?`),
    ),
    post: prepare(
      `INSERT INTO letters (id, recipient, body) SELECT ?, ?, ?
        WHERE NOT EXISTS (SELECT 1 FROM letters WHERE id = ?)`,
    ),
    dropMail: prepare("DELETE FROM letters WHERE recipient = ?"),
    wrongCounts: prepare(
      `SELECT ${text("project")} AS project, ${text("workflow")} AS workflow, ${text("status")} AS status,
        ${integer("sum(kept)")} AS kept, ${integer("sum(there)")} AS there FROM (
          SELECT project, workflow, status, n AS kept, 0 AS there FROM head_counts
          UNION ALL SELECT project, workflow, status, 0, count(*) FROM executions NOT INDEXED GROUP BY 1, 2, 3
        ) AS both GROUP BY both.project, both.workflow, both.status HAVING sum(kept) <> sum(there)`,
    ),
    dropCounts: prepare("DELETE FROM head_counts"),
    recount: prepare(
      "INSERT INTO head_counts SELECT project, workflow, status, count(*) FROM executions GROUP BY 1, 2, 3",
    ),
  };
}
