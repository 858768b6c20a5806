/** Repairs the SQLite store: writes data derived from a journal, recounts heads, rebuilds indexes, deletes damaged executions. */
import type { Derived, TableFinding } from "../store.ts";
import type { Checkpoints } from "./checkpoints.ts";
import {
  type Bytes,
  type Connection,
  integer,
  prepareAll,
  type Statement,
  text,
  textOf,
  textValue,
} from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";
import { indexFindings, rebuildIndexes } from "./index-repair.ts";
import { LostHeads } from "./lost-heads.ts";
import type { WriteParts } from "./purger.ts";
import type { SqliteWriter } from "./sqlite-writer.ts";

export class Repairs {
  readonly #connection: Connection;
  readonly #writer: SqliteWriter;
  readonly #checkpoints: Checkpoints;
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;
  readonly #lostHeads: LostHeads;

  constructor({ connection, writer, checkpoints }: WriteParts) {
    this.#lostHeads = new LostHeads(connection);
    this.#connection = connection;
    this.#writer = writer;
    this.#checkpoints = checkpoints;
    this.#statements = prepareAll(connection, STATEMENTS);
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
    const waiting = this.#statements.wrongWaiting
      .all<{ project: Bytes; workflow: Bytes; kept: number; there: number }>([])
      .map(
        ({ project, workflow, kept, there }) =>
          `${textOf(project)}/${textOf(workflow)}: ${kept} executions are counted as waiting; there are ${there}`,
      );
    if (repair && counts.length + waiting.length > 0)
      inTransaction(this.#connection, () => {
        this.#statements.dropCounts.run([]);
        this.#statements.recount.run([]);
        this.#statements.dropWaiting.run([]);
        this.#statements.recountWaiting.run([]);
      });
    return [
      ...indexes.map((message) => ({ table: "indexes", message, isRepaired: repair })),
      ...lost,
      ...counts.map((message) => ({ table: "head_counts", message, isRepaired: repair })),
      ...waiting.map((message) => ({ table: "waiting_counts", message, isRepaired: repair })),
    ];
  }
}

const STATEMENTS = {
  find: "SELECT e FROM executions WHERE id = ?",
  last: `SELECT ${integer("seq + count - 1")} AS last FROM journal WHERE e = ? ORDER BY seq DESC LIMIT 1`,
  change: `UPDATE executions SET partition = ?, workflow = ?, hash = ?, project = ?, status = ?, phase = ?, want = ?,
      priority = ?, created_at = ?, finished_at = ?, tags = ?, error = ? WHERE e = ?`,
  clearTimers: "DELETE FROM timers WHERE e = ? AND substr(timer, 1, 1) <> '~'",
  setTimer: "INSERT OR REPLACE INTO timers VALUES (?, ?, ?)",
  clearMarks: "DELETE FROM opened WHERE e = ?",
  setMark: "INSERT INTO opened (e, mark, tasks) VALUES (?, ?, ?)",
  wrongCounts: `SELECT ${text("project")} AS project, ${text("workflow")} AS workflow, ${text("status")} AS status,
      ${integer("sum(kept)")} AS kept, ${integer("sum(there)")} AS there FROM (
        SELECT project, workflow, status, n AS kept, 0 AS there FROM head_counts
        UNION ALL SELECT project, workflow, status, 0, count(*) FROM executions NOT INDEXED GROUP BY 1, 2, 3
      ) AS both GROUP BY both.project, both.workflow, both.status HAVING sum(kept) <> sum(there)`,
  dropCounts: "DELETE FROM head_counts",
  recount:
    "INSERT INTO head_counts SELECT project, workflow, status, count(*) FROM executions GROUP BY 1, 2, 3",
  wrongWaiting: `SELECT ${text("project")} AS project, ${text("workflow")} AS workflow,
      ${integer("sum(kept)")} AS kept, ${integer("sum(there)")} AS there FROM (
        SELECT project, workflow, n AS kept, 0 AS there FROM waiting_counts
        UNION ALL SELECT project, workflow, 0, count(*) FROM executions NOT INDEXED
          WHERE status = 'running' AND want = 'time' GROUP BY 1, 2
      ) AS both GROUP BY both.project, both.workflow HAVING sum(kept) <> sum(there)`,
  dropWaiting: "DELETE FROM waiting_counts",
  recountWaiting: `INSERT INTO waiting_counts
      SELECT project, workflow, count(*) FROM executions WHERE status = 'running' AND want = 'time' GROUP BY 1, 2`,
} as const;
