/**
 * Streams of an execution, as pages and as server-sent events. Their pieces are log lines of the level `stream`, so a piece has the
 * id of its line.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import { readPiece } from "../../protocol/stream-piece.ts";
import type { ExecutionStore, StoredLogRow } from "../../store/store.ts";
import type { StreamPiece } from "../schemas/stream.ts";
import type { FeedSource, SourcePiece } from "./feed.ts";
import { type LogPosition, lineSource, parsePosition, readRows, showPosition } from "./log-source.ts";

/** Which pieces of a stream are wanted; fields that are missing match everything. */
export interface StreamFilter {
  readonly stream: string;
  readonly phase?: string | undefined;
  readonly handler?: string | undefined;
  readonly task?: number | undefined;
}

export interface StreamPage {
  readonly pieces: readonly StreamPiece[];
  readonly next: LogPosition;
  /** Whether there are no pieces after this page. */
  readonly isLast: boolean;
}

/** Reads at most `max` pieces of a stream from a position on. */
export async function readPieces(
  store: ExecutionStore,
  execution: string,
  options: { readonly from: LogPosition; readonly max: number; readonly filter: StreamFilter },
): Promise<StreamPage> {
  const { from, max, filter } = options;
  const { items, next, isLast } = await readRows(store, execution, {
    from,
    max,
    show: (row, line) => showPiece(row, line, filter),
  });
  return { pieces: items, next, isLast };
}

/** The pieces of a stream as the source of a feed. It ends where the writer has ended the stream, if nothing follows. */
export function streamSource(
  parts: { readonly engine: EnginePort; readonly store: ExecutionStore },
  execution: string,
  filter: StreamFilter,
): FeedSource {
  return lineSource(parts.engine, execution, async (position): Promise<SourcePiece> => {
    const from = parsePosition(position) ?? { row: 0, line: 0 };
    const { pieces, next, isLast } = await readPieces(parts.store, execution, { from, max: 1_000, filter });
    const text = pieces
      .map((piece) => {
        const kind = piece.end === true ? "event: end\n" : "";
        return `id: ${piece.id}\n${kind}data: ${JSON.stringify(piece)}\n\n`;
      })
      .join("");
    const bytes = Buffer.from(text);
    const isEnd = isLast && pieces.at(-1)?.end === true;
    return { bytes, next: showPosition(next), isLast, endsAt: isEnd ? bytes.length : null };
  });
}

function showPiece(row: StoredLogRow, index: number, filter: StreamFilter): StreamPiece | null {
  const line = row.lines[index] as StoredLogRow["lines"][number];
  const piece = readPiece(line);
  if (piece === null || piece.stream !== filter.stream) return null;
  const { order, phase, visit, handler, task, attempt, number } = row;
  const { phase: ofPhase = phase, handler: ofHandler = handler, task: ofTask = task } = filter;
  if (phase !== ofPhase || handler !== ofHandler || task !== ofTask) return null;
  const { stream, index: first, chunks, step, end } = piece;
  return {
    id: showPosition({ row: order, line: index }),
    at: line.at,
    stream,
    index: first,
    chunks,
    ...(step === undefined ? {} : { step }),
    ...(end === true ? { end } : {}),
    phase,
    visit,
    handler,
    task,
    attempt: number,
    attemptId: attempt,
  };
}
