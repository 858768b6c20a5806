/**
 * Reads of what is not an execution: letters, logs, dead letters, documents, definitions by name; and which
 * executions have ended. As in sqlite-reader.ts, no statement walks over more rows than it answers with, and
 * `RECORD_READS` holds every one of them for the test of their plans. Dead letters of an execution that is being
 * purged are there for a while and are passed over.
 */

import type { PackedLogRow } from "../packed-log.ts";
import type { HeadFilter, StoredDeadLetter, StoredLetter } from "../store.ts";
import { type Connection, type Statement, textOf, type Value } from "./driver.ts";
import { distinct, LAST, limit, oneOrAll } from "./skip-scan.ts";

const DEAD =
  "row, id, seq, x.project, x.workflow, tasks FROM dead_letters d CROSS JOIN executions x USING (e)";

export const RECORD_READS = {
  letters: "SELECT row, id, recipient, body FROM letters WHERE row > ? ORDER BY row LIMIT ?",
  execution: "SELECT e, project, workflow FROM executions WHERE id = ?",
  logs: "SELECT row, attempt, body FROM logs WHERE e = ? AND row > ? ORDER BY row LIMIT ?",
  newestDead: `SELECT ${DEAD} WHERE row < ? ORDER BY row DESC LIMIT ?`,
  newestDeadOfExecution: `SELECT ${DEAD} WHERE d.e = ? AND row < ? ORDER BY row DESC LIMIT ?`,
  nextProjectWithDead: "SELECT project AS next FROM dead_letters WHERE project > ? ORDER BY project LIMIT 1",
  nextWorkflowWithDead: `SELECT workflow AS next FROM dead_letters WHERE project = ? AND workflow > ?
    ORDER BY workflow LIMIT 1`,
  newestDeadOfGroup: `SELECT ${DEAD} WHERE d.project = ? AND d.workflow = ? AND row < ? ORDER BY row DESC LIMIT ?`,
  counts: "SELECT project, workflow, status, n FROM head_counts WHERE project >= ?",
  ended: `SELECT id FROM executions WHERE finished_at IS NOT NULL AND finished_at < ? AND want = 'nothing'
    ORDER BY finished_at, e LIMIT ?`,
  document: "SELECT body FROM documents WHERE kind = ? AND id = ?",
  documents: "SELECT id, body FROM documents WHERE kind = ? AND id > ? AND id < ? ORDER BY id LIMIT ?",
  documentsDescending: `SELECT id, body FROM documents WHERE kind = ? AND id > ? AND id < ?
    ORDER BY id DESC LIMIT ?`,
  definitions: "SELECT name, hash FROM newest_definitions WHERE name > ? ORDER BY name LIMIT ?",
} as const;

/** In SQLite's order every text is before any bytes, so this is after every id. */
const AFTER_ALL_TEXTS = new Uint8Array([0]);

interface DeadRow {
  readonly row: number;
  readonly id: string;
  readonly seq: number;
  readonly project: string;
  readonly workflow: string;
  readonly tasks: string;
}

interface CountRow {
  readonly project: string;
  readonly workflow: string;
  readonly status: string;
  readonly n: number;
}

export class RecordReader {
  readonly #statements: Record<keyof typeof RECORD_READS, Statement>;

  constructor(connection: Connection) {
    const prepared = Object.entries(RECORD_READS).map(([name, sql]) => [name, connection.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared);
  }

  scanLetters(options: { after: number; max: number }): StoredLetter[] {
    type Row = { row: number; id: string; recipient: string; body: string | Uint8Array };
    const rows = this.#statements.letters.all<Row>([options.after, limit(options.max)]);
    return rows.map(({ row, id, recipient, body }) => ({
      order: row,
      id,
      to: recipient,
      body: textOf(body),
    }));
  }

  readLogs(options: { execution: string; after: number; rowsMax: number }): PackedLogRow[] {
    const e = this.#find(options.execution)?.e;
    if (e === undefined) return [];
    type Row = { row: number; attempt: string; body: string };
    const rows = this.#statements.logs.all<Row>([e, options.after, limit(options.rowsMax)]);
    return rows.map(({ row, attempt, body }) => ({ order: row, attempt, body }));
  }

  listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): StoredDeadLetter[] {
    const { project, workflow, execution } = filter;
    const page: Value[] = [options.before ?? LAST, limit(options.max)];
    if (execution !== undefined) {
      const found = this.#find(execution);
      if (found === undefined || (project ?? found.project) !== found.project) return [];
      if ((workflow ?? found.workflow) !== found.workflow) return [];
      return this.#statements.newestDeadOfExecution.all<DeadRow>([found.e, ...page]).map(deadLetterOf);
    }
    if (project === undefined && workflow === undefined)
      return this.#statements.newestDead.all<DeadRow>(page).map(deadLetterOf);
    return this.#deadOfGroups({ project, workflow }, page)
      .sort((a, b) => b.row - a.row)
      .slice(0, limit(options.max))
      .map(deadLetterOf);
  }

  countHeads({ project, workflow }: Omit<HeadFilter, "status">): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const row of this.#statements.counts.all<CountRow>([project ?? ""])) {
      if ((project ?? row.project) !== row.project || (workflow ?? row.workflow) !== row.workflow) continue;
      if (row.n > 0) counts[row.status] = (counts[row.status] ?? 0) + row.n;
    }
    return counts;
  }

  listEnded(options: { finishedBefore: number; max: number }): string[] {
    const before = Math.min(options.finishedBefore, LAST);
    const rows = this.#statements.ended.all<{ id: string }>([before, limit(options.max)]);
    return rows.map(({ id }) => id);
  }

  getDocument(kind: string, id: string): string | null {
    const row = this.#statements.document.get<{ body: string | Uint8Array }>([kind, id]);
    return row === undefined ? null : textOf(row.body);
  }

  listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): { id: string; body: string }[] {
    const { documents, documentsDescending } = this.#statements;
    const statement = options.descending === true ? documentsDescending : documents;
    const { after = "", before = AFTER_ALL_TEXTS } = options;
    const rows = statement.all<{ id: string; body: string | Uint8Array }>([
      kind,
      after,
      before,
      limit(options.max),
    ]);
    return rows.map(({ id, body }) => ({ id, body: textOf(body) }));
  }

  listDefinitions(options: { after: string; max: number }): { name: string; hash: string }[] {
    const rows = this.#statements.definitions.all<{ name: string; hash: string }>([
      options.after,
      limit(options.max),
    ]);
    return rows.map(({ name, hash }) => ({ name, hash }));
  }

  #find(id: string): { e: number; project: string; workflow: string } | undefined {
    return this.#statements.execution.get([id]);
  }

  #deadOfGroups(
    filter: { project: string | undefined; workflow: string | undefined },
    page: readonly Value[],
  ): DeadRow[] {
    const { nextProjectWithDead, nextWorkflowWithDead, newestDeadOfGroup } = this.#statements;
    const found: DeadRow[] = [];
    for (const project of oneOrAll(filter.project, () => distinct(nextProjectWithDead, [])))
      for (const workflow of oneOrAll(filter.workflow, () => distinct(nextWorkflowWithDead, [project])))
        found.push(...newestDeadOfGroup.all<DeadRow>([project, workflow, ...page]));
    return found;
  }
}

function deadLetterOf({ row, id, seq, project, workflow, tasks }: DeadRow): StoredDeadLetter {
  return { order: row, execution: id, workflow, project, seq, tasks: JSON.parse(tasks) };
}
