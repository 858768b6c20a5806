/**
 * All reads of executions in the SQLite store. No statement walks over more rows than it answers with: groups of executions are
 * found by skipping through an index, one seek per group. `READS` holds every statement, so that a test can ask
 * SQLite for its plans.
 */
import type { Entry } from "../../kernel/journal-entry.ts";
import {
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type Snapshot,
  type StoredHead,
  type StoredTimer,
  workKey,
} from "../store.ts";
import { type Connection, type Statement, textOf } from "./driver.ts";
import { distinct, LAST, limit, oneOrAll } from "./skip-scan.ts";

const HEAD = `e, id, partition, workflow, hash, project, status, phase, want, priority, created_at, finished_at,
  tags, error, epoch`;

export const READS = {
  headById: `SELECT ${HEAD} FROM executions WHERE id = ?`,
  headByE: `SELECT ${HEAD} FROM executions WHERE e = ?`,
  newest: `SELECT ${HEAD} FROM executions WHERE e < ? ORDER BY e DESC LIMIT ?`,
  nextProject: "SELECT project AS next FROM executions WHERE project > ? ORDER BY project LIMIT 1",
  nextWorkflow:
    "SELECT workflow AS next FROM executions WHERE project = ? AND workflow > ? ORDER BY workflow LIMIT 1",
  nextStatus:
    "SELECT status AS next FROM executions WHERE project = ? AND workflow = ? AND status > ? ORDER BY status LIMIT 1",
  newestOfGroup: `SELECT e FROM executions WHERE project = ? AND workflow = ? AND status = ? AND e < ?
    ORDER BY e DESC LIMIT ?`,
  nextProjectWithWork:
    "SELECT project AS next FROM executions WHERE want = 'work' AND project > ? ORDER BY project LIMIT 1",
  nextWorkflowWithWork: `SELECT workflow AS next FROM executions WHERE want = 'work' AND project = ? AND workflow > ?
    ORDER BY workflow LIMIT 1`,
  work: `SELECT ${HEAD} FROM executions WHERE want = 'work' AND project = ? AND workflow = ? AND e > ?
    ORDER BY e LIMIT ?`,
  timers: `SELECT id, timer, due FROM timers JOIN executions USING (e) WHERE due >= ? AND due <= ? ORDER BY due, e, timer LIMIT ?`,
  rowAt: "SELECT seq, count, chain FROM journal WHERE e = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
  lastRow: "SELECT chain FROM journal WHERE e = ? ORDER BY seq DESC LIMIT 1",
  rows: "SELECT seq, count, at, chain, body FROM journal WHERE e = ? AND seq >= ? AND seq <= ? ORDER BY seq LIMIT ?",
  e: "SELECT e FROM executions WHERE id = ?",
  snapshot: "SELECT seq, fold_version, chain, body FROM snapshots WHERE e = ?",
  opened: "SELECT mark, tasks FROM opened WHERE e = ?",
  definition: "SELECT hash, body FROM definitions WHERE hash = ?",
  newestDefinition:
    "SELECT hash, body FROM definitions WHERE hash = (SELECT hash FROM newest_definitions WHERE name = ?)",
} as const;

/** Rows of a journal read in one go while counting characters: bounds what is held beyond the limit. */
const ROWS_AT_ONCE = 32;

interface HeadRow {
  readonly e: number;
  readonly id: string;
  readonly partition: number;
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  readonly status: string;
  readonly phase: string | null;
  readonly want: StoredHead["want"];
  readonly priority: number;
  readonly created_at: number;
  readonly finished_at: number | null;
  readonly tags: string;
  readonly error: string | Uint8Array | null;
  readonly epoch: number;
}

interface EntryRow extends Omit<Entry, "body"> {
  readonly chain: string | null;
  readonly body: string | Uint8Array;
}

export class SqliteReader {
  readonly #statements: Record<keyof typeof READS, Statement>;

