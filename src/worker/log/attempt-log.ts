/**
 * Collects the log lines of an attempt, the chunks of its streams, the values that it publishes and the notices about its runs,
 * for its next report. Only the newest progress update and the newest value of each published key are kept.
 */
import type { PublishedValues, RunNotice } from "../../kernel/message.ts";
import { type PieceHead, pieceLine, STREAM_LEVEL } from "../../protocol/stream-piece.ts";
import type { ReportedAttempt, ReportedLine } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import { linesOf } from "./log-text.ts";
import type { Secrets } from "./secrets.ts";

/** The clock, the secrets and the callbacks that the logs of all attempts of a worker share. */
export interface LogSink {
  readonly clock: Clock;
  readonly secrets: Secrets;
  /**
   * Called with the first line since the last report. Also called with `isFull` when there are so many lines that they should
   * be sent at once.
   */
  readonly onLines: (log: AttemptLog, isFull: boolean) => void;
  /** Called with each chunk of a stream. */
  readonly onChunk: (log: AttemptLog) => void;
  /** Called with each published value. */
  readonly onPublished: (log: AttemptLog) => void;
}

export type LogsReport = ReportedAttempt & { readonly kind: "logs"; readonly lines: readonly ReportedLine[] };
export type NoticeReport = ReportedAttempt & RunNotice;
export type PublishedReport = ReportedAttempt & PublishedValues;

const LINES_MAX = 10_000;
const BYTES_MAX = 1_048_576;
/** When the collected lines have this many bytes, they are sent at once. */
const REPORT_BYTES = 65_536;
/** The most bytes of chunks that are not stored yet. A writer that awaits its writes waits while there are more. */
const UNSTORED_BYTES_MAX = 262_144;

/** The last collected line, if it is a piece of a stream to which further chunks can be added. */
interface OpenPiece {
  readonly line: Omit<ReportedLine, "n">;
  readonly head: PieceHead;
  readonly chunks: string[];
}

export class AttemptLog {
  readonly #attempt: ReportedAttempt;
  readonly #queue: LogSink;
  #lines: Omit<ReportedLine, "n">[] = [];
  #piece: OpenPiece | null = null;
  /** The newest published values by key, since the last report; null removes a key. */
  #published = new Map<string, Json>();
  /** Reports that are complete and not sent yet: notices, and the lines before them. */
  #reports: (LogsReport | NoticeReport)[] = [];
  /** When the last report was made; 0 if none was. */
  reportedAt = 0;
  /** When values were last published; 0 if none were. */
  publishedAt = 0;
  /** The bytes of chunks that are not stored yet. */
  #unstored = 0;
  #onRoom: (() => void)[] = [];
  /** The index of the progress update among the collected lines; -1 if there is none. */
  #progressAt = -1;
  #waitingBytes = 0;
  /** The number of lines reported so far. */
  #taken = 0;
  #bytes = 0;
  #isOver = false;

  constructor(attempt: ReportedAttempt, sink: LogSink) {
    this.#attempt = attempt;
    this.#queue = sink;
  }

