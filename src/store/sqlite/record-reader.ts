/** Reads everything in SQLite except executions. `RECORD_READS` has every statement for the test of query plans. */
import { NO_TEXT } from "../../kernel/journal/damage.ts";
import type { PackedLogRow } from "../packed-log.ts";
import { readTasks } from "../read-tags.ts";
import { listedDocument, openDocument } from "../sealed-documents.ts";
import type {
  DeadLetterFilter,
  DocumentRange,
  EndedRange,
  HeadFilter,
  LogRange,
  MailScan,
  Page,
  StoredDeadLetter,
  StoredDocument,
  StoredMailboxMessage,
} from "../store.ts";
import {
  type Bytes,
  type Connection,
  integer,
  isText,
  prepareAll,
  type Statement,
  text,
  textOf,
  type Value,
} from "./driver.ts";
import { distinct, hasPartition, LAST, limit, oneOrAll } from "./skip-scan.ts";

const DEAD = `row, ${text("id")} AS id, ${integer("seq")} AS seq, ${text("x.project")} AS project,
  ${text("x.workflow")} AS workflow, ${text("tasks")} AS tasks
  FROM dead_letters d CROSS JOIN executions x USING (e)`;
const DOCUMENT = `${text("id")} AS id, ${text("body")} AS body FROM documents`;

export const RECORD_READS = {
  mail: `SELECT row, ${text("id")} AS id, ${text("recipient")} AS recipient, ${text("body")} AS body FROM letters
    WHERE row > ? ORDER BY row LIMIT ?`,
  execution: `SELECT e, ${text("project")} AS project, ${text("workflow")} AS workflow FROM executions WHERE id = ?`,
  logs: `SELECT row, ${text("attempt")} AS attempt, ${text("body")} AS body FROM logs
    WHERE e = ? AND row > ? ORDER BY row LIMIT ?`,
  newestDead: `SELECT ${DEAD} WHERE row < ? ORDER BY row DESC LIMIT ?`,
  newestDeadOfExecution: `SELECT ${DEAD} WHERE d.e = ? AND row < ? ORDER BY row DESC LIMIT ?`,
  nextProjectWithDead: `SELECT ${text("project")} AS next FROM dead_letters WHERE project > CAST(? AS TEXT)
    ORDER BY project LIMIT 1`,
  nextWorkflowWithDead: `SELECT ${text("workflow")} AS next FROM dead_letters WHERE project = CAST(? AS TEXT)
    AND workflow > CAST(? AS TEXT) ORDER BY workflow LIMIT 1`,
  newestDeadOfGroup: `SELECT ${DEAD} WHERE d.project = CAST(? AS TEXT) AND d.workflow = CAST(? AS TEXT) AND row < ?
    ORDER BY row DESC LIMIT ?`,
  counts: `SELECT ${text("project")} AS project, ${text("workflow")} AS workflow, ${text("status")} AS status,
    ${integer("n")} AS n FROM head_counts WHERE head_counts.project >= ?`,
  waiting: `SELECT ${text("project")} AS project, ${text("workflow")} AS workflow, ${integer("n")} AS n
    FROM waiting_counts WHERE waiting_counts.project >= ?`,
  ended: `SELECT ${text("id")} AS id FROM executions WHERE finished_at IS NOT NULL AND finished_at < ?
    AND finished_at >= ? AND want = 'nothing' AND (? = '' OR executions.status = ?) ORDER BY finished_at, e LIMIT ?`,
  document: `SELECT ${text("body")} AS body FROM documents WHERE kind = ? AND id = ?`,
  documents: `SELECT ${DOCUMENT} WHERE kind = ? AND documents.id > ? AND documents.id < ?
    ORDER BY documents.id LIMIT ?`,
  documentsDescending: `SELECT ${DOCUMENT} WHERE kind = ? AND documents.id > ? AND documents.id < ?
    ORDER BY documents.id DESC LIMIT ?`,
  definitions: `SELECT ${text("name")} AS name, ${text("hash")} AS hash FROM newest_definitions
    WHERE newest_definitions.name > ? ORDER BY newest_definitions.name LIMIT ?`,
} as const;

/** A value that sorts after every id: in SQLite's order, every text comes before any bytes. */
const AFTER_ALL_TEXTS = new Uint8Array([0]);

