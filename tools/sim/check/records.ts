/**
 * Checks records that are stored with commits: every accepted log line is stored once and in order, and dead letters are
 * exactly the failed tasks.
 */
import { encodeAttempt } from "../../../src/protocol/attempt-id.ts";
import { readPiece } from "../../../src/protocol/stream-piece.ts";
import type { ReportedAttempt, ReportedLine } from "../../../src/protocol/work.ts";
import type { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { must } from "../trace.ts";
import { keyOf } from "../worker/place.ts";
import { checkAudit } from "./audit-check.ts";
import type { Model } from "./model.ts";

const ALL = 1_000_000;

export class Records {
  readonly #tables: MemoryTables;
  /** The last acknowledged line by execution and attempt, with the attempt's name in the simulation. */
  readonly #accepted = new Map<string, Map<string, { lines: Set<number>; key: string }>>();

  constructor(tables: MemoryTables) {
    this.#tables = tables;
  }

  /** Lines were acknowledged as stored. */
  accepted(at: ReportedAttempt, lines: readonly ReportedLine[]): void {
    const attempts =
      this.#accepted.get(at.execution) ?? new Map<string, { lines: Set<number>; key: string }>();
    this.#accepted.set(at.execution, attempts);
    const id = encodeAttempt(at);
    const known = attempts.get(id) ?? { lines: new Set<number>(), key: keyOf(at) };
    attempts.set(id, known);
    for (const { n } of lines) known.lines.add(n);
  }

  check(model: Model): void {
    this.#checkLogs(model.id);
    const stored = this.#tables
      .listDeadLetters({ execution: model.id }, { before: null, max: ALL })
      .reverse()
      .map(lineOf);
    const expected = model.deadLetters.toSorted((a, b) => a.seq - b.seq).map(lineOf);
    must(
      stored.join("; ") === expected.join("; "),
      `${model.id}: its dead letters are [${stored.join("; ")}], [${expected.join("; ")}] failed`,
    );
  }

  /** At the end of a run. The journal is audited too. */
  checkEnd(model: Model): void {
    this.check(model);
    checkAudit(this.#tables, model);
  }

  forget(execution: string): void {
    this.#accepted.delete(execution);
  }

  #checkLogs(execution: string): void {
    const last = new Map<string, number>();
    const chunks = new Map<string, number>();
    const stored = new Map<string, Set<number>>();
    for (const row of this.#tables.readLogs({ execution, after: 0, rowsMax: ALL })) {
      const numbers = stored.get(row.attempt) ?? new Set();
      stored.set(row.attempt, numbers);
      for (const line of row.lines) {
        const { n, text } = line;
        must(
          n > (last.get(row.attempt) ?? 0),
          `${row.attempt}: line ${n} is stored after ${last.get(row.attempt)}`,
        );
        const piece = readPiece(line);
        if (piece === null)
          must(text.startsWith(`${n} of ${execution}/`), `${row.attempt}: line ${n} says "${text}"`);
        else {
          const next = chunks.get(row.attempt) ?? 0;
          const written = piece.chunks.map((_, i) => next + i);
          must(
            piece.index === next && JSON.stringify(piece.chunks) === JSON.stringify(written),
            `${row.attempt}: after ${next} chunks of its stream come ${piece.chunks.length} from ${piece.index}`,
          );
          chunks.set(row.attempt, next + piece.chunks.length);
        }
        last.set(row.attempt, n);
        numbers.add(n);
      }
    }
    for (const [attempt, { lines }] of this.#accepted.get(execution) ?? [])
      for (const n of lines)
        must(
          stored.get(attempt)?.has(n) === true,
          `${attempt}: line ${n} was acknowledged and is not stored`,
        );
  }
}

/** The tasks of a dead letter as text. They are a set: tasks that fail with a dependency are not in the order of their numbers. */
function lineOf({ seq, tasks }: { readonly seq: number; readonly tasks: readonly number[] }): string {
  return `${seq}: ${tasks.toSorted((a, b) => a - b).join()}`;
}
