/**
 * Streams of an execution: chunks that the code of a task writes while it runs. Chunks travel and are stored as log lines of the
 * level `stream` (decision 118), so everything about the order, the lease and the storage of lines holds for them too. A line has
 * a piece of a stream: consecutive chunks of one writer, as a JSON array, with a head in its fields.
 */
import type { Json } from "../std/json.ts";

/** The level of the lines that have pieces of streams. */
export const STREAM_LEVEL = "stream";

/** The most bytes of all chunks that one attempt writes, over all of its streams. */
export const STREAM_BYTES_MAX = 8 * 1_048_576;
/** The most bytes of one chunk. */
export const CHUNK_BYTES_MAX = 65_536;

/** The name of a piece's stream, its writer, and its position in the stream. */
export interface PieceHead {
  /** The name of the stream. */
  readonly stream: string;
  /** The number of the first chunk among those of its writer, from 0. A writer is a step of a task, or its code outside of steps. */
  readonly index: number;
  /** The step in which the chunks were written; missing outside of steps. */
  readonly step?: string;
  /** Whether this piece ends the stream. A piece that ends the stream has no chunks. */
  readonly end?: true;
}

/** A piece of a stream without the attempt that wrote it. */
export interface Piece extends PieceHead {
  readonly chunks: readonly Json[];
}

/** The fields of a log line that make it a piece of a stream. */
export interface PieceLine {
  readonly level: string;
  readonly text: string;
  readonly fields?: string;
}

/** The position of the line after the one with this id. A text that is not the id of a line is returned unchanged. */
export function positionAfter(id: string): string {
  const [, row, line] = /^(\d{1,15})\.(\d{1,9})$/.exec(id) ?? [];
  return row === undefined ? id : `${row}.${Number(line) + 1}`;
}

/** Makes the line of a piece. The chunks are JSON texts. */
export function pieceLine(head: PieceHead, chunks: readonly string[]): Required<PieceLine> {
  const { stream, index, step, end } = head;
  const fields = JSON.stringify({
    stream,
    index,
    ...(step === undefined ? {} : { step }),
    ...(end === true ? { end } : {}),
  });
  return { level: STREAM_LEVEL, text: `[${chunks.join(",")}]`, fields };
}

/** Reads the piece of a line; null if the line has none. */
export function readPiece({ level, text, fields }: PieceLine): Piece | null {
  if (level !== STREAM_LEVEL || fields === undefined) return null;
  return { ...(JSON.parse(fields) as PieceHead), chunks: JSON.parse(text) as readonly Json[] };
}