interface DeadRow {
  readonly row: number;
  readonly id: Bytes;
  readonly seq: number;
  readonly project: Bytes;
  readonly workflow: Bytes;
  readonly tasks: Bytes;
}

interface CountRow {
  readonly project: Bytes;
  readonly workflow: Bytes;
  readonly status: Bytes;
  readonly n: number;
}

export class RecordReader {
  readonly #statements: Record<keyof typeof RECORD_READS, Statement>;

  constructor(connection: Connection) {
    this.#statements = prepareAll(connection, RECORD_READS);
  }

  scanMail(options: MailScan): StoredMailboxMessage[] {
    if (!hasPartition(options)) return [];
    type Row = { row: number; id: Bytes; recipient: Bytes; body: Bytes };
    const rows = this.#statements.mail.all<Row>([options.after, limit(options.max)]);
    return rows.map(({ row, id, recipient, body }) => ({
      order: row,
      id: textOf(id),
      to: textOf(recipient),
      body: textOf(body),
      ...(isText(body) ? {} : { damage: NO_TEXT }),
    }));
  }

  /** Reads log rows in their packed form; the engine's thread unpacks them. */
  readLogs(options: LogRange): PackedLogRow[] {
    const e = this.#find(options.execution)?.e;
    if (e === undefined) return [];
    type Row = { row: number; attempt: Bytes; body: Bytes };
    const rows = this.#statements.logs.all<Row>([e, options.after, limit(options.rowsMax)]);
    return rows.map(({ row, attempt, body }) => ({
      order: row,
      attempt: textOf(attempt),
      body: textOf(body),
    }));
  }

  listDeadLetters({ project, workflow, execution }: DeadLetterFilter, options: Page): StoredDeadLetter[] {
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
      const [ofProject, ofWorkflow, status] = [row.project, row.workflow, row.status].map(textOf);
      if ((project ?? ofProject) !== ofProject || (workflow ?? ofWorkflow) !== ofWorkflow) continue;
      if (row.n > 0) counts[status as string] = (counts[status as string] ?? 0) + row.n;
    }
    return counts;
  }

  countWaiting({ project, workflow }: Omit<HeadFilter, "status">): number {
    let count = 0;
    for (const row of this.#statements.waiting.all<Omit<CountRow, "status">>([project ?? ""])) {
      const [ofProject, ofWorkflow] = [textOf(row.project), textOf(row.workflow)];
      if ((project ?? ofProject) === ofProject && (workflow ?? ofWorkflow) === ofWorkflow) count += row.n;
    }
    return count;
  }

  listEnded({ finishedBefore, finishedFrom = 0, status = "", max }: EndedRange): string[] {
    const before = Math.min(finishedBefore, LAST);
    const values = [before, finishedFrom, status, status, limit(max)];
    const rows = this.#statements.ended.all<{ id: Bytes }>(values);
    return rows.map(({ id }) => textOf(id));
  }

  getDocument(kind: string, id: string): string | null {
    const row = this.#statements.document.get<{ body: Bytes }>([kind, id]);
    return row === undefined ? null : openDocument(kind, id, textOf(row.body));
  }

  listDocuments(kind: string, options: DocumentRange): StoredDocument[] {
    const { documents, documentsDescending } = this.#statements;
    const statement = options.descending === true ? documentsDescending : documents;
    const { after = "", before = AFTER_ALL_TEXTS } = options;
    const rows = statement.all<{ id: Bytes; body: Bytes }>([kind, after, before, limit(options.max)]);
    return rows.map(({ id, body }) => listedDocument(kind, { id: textOf(id), body: textOf(body) }));
  }

  listDefinitions(options: { after: string; max: number }): { name: string; hash: string }[] {
    const rows = this.#statements.definitions.all<{ name: Bytes; hash: Bytes }>([
      options.after,
      limit(options.max),
    ]);
    return rows.map(({ name, hash }) => ({ name: textOf(name), hash: textOf(hash) }));
  }

  #find(id: string): { e: number; project: string; workflow: string } | undefined {
    const found = this.#statements.execution.get<{ e: number; project: Bytes; workflow: Bytes }>([id]);
    if (found === undefined) return undefined;
    return { e: found.e, project: textOf(found.project), workflow: textOf(found.workflow) };
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
  return {
    order: row,
    execution: textOf(id),
    workflow: textOf(workflow),
    project: textOf(project),
    seq,
    tasks: readTasks(textOf(tasks)) ?? [],
  };
}