  /** Adds the lines of a text. `fields` is JSON text and belongs to the first line. */
  write(
    level: string,
    text: string,
    more: { readonly run?: string | undefined; readonly fields?: string | undefined } = {},
  ): void {
    const { run } = more;
    let { fields } = more;
    if (this.#isOver) return;
    const at = this.#queue.clock.now();
    const wasEmpty = this.#isEmpty;
    for (const line of linesOf(text, this.#queue.secrets)) {
      if (level === "progress") this.#dropProgress();
      const bytes = Buffer.byteLength(line) + (fields?.length ?? 0);
      const isFull = this.#taken + this.#lines.length >= LINES_MAX || this.#bytes + bytes > BYTES_MAX;
      const added = isFull ? { at, level: "warn", text: NOTICE } : { at, level, text: line };
      this.#bytes += bytes;
      this.#waitingBytes += bytes;
      if (level === "progress") this.#progressAt = this.#lines.length;
      this.#lines.push({ ...added, ...defined({ run, fields: isFull ? undefined : fields }) });
      fields = undefined;
      if (isFull) {
        this.#isOver = true;
        break;
      }
    }
    const isMuch = this.#waitingBytes >= REPORT_BYTES;
    if (wasEmpty || isMuch) this.#queue.onLines(this, isMuch);
  }

  /** Adds a chunk of a stream, as JSON text. Consecutive chunks of one writer become one line. */
  chunk(head: PieceHead, text: string | null): void {
    const bytes = text === null ? 0 : Buffer.byteLength(text);
    const open = this.#piece;
    const continues =
      open !== null &&
      open.line === this.#lines.at(-1) &&
      text !== null &&
      open.head.stream === head.stream &&
      open.head.step === head.step &&
      open.head.index + open.chunks.length === head.index &&
      this.#waitingBytes + bytes < REPORT_BYTES;
    if (continues) open.chunks.push(text);
    else {
      this.#closePiece();
      const at = this.#queue.clock.now();
      const line = { at, ...pieceLine(head, []) };
      this.#lines.push(line);
      if (text !== null) this.#piece = { line, head, chunks: [text] };
    }
    this.#waitingBytes += bytes;
    this.#unstored += bytes;
    if (this.#waitingBytes >= REPORT_BYTES) this.#queue.onLines(this, true);
    else this.#queue.onChunk(this);
  }

  /** Resolves when there are few enough chunks that are not stored yet. */
  room(): Promise<void> {
    if (this.#unstored <= UNSTORED_BYTES_MAX) return Promise.resolve();
    return new Promise((resolve) => this.#onRoom.push(resolve));
  }

  /** Whether there are chunks that are not stored yet. */
  get hasUnstored(): boolean {
    return this.#unstored > 0;
  }

  /** Called when a report with lines is stored. */
  stored(lines: readonly ReportedLine[]): void {
    for (const { level, text } of lines)
      if (level === STREAM_LEVEL) this.#unstored -= Math.min(this.#unstored, Buffer.byteLength(text));
    if (this.#unstored <= UNSTORED_BYTES_MAX) for (const resolve of this.#onRoom.splice(0)) resolve();
  }

  /** Adds values to publish. Of each key only the newest value is reported. */
  publish(values: Readonly<Record<string, Json>>): void {
    for (const [key, value] of Object.entries(values)) {
      // The key moves to the end of the map, because it was published last.
      this.#published.delete(key);
      this.#published.set(key, value);
    }
    this.#queue.onPublished(this);
  }

  /** Adds a notice after the lines that were written so far. */
  notice(notice: RunNotice): void {
    const wasEmpty = this.#isEmpty;
    this.#closeLines();
    this.#reports.push({ ...this.#attempt, ...notice });
    if (wasEmpty) this.#queue.onLines(this, false);
  }

  /** Removes and returns the lines and notices since the last call, in order. */
  drain(): readonly (LogsReport | NoticeReport | PublishedReport)[] {
    this.#closeLines();
    const reports: (LogsReport | NoticeReport | PublishedReport)[] = this.#reports;
    this.#reports = [];
    this.#waitingBytes = 0;
    const now = this.#queue.clock.now();
    if (this.#published.size > 0) {
      const values = Object.fromEntries(this.#published);
      this.#published = new Map();
      reports.push({ ...this.#attempt, kind: "published", values });
      this.publishedAt = now;
    }
    this.reportedAt = now;
    return reports;
  }

  get #isEmpty(): boolean {
    return this.#lines.length === 0 && this.#reports.length === 0;
  }

  #closeLines(): void {
    if (this.#lines.length === 0) return;
    this.#closePiece();
    const lines = this.#lines.map((line, i) => ({ n: this.#taken + i + 1, ...line }));
    this.#taken += lines.length;
    this.#lines = [];
    this.#progressAt = -1;
    this.#reports.push({ ...this.#attempt, kind: "logs", lines });
  }

  #closePiece(): void {
    if (this.#piece === null) return;
    const { line, head, chunks } = this.#piece;
    Object.assign(line, pieceLine(head, chunks));
    this.#piece = null;
  }

  #dropProgress(): void {
    if (this.#progressAt < 0) return;
    const [dropped] = this.#lines.splice(this.#progressAt, 1);
    const bytes = Buffer.byteLength(dropped?.text ?? "");
    this.#bytes -= bytes;
    this.#waitingBytes -= bytes;
    this.#progressAt = -1;
  }
}

const NOTICE = `[logs end here: over ${LINES_MAX} lines or ${BYTES_MAX} bytes per attempt]`;