  constructor(connection: Connection) {
    const prepared = Object.entries(READS).map(([name, sql]) => [name, connection.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared);
  }

  load(id: string, foldVersion: number | undefined): LoadedExecution | null {
    const row = this.#statements.headById.get<HeadRow>([id]);
    if (row === undefined) return null;
    const snapshot = this.#validSnapshot(row.e, foldVersion);
    const opened = this.#statements.opened.all<{ mark: string; tasks: number }>([row.e]);
    return {
      head: headOf(row),
      snapshot,
      entries: this.#rows(row.e, { from: (snapshot?.seq ?? 0) + 1, to: LAST, max: LAST }),
      chain: this.#statements.lastRow.get<{ chain: string }>([row.e])?.chain ?? "",
      opened: Object.fromEntries(opened.map(({ mark, tasks }) => [mark, tasks])),
      epoch: row.epoch,
    };
  }

  readJournal(range: JournalRange): JournalRow[] {
    const e = this.#statements.e.get<{ e: number }>([range.execution])?.e;
    if (e === undefined) return [];
    const { to = LAST, rowsMax = LAST, charsMax = LAST, chains = false } = range;
    const holding = this.#statements.rowAt.get<{ seq: number; count: number }>([e, range.from]);
    let from = holding !== undefined && holding.seq + holding.count > range.from ? holding.seq : range.from;
    const found: JournalRow[] = [];
    let chars = 0;
    for (;;) {
      const max = Math.min(ROWS_AT_ONCE, rowsMax - found.length);
      const rows = max > 0 ? this.#rows(e, { from, to, max, chains }) : [];
      for (const row of rows) {
        if (chars >= charsMax) return found;
        found.push(row);
        chars += row.body.length;
        from = row.seq + row.count;
      }
      if (rows.length < ROWS_AT_ONCE || chars >= charsMax) return found;
    }
  }

  scanWork(options: { after: Readonly<Record<string, number>>; each: number }): StoredHead[] {
    const { nextProjectWithWork, nextWorkflowWithWork, work } = this.#statements;
    const found: StoredHead[] = [];
    for (const project of distinct(nextProjectWithWork, []))
      for (const workflow of distinct(nextWorkflowWithWork, [project])) {
        const after = options.after[workKey(project, workflow)] ?? 0;
        for (const row of work.all<HeadRow>([project, workflow, after, limit(options.each)]))
          found.push(headOf(row));
      }
    return found;
  }

  scanTimers(options: { from?: number; until: number; max: number }): StoredTimer[] {
    const rows = this.#statements.timers.all<{ id: string; timer: string; due: number }>([
      options.from ?? 0,
      Math.min(options.until, LAST),
      limit(options.max),
    ]);
    return rows.map(({ id, timer, due }) => ({ execution: id, timer, due }));
  }

  listHeads(filter: HeadFilter, options: { before: number | null; max: number }): StoredHead[] {
    const before = options.before ?? LAST;
    const max = limit(options.max);
    if (filter.project === undefined && filter.workflow === undefined && filter.status === undefined)
      return this.#statements.newest.all<HeadRow>([before, max]).map(headOf);
    const { nextProject, nextWorkflow, nextStatus, newestOfGroup, headByE } = this.#statements;
    const found: number[] = [];
    for (const project of oneOrAll(filter.project, () => distinct(nextProject, [])))
      for (const workflow of oneOrAll(filter.workflow, () => distinct(nextWorkflow, [project])))
        for (const status of oneOrAll(filter.status, () => distinct(nextStatus, [project, workflow])))
          for (const { e } of newestOfGroup.all<{ e: number }>([project, workflow, status, before, max]))
            found.push(e);
    return found
      .sort((a, b) => b - a)
      .slice(0, max)
      .map((e) => headOf(headByE.get<HeadRow>([e]) as HeadRow));
  }

  getDefinition(by: { hash: string } | { newestOf: string }): { hash: string; body: string } | null {
    const { definition, newestDefinition } = this.#statements;
    type Row = { hash: string; body: string | Uint8Array };
    const row = "hash" in by ? definition.get<Row>([by.hash]) : newestDefinition.get<Row>([by.newestOf]);
    return row === undefined ? null : { hash: row.hash, body: textOf(row.body) };
  }

  #rows(e: number, range: { from: number; to: number; max: number; chains?: boolean }): JournalRow[] {
    const rows = this.#statements.rows.all<EntryRow>([e, range.from, limit(range.to), limit(range.max)]);
    return rows.map(({ seq, count, at, chain, body }) => {
      const entry = { seq, count, at, body: textOf(body) };
      return range.chains === true ? { ...entry, chain } : entry;
    });
  }

  /** The snapshot, if it is of the version asked for and the journal has its chain hash at its sequence number. */
  #validSnapshot(e: number, foldVersion: number | undefined): Snapshot | null {
    const row = this.#statements.snapshot.get<{
      seq: number;
      fold_version: number;
      chain: string;
      body: string | Uint8Array;
    }>([e]);
    if (row === undefined || row.fold_version !== (foldVersion ?? row.fold_version)) return null;
    const at = this.#statements.rowAt.get<{ seq: number; count: number; chain: string | null }>([e, row.seq]);
    if (at === undefined || at.seq + at.count - 1 !== row.seq || at.chain !== row.chain) return null;
    return { seq: row.seq, foldVersion: row.fold_version, chain: row.chain, body: textOf(row.body) };
  }
}

function headOf(row: HeadRow): StoredHead {
  return {
    order: row.e,
    id: row.id,
    partition: row.partition,
    workflow: row.workflow,
    hash: row.hash,
    project: row.project,
    status: row.status,
    phase: row.phase,
    want: row.want,
    priority: row.priority,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    tags: JSON.parse(row.tags),
    error: row.error === null ? null : textOf(row.error),
  };
}
