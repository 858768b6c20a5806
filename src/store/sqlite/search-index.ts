/**
 * The search index of the SQLite store, which maps terms to executions (store/search-terms.ts). `indexSome` writes it after the
 * commits, for a limited number of executions at a time:
 * 1. new executions, by a cursor over their numbers, which are assigned in commit order;
 * 2. errors, by the numbers of executions whose heads were written with an error; after a restart by the time of their end.
 * A file of an older version starts with the cursor at 0, so the index is built while the store runs, as after `clearIndex`.
 * A broad term (a hash, the name of a tag) has one row for a block of executions, with the first number of the block. So most
 * starts write no row for it. A search for the term returns every execution of the block; the caller compares each with its
 * head.
 */
import { type FoundOrders, inAny, ordersUpTo } from "../found-orders.ts";
import { readTags } from "../read-tags.ts";
import { errorTerms, isBroad, type SearchWord, termsOf } from "../search-terms.ts";
import type { Checkpoints } from "./checkpoints.ts";
import {
  type Bytes,
  bytesOf,
  type Connection,
  integer,
  prepareAll,
  type Statement,
  text,
  textOf,
  type Value,
} from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";
import { ManyRows } from "./many-rows.ts";
import { Pace } from "./pace.ts";
import type { WriteParts } from "./purger.ts";
import { distinct } from "./skip-scan.ts";
import { READS } from "./sqlite-reader.ts";
import type { Noted, SqliteWriter } from "./sqlite-writer.ts";

/** The most executions that one call indexes. A call may process three times as many rows, and clears ten times as many. */
const SLICE_PACE = { goalMs: 10, first: 250, min: 50, max: 2_000 };
const ROWS_EACH = 3;
const CLEARED_EACH = 10;
/** After a restart, executions that ended up to this long before the last indexed end are indexed again. */
const OVERLAP_MS = 60_000;

/** The number of executions that share the row of a broad term. */
const BLOCK = 32;

/**
 * Limits of a search by the beginning of an id. Up to FEW matches are sorted by age; if there are more, only the NEWEST
 * executions are read first.
 */
const FEW = 5_000;
const NEWEST = 20_000;
const MANY = 100_000;
/** A character that is greater than any other. */
const LAST_CHARACTER = "\u{10ffff}";

interface Row {
  readonly e: number;
  readonly hash: Bytes;
  readonly tags: Bytes;
  readonly error: Bytes | null;
}

type Ended = Pick<Row, "e" | "error"> & { readonly finished_at: number };

export class SearchIndex {
  readonly #connection: Connection;
  readonly #writer: SqliteWriter;
  readonly #checkpoints: Checkpoints;
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;
  readonly #insert: ManyRows;
  readonly #pace = new Pace(SLICE_PACE);
  /**
   * The position of the indexer among executions that ended before the store was opened, and the last of them; null if all are
   * indexed. The writer notes executions that end later.
   */
  #ended: { readonly at: number; readonly e: number; readonly until: number } | null;

