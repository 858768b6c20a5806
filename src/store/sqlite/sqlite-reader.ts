/** Reads executions from SQLite. `READS` has every statement for the test of query plans. */
import { NO_TEXT } from "../../kernel/journal/damage.ts";
import { checkedEntry, type Entry } from "../../kernel/journal/journal-entry.ts";
import { readTags } from "../read-tags.ts";
import {
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type Page,
  type Snapshot,
  type StoredDefinition,
  type StoredHead,
  type StoredTimer,
  type Timer,
  type TimerScan,
  type WorkScan,
  workKey,
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
} from "./driver.ts";
import { distinct, hasPartition, LAST, limit, oneOrAll } from "./skip-scan.ts";

const HEAD = `e, ${text("id")} AS id, ${integer("partition")} AS partition, ${text("workflow")} AS workflow,
  ${text("hash")} AS hash, ${text("project")} AS project, ${text("status")} AS status, ${text("phase")} AS phase,
  ${text("want")} AS want, ${integer("priority")} AS priority, ${integer("created_at")} AS created_at,
  ${integer("finished_at")} AS finished_at, ${text("tags")} AS tags, ${text("error")} AS error,
  ${integer("epoch")} AS epoch`;
/** SQL conditions that compare a column with a text that is bound as bytes. */
const IS = "= CAST(? AS TEXT)";
const AFTER = "> CAST(? AS TEXT)";

export const READS = {
  headById: `SELECT ${HEAD} FROM executions WHERE id = ?`,
  headByE: `SELECT ${HEAD} FROM executions WHERE e = ?`,
  newest: `SELECT ${HEAD} FROM executions WHERE e < ? ORDER BY e DESC LIMIT ?`,
  nextProject: `SELECT ${text("project")} AS next FROM executions WHERE project ${AFTER} ORDER BY project LIMIT 1`,
  nextWorkflow: `SELECT ${text("workflow")} AS next FROM executions WHERE project ${IS} AND workflow ${AFTER}
    ORDER BY workflow LIMIT 1`,
  nextStatus: `SELECT ${text("status")} AS next FROM executions WHERE project ${IS} AND workflow ${IS}
    AND status ${AFTER} ORDER BY status LIMIT 1`,
  newestOfGroup: `SELECT e FROM executions WHERE project ${IS} AND workflow ${IS} AND status ${IS} AND e < ?
    ORDER BY e DESC LIMIT ?`,
  nextProjectWithWork: `SELECT ${text("project")} AS next FROM executions WHERE want = 'work' AND project ${AFTER}
    ORDER BY project LIMIT 1`,
  nextWorkflowWithWork: `SELECT ${text("workflow")} AS next FROM executions WHERE want = 'work' AND project ${IS}
    AND workflow ${AFTER} ORDER BY workflow LIMIT 1`,
  work: `SELECT ${HEAD} FROM executions WHERE want = 'work' AND project ${IS} AND workflow ${IS} AND e > ?
    ORDER BY e LIMIT ?`,
  timers: `SELECT ${text("id")} AS id, ${text("timer")} AS timer, ${integer("due")} AS due FROM timers
    JOIN executions USING (e) WHERE timers.due >= ? AND timers.due <= ?
    ORDER BY timers.due, timers.e, timers.timer LIMIT ?`,
  timersOf: `SELECT ${text("timer")} AS timer, ${integer("due")} AS due FROM timers
    WHERE e = (SELECT e FROM executions WHERE id = ?) ORDER BY timers.timer`,
  rowAt: `SELECT ${integer("seq")} AS seq, ${integer("count")} AS count, ${text("chain")} AS chain FROM journal
    WHERE e = ? AND journal.seq <= ? ORDER BY journal.seq DESC LIMIT 1`,
  lastRow: `SELECT ${text("chain")} AS chain FROM journal WHERE e = ? ORDER BY journal.seq DESC LIMIT 1`,
  rows: `SELECT ${integer("seq")} AS seq, ${integer("count")} AS count, ${integer("at")} AS at,
    ${text("chain")} AS chain, ${text("body")} AS body FROM journal
    WHERE e = ? AND journal.seq >= ? AND journal.seq <= ? ORDER BY journal.seq LIMIT ?`,
  e: "SELECT e FROM executions WHERE id = ?",
  snapshot: `SELECT ${integer("seq")} AS seq, ${integer("fold_version")} AS fold_version, ${text("chain")} AS chain,
    ${text("body")} AS body FROM snapshots WHERE e = ?`,
  opened: `SELECT ${text("mark")} AS mark, ${integer("tasks")} AS tasks FROM opened WHERE e = ?`,
  definition: `SELECT ${text("hash")} AS hash, ${text("body")} AS body FROM definitions WHERE hash = ?`,
  newestDefinition: `SELECT ${text("hash")} AS hash, ${text("body")} AS body FROM definitions
    WHERE hash = (SELECT hash FROM newest_definitions WHERE name = ?)`,
} as const;

/** The number of journal rows that one read returns while characters are counted, so that a read exceeds `charsMax` only a little. */
const ROWS_AT_ONCE = 32;

interface HeadRow {
  readonly e: number;
  readonly id: Bytes;
  readonly partition: number;
  readonly workflow: Bytes;
  readonly hash: Bytes;
  readonly project: Bytes;
  readonly status: Bytes;
  readonly phase: Bytes | null;
  readonly want: Bytes;
  readonly priority: number;
  readonly created_at: number;
  readonly finished_at: number | null;
  readonly tags: Bytes;
  readonly error: Bytes | null;
  readonly epoch: number;
}

interface EntryRow extends Omit<Entry, "body"> {
  readonly chain: Bytes | null;
  readonly body: Bytes;
}

export class SqliteReader {
  readonly #statements: Record<keyof typeof READS, Statement>;

