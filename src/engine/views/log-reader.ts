/**
 * Reads the log of an execution from the store: lines that code logged, and pieces of streams, which are stored as lines too
 * (decision 118). The id of a line or piece is its position, `<row>.<line>`.
 */
import { type Piece, readPiece, STREAM_LEVEL } from "../../protocol/stream-piece.ts";
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import type { ExecutionStore, StoredLogRow } from "../../store/store.ts";

/** A position in a log: the number of a stored row, and the index of a line in it. */
export interface LogPosition {
  readonly row: number;
  readonly line: number;
}

/** The position before the first line. */
export const LOG_START: LogPosition = { row: 0, line: 0 };

/** The attempt that wrote a line. */
interface Writer {
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly attempt: number;
  readonly attemptId: string;
}

/** A line that code has logged. */
interface LoggedLine extends Writer {
  readonly at: number;
  readonly level: string;
  readonly text: string;
  readonly run?: string;
  readonly fields?: Readonly<Record<string, Json>>;
  readonly worker: string;
}

/** A piece of a stream, with its id and the attempt that wrote it. */
interface WrittenPiece extends Piece, Writer {
  readonly id: string;
  readonly at: number;
}

interface LogPage<Item> {
  readonly items: readonly Item[];
  /** The position after the last line that was read. */
  readonly next: LogPosition;
  /** Whether no lines are stored after this page. */
  readonly isLast: boolean;
}

const ROWS = 64;
/** The number of characters after which a page of the log ends. */
const PAGE_CHARS = 262_144;
/** The number of characters that are counted for the other fields of an item, besides its text. */
const ITEM_CHARS = 200;
/** The most stored rows that are read for one page, even if few of their lines are wanted. */
const ROWS_PER_PAGE = 4_096;

/** Parses a position `<row>.<line>`; null if the text is no position. */
export function parsePosition(text: string): LogPosition | null {
  const match = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(text);
  return match === null ? null : { row: Number(match[1]), line: Number(match[2] ?? 0) };
}

export function showPosition({ row, line }: LogPosition): string {
  return `${row}.${line}`;
}

/**
 * Reads at most `max` items of a log from a position on. `itemOf` makes an item from a line; it returns null if the line is not
 * wanted.
 */
export async function readLog<Item>(
  store: Pick<ExecutionStore, "readLogs">,
  execution: string,
  options: {
    readonly from: LogPosition;
    readonly max: number;
    readonly itemOf: (row: StoredLogRow, line: number) => Item | null;
  },
): Promise<LogPage<Item>> {
  const items: Item[] = [];
  let { from: next } = options;
  let chars = 0;
  for (let looked = 0; looked < ROWS_PER_PAGE; ) {
    const rows = await store.readLogs({ execution, after: next.row - 1, rowsMax: ROWS });
    looked += rows.length;
    for (const row of rows) {
      const begin = row.order === next.row ? next.line : 0;
      for (let i = begin; i < row.lines.length; i++) {
        if (items.length === options.max || chars > PAGE_CHARS)
          return { items, next: { row: row.order, line: i }, isLast: false };
        const item = options.itemOf(row, i);
        if (item === null) continue;
        items.push(item);
        chars += (row.lines[i]?.text.length ?? 0) + ITEM_CHARS;
      }
      next = { row: row.order + 1, line: 0 };
    }
    if (rows.length < ROWS) return { items, next, isLast: true };
  }
  return { items, next, isLast: false };
}

/** Returns the logged line at an index of a row; null if the line is a piece of a stream. */
export function lineAt(row: StoredLogRow, index: number): LoggedLine | null {
  const { at, level, text, run, fields } = row.lines[index] as StoredLogRow["lines"][number];
  if (level === STREAM_LEVEL) return null;
  const parsed = fields === undefined ? undefined : (JSON.parse(fields) as Record<string, Json>);
  return { at, level, text, ...defined({ run, fields: parsed }), ...writerOf(row), worker: row.worker };
}

/** Returns the piece of a stream at an index of a row; null if the line was logged by code. */
export function pieceAt(row: StoredLogRow, index: number): WrittenPiece | null {
  const line = row.lines[index] as StoredLogRow["lines"][number];
  const piece = readPiece(line);
  if (piece === null) return null;
  return { id: showPosition({ row: row.order, line: index }), at: line.at, ...piece, ...writerOf(row) };
}

function writerOf({ phase, visit, handler, task, attempt, number }: StoredLogRow): Writer {
  return { phase, visit, handler, task, attempt: number, attemptId: attempt };
}
