/** The pieces of a stream of an execution, as items of its log. */
import { pieceAt } from "../../engine/views/log-reader.ts";
import type { StreamMark, StreamPiece } from "../schemas/stream.ts";
import type { LogItems } from "./log-source.ts";

/** Which pieces of a stream are wanted; fields that are missing match everything. */
export interface StreamFilter {
  readonly stream: string;
  readonly phase?: string | undefined;
  readonly handler?: string | undefined;
  readonly task?: number | undefined;
}

/** The pieces that pass a filter. A feed of them ends where the writer has ended the stream, if nothing follows. */
export function streamPieces(filter: StreamFilter): LogItems<StreamPiece> {
  return {
    itemOf(row, index) {
      const piece = pieceAt(row, index);
      if (piece === null || piece.stream !== filter.stream) return null;
      const { phase = piece.phase, handler = piece.handler, task = piece.task } = filter;
      return piece.phase === phase && piece.handler === handler && piece.task === task ? piece : null;
    },
    textOf(piece) {
      const kind = piece.end === true ? "event: end\n" : "";
      return `id: ${piece.id}\n${kind}data: ${JSON.stringify(piece)}\n\n`;
    },
    isEnd: ({ end }) => end === true,
  };
}

/** The beginnings and ends of all streams: the pieces with the first chunk of a writer, and those that end a stream. */
export const streamMarks: LogItems<StreamMark> = {
  itemOf(row, line) {
    const piece = pieceAt(row, line);
    if (piece === null || piece.index !== 0) return null;
    const { index: _index, chunks: _chunks, ...mark } = piece;
    return mark;
  },
  textOf: (mark) => `id: ${mark.id}\ndata: ${JSON.stringify(mark)}\n\n`,
};
