/** The log of an execution as server-sent events. */
import type { EnginePort } from "../../engine/engine-port.ts";
import { LOG_START, lineAt, parsePosition, readLog, showPosition } from "../../engine/views/log-reader.ts";
import type { ExecutionStore, StoredLogRow } from "../../store/store.ts";
import type { LogLine } from "../schemas/execution.ts";
import type { FeedSource } from "./feed.ts";
import { isOver } from "./is-over.ts";

/** The most lines that are sent at a time. */
const LINES_MAX = 1_000;

/** A filter for log lines; fields that are missing match everything. */
export type LogFilter = {
  readonly [K in "phase" | "visit" | "handler" | "task" | "attempt" | "level" | "run"]?:
    | LogLine[K]
    | undefined;
};

/** How the items of a stream are made from the lines of a log. */
export interface LogItems<Item> {
  /** Makes the item of the line at an index of a row; null if the line is not wanted. */
  readonly itemOf: (row: StoredLogRow, index: number) => Item | null;
  /** Makes the server-sent event of an item. */
  readonly textOf: (item: Item) => string;
  /** Whether a feed ends with this item if nothing follows it. */
  readonly isEnd?: (item: Item) => boolean;
}

/** The log lines that pass a filter. */
export function logLines(filter: LogFilter): LogItems<LogLine> {
  return {
    itemOf(row, index) {
      const line = lineAt(row, index);
      if (line === null) return null;
      const shown = { id: showPosition({ row: row.order, line: index }), ...line };
      return fits(shown, filter) ? shown : null;
    },
    textOf: (line) => `id: ${line.id}\ndata: ${JSON.stringify(line)}\n\n`,
  };
}

/** The source of a feed over the log. It changes when lines are stored, and is over with the execution. */
export function logSource<Item>(
  { engine, store }: { readonly engine: EnginePort; readonly store: ExecutionStore },
  execution: string,
  { itemOf, textOf, isEnd = () => false }: LogItems<Item>,
): FeedSource {
  return {
    async read(position) {
      const from = parsePosition(position) ?? LOG_START;
      const { items, next, isLast } = await readLog(store, execution, { from, max: LINES_MAX, itemOf });
      const bytes = Buffer.from(items.map(textOf).join(""));
      const last = items.at(-1);
      const endsHere = isLast && last !== undefined && isEnd(last);
      return { bytes, next: showPosition(next), isLast, endsAt: endsHere ? bytes.length : null };
    },
    isOver: () => isOver(engine, execution),
    watch(notify) {
      const unwatchLogs = engine.watchLogs(execution, () => notify("more"));
      const unwatch = engine.watch(execution, (_, end) => {
        if (end !== null) notify(end === "stopped" ? "stopped" : "end");
      });
      return () => {
        unwatchLogs();
        unwatch();
      };
    },
  };
}

function fits(line: LogLine, filter: LogFilter): boolean {
  return Object.entries(filter).every(
    ([field, wanted]) => wanted === undefined || line[field as keyof LogLine] === wanted,
  );
}