  constructor(connection: Connection) {
    this.#statements = prepareAll(connection, READS);
  }

  load(ids: readonly string[], { foldVersion }: { foldVersion?: number } = {}): (LoadedExecution | null)[] {
    return ids.map((id) => this.#load(id, foldVersion));
  }

  #load(id: string, foldVersion: number | undefined): LoadedExecution | null {
    const row = this.#statements.headById.get<HeadRow>([id]);
    if (row === undefined) return null;
    const snapshot = this.#validSnapshot(row.e, foldVersion);
    const opened = this.#statements.opened.all<{ mark: Bytes; tasks: number }>([row.e]);
    const of = { id, e: row.e };
    return {
      // The index found the row by this id, so the id is right. The id in the row itself may be damaged.
      head: { ...headOf(row), id },
      snapshot,
      entries: this.#rows(of, { from: (snapshot?.seq ?? 0) + 1, to: LAST, max: LAST }),
      chain: textOrNull(this.#statements.lastRow.get<{ chain: Bytes | null }>([row.e])?.chain) ?? "",
      opened: Object.fromEntries(opened.map(({ mark, tasks }) => [textOf(mark), tasks])),
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
      const of = { id: range.execution, e };
      const rows = max > 0 ? this.#rows(of, { from, to, max, chains }) : [];
      for (const row of rows) {
        if (chars >= charsMax) return found;
        found.push(row);
        chars += row.body.length;
        from = row.seq + row.count;
      }
      if (rows.length < ROWS_AT_ONCE || chars >= charsMax) return found;
    }
  }

  scanWork(options: WorkScan): StoredHead[] {
    if (!hasPartition(options)) return [];
    const { nextProjectWithWork, nextWorkflowWithWork, work } = this.#statements;
    const found: StoredHead[] = [];
    for (const project of distinct(nextProjectWithWork, []))
      for (const workflow of distinct(nextWorkflowWithWork, [project])) {
        const after = options.after[workKey(textOf(project), textOf(workflow))] ?? 0;
        for (const row of work.all<HeadRow>([project, workflow, after, limit(options.each)]))
          found.push(headOf(row));
      }
    return found;
  }

  scanTimers(options: TimerScan): StoredTimer[] {
    if (!hasPartition(options)) return [];
    const rows = this.#statements.timers.all<{ id: Bytes; timer: Bytes; due: number }>([
      options.from ?? 0,
      Math.min(options.until, LAST),
      limit(options.max),
    ]);
    return rows.map(({ id, timer, due }) => ({ execution: textOf(id), timer: textOf(timer), due }));
  }

  listHeads(filter: HeadFilter, options: Page): StoredHead[] {
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
      .flatMap((e) => headByE.get<HeadRow>([e]) ?? [])
      .map(headOf);
  }

  timersOf(execution: string): Timer[] {
    const rows = this.#statements.timersOf.all<{ timer: Bytes; due: number }>([execution]);
    return rows.map(({ timer, due }) => ({ timer: textOf(timer), due }));
  }

  headsOf(orders: readonly number[]): StoredHead[] {
    return orders.flatMap((e) => {
      const row = this.#statements.headByE.get<HeadRow>([e]);
      return row === undefined ? [] : headOf(row);
    });
  }

  getDefinition(by: { hash: string } | { newestOf: string }): StoredDefinition | null {
    const { definition, newestDefinition } = this.#statements;
    type Row = { hash: Bytes; body: Bytes };
    const row = "hash" in by ? definition.get<Row>([by.hash]) : newestDefinition.get<Row>([by.newestOf]);
    return row === undefined ? null : { hash: textOf(row.hash), body: textOf(row.body) };
  }

  #rows(
    { id, e }: { readonly id: string; readonly e: number },
    range: { from: number; to: number; max: number; chains?: boolean },
  ): JournalRow[] {
    const rows = this.#statements.rows.all<EntryRow>([e, range.from, limit(range.to), limit(range.max)]);
    return rows.map(({ seq, count, at, chain, body }) => {
      const entry = checkedEntry<Entry>({ seq, count, at, body: textOf(body) }, id);
      const whole = isText(body) || entry.damage !== undefined ? entry : { ...entry, damage: NO_TEXT };
      return range.chains === true ? { ...whole, chain: textOrNull(chain) } : whole;
    });
  }

  /** Returns the stored snapshot, if it has the requested version and matches the chain hash of the journal at its sequence number. */
  #validSnapshot(e: number, foldVersion: number | undefined): Snapshot | null {
    const row = this.#statements.snapshot.get<{
      seq: number;
      fold_version: number;
      chain: Bytes;
      body: Bytes;
    }>([e]);
    if (row === undefined || row.fold_version !== (foldVersion ?? row.fold_version)) return null;
    const at = this.#statements.rowAt.get<{ seq: number; count: number; chain: Bytes | null }>([e, row.seq]);
    const chain = textOf(row.chain);
    if (at === undefined || at.seq + at.count - 1 !== row.seq || textOrNull(at.chain) !== chain) return null;
    return { seq: row.seq, foldVersion: row.fold_version, chain, body: textOf(row.body) };
  }
}

function headOf(row: HeadRow): StoredHead {
  return {
    order: row.e,
    id: textOf(row.id),
    partition: row.partition,
    workflow: textOf(row.workflow),
    hash: textOf(row.hash),
    project: textOf(row.project),
    status: textOf(row.status),
    phase: textOrNull(row.phase),
    want: textOf(row.want) as StoredHead["want"],
    priority: row.priority,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    tags: readTags(textOf(row.tags)),
    error: textOrNull(row.error),
  };
}

function textOrNull(bytes: Bytes | null | undefined): string | null {
  return bytes === null || bytes === undefined ? null : textOf(bytes);
}