  constructor({ connection, writer, checkpoints }: WriteParts) {
    this.#connection = connection;
    this.#writer = writer;
    this.#checkpoints = checkpoints;
    this.#statements = prepareAll(connection, STATEMENTS);
    this.#insert = new ManyRows(
      connection,
      2,
      (rows) => `INSERT OR IGNORE INTO search (term, e) VALUES ${rows}`,
    );
    const { ended = 0 } = this.#statements.cursor.get<{ ended: number }>([]) ?? {};
    const until = this.#statements.lastEnd.get<{ at: number | null }>([])?.at ?? null;
    this.#ended = until === null ? null : { at: ended - OVERLAP_MS, e: 0, until };
  }

  indexSome(): boolean {
    const noted = this.#writer.takeNoted(this.#pace.size);
    try {
      const { rows, more } = this.#pace.run((size) => this.#write(noted, size));
      this.#checkpoints.note(rows, 0);
      return more || this.#writer.hasNoted;
    } catch (error) {
      this.#writer.noteAgain(noted);
      throw error;
    }
  }

  #write({ failed, finishedAt }: Noted, size: number): { rows: number; more: boolean } {
    const { cursor, end, withTerms, addHashes, byE, move, clearing, clearSome } = this.#statements;
    if (clearing.get<{ clearing: number }>([])?.clearing === 1) {
      const rows = clearSome.run([size * CLEARED_EACH]);
      if (rows < size * CLEARED_EACH) this.#statements.cleared.run([]);
      return { rows, more: true };
    }
    const { e: after = 0 } = cursor.get<{ e: number }>([]) ?? {};
    const slice = end.get<{ last: number | null; n: number }>([after, size]);
    const sliceEnd = slice?.last ?? after;
    const ended = this.#someEnded(size);
    if (sliceEnd === after && failed.length === 0 && ended.length === 0) return { rows: 0, more: false };
    let rows = 1;
    let last = sliceEnd;
    const seen = new Map<string, number>();
    this.#insert.clear();
    this.#unsynced(() => {
      for (const row of withTerms.all<Row>([after, sliceEnd])) {
        if (rows >= size * ROWS_EACH) {
          last = row.e - 1;
          break;
        }
        rows += this.#add(row.e, termsOfRow(row), seen);
      }
      rows += addHashes.run([after, last]);
      for (const row of ended) rows += this.#add(row.e, errorTerms(errorOf(row)), seen);
      for (const e of failed) {
        const row = byE.get<Row>([e]);
        if (row !== undefined) rows += this.#add(e, errorTerms(errorOf(row)), seen);
      }
      this.#insert.flush();
      move.run([last, finishedAt]);
    });
    const lastEnded = ended.at(-1);
    if (lastEnded !== undefined && this.#ended !== null)
      this.#ended = { ...this.#ended, at: lastEnded.finished_at, e: lastEnded.e };
    const isBehind = slice?.n === size || last < sliceEnd;
    return { rows, more: isBehind || ended.length > 0 };
  }

  indexedTo(): number {
    return this.#statements.cursor.get<{ e: number }>([])?.e ?? 0;
  }

  clearIndex(): void {
    this.#statements.clear.run([]);
    this.#ended = null;
  }

  /** Called before these executions are deleted. Returns a function that deletes their terms afterwards. */
  removing(executions: readonly number[]): () => void {
    const { byE, remove, inBlock } = this.#statements;
    const blocks = new Map<number, Set<string>>();
    const exact: [term: string, e: number][] = [];
    for (const e of executions) {
      const row = byE.get<Row>([e]);
      if (row === undefined) continue;
      const broad = blocks.get(blockOf(e)) ?? new Set();
      blocks.set(blockOf(e), broad);
      for (const term of termsOfRow(row))
        if (isBroad(term)) broad.add(term);
        else exact.push([term, e]);
    }
    return () => {
      for (const row of exact) remove.run(row);
      for (const [block, broad] of blocks) {
        for (const row of inBlock.all<Row>([block, block + BLOCK]))
          for (const term of termsOfRow(row)) broad.delete(term);
        for (const term of broad) remove.run([term, block]);
      }
    };
  }

  /** Adds the rows of an execution's terms to the insert statement, except broad terms of blocks in `seen`. Returns the number of rows. */
  #add(e: number, terms: readonly string[], seen: Map<string, number>): number {
    let rows = 0;
    for (const term of terms) {
      const at = isBroad(term) ? blockOf(e) : e;
      if (seen.get(term) === at) continue;
      seen.set(term, at);
      this.#insert.add(term, at);
      rows++;
    }
    return rows;
  }

  /**
   * Runs a transaction without a sync of its own. If a crash loses the transaction, the cursor is lost with it, so the work is
   * done again.
   */
  #unsynced(write: () => void): void {
    this.#connection.exec("PRAGMA synchronous = NORMAL");
    try {
      inTransaction(this.#connection, write);
    } finally {
      this.#connection.exec("PRAGMA synchronous = FULL");
    }
  }

  #someEnded(max: number): Ended[] {
    if (this.#ended === null) return [];
    const { at, e, until } = this.#ended;
    const rows = this.#statements.ended.all<Ended>([at, until, at, e, max]);
    if (rows.length === 0) this.#ended = null;
    return rows;
  }
}

export class SearchReader {
  readonly #statements: Record<keyof typeof SEARCH_READS, Statement>;

  constructor(connection: Connection) {
    this.#statements = prepareAll(connection, SEARCH_READS);
  }

