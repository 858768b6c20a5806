/** Log lines of an execution, as pages and as server-sent events. The id of a line is `<row>.<line>`. */
import type { EnginePort } from "../../engine/engine-port.ts";
import { STREAM_LEVEL } from "../../protocol/stream-piece.ts";
import type { Json } from "../../std/json.ts";
import type { ExecutionStore, StoredLogRow } from "../../store/store.ts";
import type { LogLine } from "../schemas/execution.ts";
import type { FeedSource } from "./feed.ts";
import { isOver } from "./is-over.ts";

/** A filter for log lines; fields that are missing match everything. */
export type LogFilter = {
  readonly [K in "phase" | "visit" | "handler" | "task" | "attempt" | "level" | "run"]?:
    | LogLine[K]
    | undefined;
};

/** The position of the next log line. */
export interface LogPosition {
  readonly row: number;
  readonly line: number;
}

export interface LogPage {
  readonly lines: readonly LogLine[];
  readonly next: LogPosition;
  /** Whether there are no lines after this page. */
  readonly isLast: boolean;
}

const ROWS = 64;
const PIECE_CHARS = 262_144;
/** The most rows of the log that are read for one page, however few lines match the filter. */
const ROWS_PER_PAGE = 4_096;

/** Parses a position `<row>.<line>`; null if the text is no position. */
export function parsePosition(text: string): LogPosition | null {
  const match = /^(\d{1,15})(?:\.(\d{1,9}))?$/.exec(text);
  return match === null ? null : { row: Number(match[1]), line: Number(match[2] ?? 0) };
}

export function showPosition({ row, line }: LogPosition): string {
  return `${row}.${line}`;
}

/** Reads at most `max` items of log rows from a position on. `show` gives the item of a line; null if the line has none. */
export async function readRows<Item>(
  store: ExecutionStore,
  execution: string,
  options: {
    readonly from: LogPosition;
    readonly max: number;
    readonly show: (row: StoredLogRow, line: number) => Item | null;
  },
): Promise<{ readonly items: readonly Item[]; readonly next: LogPosition; readonly isLast: boolean }> {
  const items: Item[] = [];
  let { from: next } = options;
  let chars = 0;
  for (let looked = 0; looked < ROWS_PER_PAGE; ) {
    const rows = await store.readLogs({ execution, after: next.row - 1, rowsMax: ROWS });
    looked += rows.length;
    for (const row of rows) {
      const begin = row.order === next.row ? next.line : 0;
      for (let i = begin; i < row.lines.length; i++) {
        if (items.length === options.max || chars > PIECE_CHARS)
          return { items, next: { row: row.order, line: i }, isLast: false };
        const item = options.show(row, i);
        if (item === null) continue;
        items.push(item);
        chars += (row.lines[i]?.text.length ?? 0) + 200;
      }
      next = { row: row.order + 1, line: 0 };
    }
    if (rows.length < ROWS) return { items, next, isLast: true };
  }
  return { items, next, isLast: false };
}

/** Reads at most `max` log lines from a position on. */
export async function readLines(
  store: ExecutionStore,
  execution: string,
  options: { readonly from: LogPosition; readonly max: number; readonly filter: LogFilter },
): Promise<LogPage> {
  const { from, max, filter } = options;
  const show = (row: StoredLogRow, index: number): LogLine | null => {
    if (row.lines[index]?.level === STREAM_LEVEL) return null;
    const line = showLine(row, index);
    return fits(line, filter) ? line : null;
  };
  const { items, next, isLast } = await readRows(store, execution, { from, max, show });
  return { lines: items, next, isLast };
}

/** Log lines as the source of a feed; a position is that of a line. */
export function logSource(
  parts: { readonly engine: EnginePort; readonly store: ExecutionStore },
  execution: string,
  filter: LogFilter,
): FeedSource {
  return lineSource(parts.engine, execution, async (position) => {
    const from = parsePosition(position) ?? { row: 0, line: 0 };
    const { lines, next, isLast } = await readLines(parts.store, execution, { from, max: 1_000, filter });
    const text = lines.map((line) => `id: ${line.id}\ndata: ${JSON.stringify(line)}\n\n`).join("");
    return { bytes: Buffer.from(text), next: showPosition(next), isLast, endsAt: null };
  });
}

/** The source of a feed over log rows. It changes when rows are stored, and is over with the execution. */
export function lineSource(engine: EnginePort, execution: string, read: FeedSource["read"]): FeedSource {
  return {
    read,
    isOver: () => isOver(engine, execution),
    watch(tell) {
      const unwatchLogs = engine.watchLogs(execution, () => tell("more"));
      const unwatch = engine.watch(execution, (_, end) => {
        if (end !== null) tell(end === "stopped" ? "stopped" : "end");
      });
      return () => {
        unwatchLogs();
        unwatch();
      };
    },
  };
}

function showLine(row: StoredLogRow, index: number): LogLine {
  const { at, level, text, run, fields } = row.lines[index] as StoredLogRow["lines"][number];
  const { order, phase, visit, handler, task, attempt, number, worker } = row;
  return {
    id: `${order}.${index}`,
    at,
    level,
    text,
    ...(run === undefined ? {} : { run }),
    ...(fields === undefined ? {} : { fields: JSON.parse(fields) as Record<string, Json> }),
    phase,
    visit,
    handler,
    task,
    attempt: number,
    attemptId: attempt,
    worker,
  };
}

function fits(line: LogLine, filter: LogFilter): boolean {
  return Object.entries(filter).every(
    ([field, wanted]) => wanted === undefined || line[field as keyof LogLine] === wanted,
  );
}
