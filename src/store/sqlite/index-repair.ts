/**
 * Repairs indexes that differ from their tables. Where the index has the right value, the value is copied into the table; the
 * checksum of a row shows which of the two is right. Other values can be derived from journals. Then all indexes are rebuilt.
 */
import { checkedEntry } from "../../kernel/journal/journal-entry.ts";
import {
  type Bytes,
  bytesOf,
  type Connection,
  integer,
  SqliteError,
  type Statement,
  text,
  textOf,
} from "./driver.ts";

/** SQLite's error code for a violated constraint. */
const CONSTRAINT = 19;

/** Messages of SQLite about an index that differs from its table. */
const OF_INDEX =
  /^(?:row \S+ missing from index|row \d+ values differ from index|wrong # of entries in index|non-unique entry in index|rowid not at end-of-record)/;

/** Whether a message of SQLite's integrity check concerns only an index. */
export function isOfIndex(message: string): boolean {
  return OF_INDEX.test(message);
}

export function indexFindings(connection: Connection): string[] {
  const rows = connection
    .prepare(`SELECT ${text("integrity_check")} AS message FROM pragma_integrity_check(100)`)
    .all<{ message: Bytes }>([]);
  return rows.map(({ message }) => textOf(message)).filter(isOfIndex);
}

/** Rebuilds all indexes. Must be called outside of a transaction. */
export function rebuildIndexes(connection: Connection): void {
  const ids = differingIds(connection);
  const rows = differingRows(connection);
  connection.exec("BEGIN IMMEDIATE");
  try {
    connection.exec("DROP INDEX journal_seq");
    const putRow = connection.prepare("UPDATE journal SET e = ?, seq = ? WHERE row = ?");
    for (const { row, e, seq } of rows) putIfWhole(putRow, [e, seq, row]);
    connection.exec("CREATE UNIQUE INDEX journal_seq ON journal (e, seq); REINDEX");
    const putId = connection.prepare("UPDATE executions SET id = CAST(? AS TEXT) WHERE e = ?");
    for (const { e, id } of ids) putIfWhole(putId, [bytesOf(textOf(id)), e]);
    connection.exec("COMMIT");
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** Writes a value into a row. If that violates a constraint, the row stays as it is, and a later read reports it as damaged. */
function putIfWhole(statement: Statement, values: Parameters<Statement["run"]>[0]): void {
  try {
    statement.run(values);
  } catch (error) {
    if (!(error instanceof SqliteError) || (error.code & 0xff) !== CONSTRAINT) throw error;
  }
}

/** Returns the executions whose id is right in the index and wrong in the table. */
function differingIds(connection: Connection): { e: number; id: Bytes }[] {
  const differing = connection
    .prepare(
      `SELECT i.e AS e, i.id AS indexed, CAST(t.id AS BLOB) AS stored FROM (
          SELECT e, ${text("id")} AS id FROM executions INDEXED BY sqlite_autoindex_executions_1
        ) AS i JOIN (SELECT e, id FROM executions NOT INDEXED) AS t ON t.e = i.e
        WHERE CAST(t.id AS BLOB) <> i.id`,
    )
    .all<{ e: number; indexed: Bytes; stored: Bytes }>([]);
  const first = connection.prepare(
    `SELECT ${integer("seq")} AS seq, ${integer("count")} AS count, ${integer("at")} AS at, ${text("body")} AS body
      FROM journal WHERE e = ? ORDER BY journal.seq LIMIT 1`,
  );
  return differing.flatMap(({ e, indexed }) => {
    const row = first.get<{ seq: number; count: number; at: number; body: Bytes }>([e]);
    if (row === undefined) return [];
    return isOf({ ...row, body: textOf(row.body) }, textOf(indexed)) ? [{ e, id: indexed }] : [];
  });
}

/** Returns the journal rows whose execution and sequence number are right in the index and wrong in the table. */
function differingRows(connection: Connection): { row: number; e: number; seq: number }[] {
  const differing = connection
    .prepare(
      `SELECT i.row AS row, ${integer("i.e")} AS e, ${integer("i.seq")} AS seq, ${text("x.id")} AS id,
          ${integer("t.count")} AS count, ${integer("t.at")} AS at, ${text("t.body")} AS body
        FROM (SELECT row, e, seq FROM journal INDEXED BY journal_seq) AS i
        JOIN (SELECT row, e, seq, count, at, body FROM journal NOT INDEXED) AS t ON t.row = i.row
        LEFT JOIN executions x ON x.e = i.e
        WHERE t.e <> i.e OR t.seq <> i.seq`,
    )
    .all<{ row: number; e: number; seq: number; id: Bytes | null; count: number; at: number; body: Bytes }>(
      [],
    );
  return differing.filter(
    ({ id, body, ...entry }) => id !== null && isOf({ ...entry, body: textOf(body) }, textOf(id)),
  );
}

function isOf(
  entry: { readonly seq: number; readonly count: number; readonly at: number; readonly body: string },
  execution: string,
): boolean {
  return !("damage" in checkedEntry(entry, execution));
}
