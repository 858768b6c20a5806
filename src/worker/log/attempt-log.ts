/**
 * Gathers the log lines of an attempt, and the notices about its runs, for its next report. Of progress updates only the newest
 * is kept.
 */
import type { RunNotice } from "../../kernel/message.ts";
import type { ReportedAttempt, ReportedLine } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { linesOf } from "./log-text.ts";
import type { Secrets } from "./secrets.ts";

/** The parts that the logs of all attempts of a worker share. */
export interface LogSink {
  readonly clock: Clock;
  readonly secrets: Secrets;
  /**
   * Called with the first line since the last report, and with `isFull` when there are so many lines that they should be sent
   * at once.
   */
  readonly onLines: (log: AttemptLog, isFull: boolean) => void;
}

export type LogsReport = ReportedAttempt & { readonly kind: "logs"; readonly lines: readonly ReportedLine[] };
export type NoticeReport = ReportedAttempt & RunNotice;

const LINES_MAX = 10_000;
const BYTES_MAX = 1_048_576;
/** Once the lines have this many bytes, they are sent at once. */
const REPORT_BYTES = 65_536;

export class AttemptLog {
  readonly #attempt: ReportedAttempt;
  readonly #queue: LogSink;
  #lines: Omit<ReportedLine, "n">[] = [];
  /** Reports that are complete: notices, and the lines before them. */
  #reports: (LogsReport | NoticeReport)[] = [];
  /** The index of the progress update among the lines; -1 if there is none. */
  #progressAt = -1;
  #waitingBytes = 0;
  /** The number of lines reported so far. */
  #taken = 0;
  #bytes = 0;
  #isOver = false;

  constructor(attempt: ReportedAttempt, desk: LogSink) {
    this.#attempt = attempt;
    this.#queue = desk;
  }

  /** Adds the lines of a text. `fields` is JSON text, and belongs to the first line. */
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

  /** Adds a notice after the lines that were written so far. */
  notice(notice: RunNotice): void {
    const wasEmpty = this.#isEmpty;
    this.#closeLines();
    this.#reports.push({ ...this.#attempt, ...notice });
    if (wasEmpty) this.#queue.onLines(this, false);
  }

  /** Removes and returns the lines and notices since the last call, in order. */
  drain(): readonly (LogsReport | NoticeReport)[] {
    this.#closeLines();
    const reports = this.#reports;
    this.#reports = [];
    this.#waitingBytes = 0;
    return reports;
  }

  get #isEmpty(): boolean {
    return this.#lines.length === 0 && this.#reports.length === 0;
  }

  #closeLines(): void {
    if (this.#lines.length === 0) return;
    const lines = this.#lines.map((line, i) => ({ n: this.#taken + i + 1, ...line }));
    this.#taken += lines.length;
    this.#lines = [];
    this.#progressAt = -1;
    this.#reports.push({ ...this.#attempt, kind: "logs", lines });
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