  findOrders({ terms, ids, workflow }: SearchWord, options: { before: number; max: number }): FoundOrders {
    const lists = terms.map((term) => this.#ofTerm(term, options));
    for (const begin of ids) lists.push(this.#ofIds(begin, options));
    if (workflow !== "") lists.push(this.#ofWorkflow(workflow, options));
    return inAny(lists, options.max);
  }

  #ofTerm(term: string, { before, max }: { before: number; max: number }): FoundOrders {
    const { ofTerm } = this.#statements;
    if (!isBroad(term)) return this.#list(ofTerm, [term, before, max], max);
    const most = Math.ceil(max / BLOCK);
    const blocks = ofTerm.all<{ e: number }>([term, before, most]);
    const orders: number[] = [];
    for (const { e: block } of blocks)
      for (let e = Math.min(block + BLOCK, before) - 1; e >= block; e--) orders.push(e);
    return inAny([{ orders, floor: blocks.length < most ? 0 : (blocks.at(-1)?.e ?? 0) }], max);
  }

  #ofWorkflow(workflow: string, { before, max }: { before: number; max: number }): FoundOrders {
    const { projects, statuses, ofGroup } = this.#statements;
    const lists: FoundOrders[] = [];
    for (const project of distinct(projects, []))
      for (const status of distinct(statuses, [project, bytesOf(workflow)]))
        lists.push(this.#list(ofGroup, [project, bytesOf(workflow), status, before, max], max));
    return inAny(lists, max);
  }

  #ofIds(begin: string, { before, max }: { before: number; max: number }): FoundOrders {
    const { idsFrom, newestFrom, floorOf, manyFrom, countFrom } = this.#statements;
    const range = [begin, begin + LAST_CHARACTER];
    const few = idsFrom.all<{ e: number }>([...range, FEW + 1]);
    if (few.length <= FEW) {
      const orders = few.map(({ e }) => e).filter((e) => e < before);
      return inAny([{ orders, floor: 0 }], max);
    }
    const newest = newestFrom.all<{ e: number }>([before, NEWEST, ...range, max]);
    if (newest.length === max)
      return ordersUpTo(
        newest.map(({ e }) => e),
        max,
      );
    const floor = floorOf.get<{ floor: number; n: number }>([before, NEWEST]);
    const isAll = floor === undefined || floor.n < NEWEST;
    if (isAll || newest.length > 0)
      return { orders: newest.map(({ e }) => e), floor: isAll ? 0 : floor.floor };
    // None of the newest executions matches, so the older ones are searched.
    if ((countFrom.get<{ n: number }>([...range, MANY + 1])?.n ?? 0) <= MANY)
      return this.#list(manyFrom, [...range, MANY, before, max], max);
    return { orders: [], floor: floor.floor };
  }

  #list(statement: Statement, values: readonly Value[], max: number): FoundOrders {
    return ordersUpTo(
      statement.all<{ e: number }>(values).map(({ e }) => e),
      max,
    );
  }
}

function blockOf(e: number): number {
  return e - (e % BLOCK);
}

function termsOfRow(row: Row): string[] {
  return termsOf({ hash: textOf(row.hash), tags: readTags(textOf(row.tags)), error: errorOf(row) });
}

function errorOf({ error }: Pick<Row, "error">): string | null {
  return error === null ? null : textOf(error);
}

export const SEARCH_READS = {
  ofTerm: "SELECT e FROM search WHERE term = ? AND e < ? ORDER BY e DESC LIMIT ?",
  projects: READS.nextProject,
  statuses: READS.nextStatus,
  ofGroup: READS.newestOfGroup,
  idsFrom: "SELECT e FROM executions WHERE id >= ? AND id < ? LIMIT ?",
  newestFrom: `SELECT e FROM (SELECT e, id FROM executions WHERE e < ? ORDER BY e DESC LIMIT ?)
    WHERE id >= ? AND id < ? LIMIT ?`,
  floorOf: `SELECT min(e) AS floor, count(*) AS n FROM
    (SELECT e FROM executions WHERE e < ? ORDER BY e DESC LIMIT ?)`,
  countFrom: "SELECT count(*) AS n FROM (SELECT 1 FROM executions WHERE id >= ? AND id < ? LIMIT ?)",
  manyFrom: `SELECT e FROM (SELECT e FROM executions WHERE id >= ? AND id < ? LIMIT ?) WHERE e < ?
    ORDER BY e DESC LIMIT ?`,
} as const;

const row = `e, ${text("hash")} AS hash, ${text("tags")} AS tags, ${text("error")} AS error`;

const STATEMENTS = {
  cursor: "SELECT e, ended FROM search_cursor",
  clearing: "SELECT clearing FROM search_cursor",
  move: "UPDATE search_cursor SET e = ?, ended = max(ended, ?)",
  end: "SELECT max(e) AS last, count(*) AS n FROM (SELECT e FROM executions WHERE e > ? ORDER BY e LIMIT ?)",
  withTerms: `SELECT ${row} FROM executions WHERE e > ? AND e <= ?
    AND (tags <> '{}' OR error IS NOT NULL) ORDER BY e`,
  addHashes: `INSERT OR IGNORE INTO search (term, e)
    SELECT DISTINCT '#' || substr(hash, 1, 8), e - e % ${BLOCK} FROM executions WHERE e > ? AND e <= ?`,
  inBlock: `SELECT ${row} FROM executions WHERE e >= ? AND e < ?`,
  byE: `SELECT ${row} FROM executions WHERE e = ?`,
  ended: `SELECT e, ${text("error")} AS error, ${integer("finished_at")} AS finished_at
    FROM executions WHERE finished_at IS NOT NULL AND finished_at >= ?
    AND finished_at <= ? AND (finished_at > ? OR e > ?) ORDER BY finished_at, e LIMIT ?`,
  lastEnd: `SELECT ${integer("max(finished_at)")} AS at FROM executions WHERE finished_at IS NOT NULL`,
  clear: "UPDATE search_cursor SET e = 0, ended = 0, clearing = 1",
  clearSome: "DELETE FROM search WHERE (term, e) IN (SELECT term, e FROM search ORDER BY term, e LIMIT ?)",
  cleared: "UPDATE search_cursor SET clearing = 0",
  remove: "DELETE FROM search WHERE term = ? AND e = ?",
} as const;
