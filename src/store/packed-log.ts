/**
 * The stored form of log rows: one flat JSON array per row, with times relative to the first line. Rows are packed and
 * unpacked by the engine's thread; the store's thread parses a row only if some of its lines may be stored already.
 */
import { WRONG_CHECKSUM } from "../kernel/journal/damage.ts";
import { seal, unseal } from "../std/seal.ts";
import type { LogLine, LogRow, StoredLogRow } from "./store.ts";

/**
 * A field of a packed row. A pair is the run of a script and the fields of a log line; nodes of version 0.2 ignore a pair and
 * show no run.
 */
type Field = string | number | readonly [run: string | 0, fields: string];

/** The number of fields before the lines: phase, visit, handler, task, number, worker, time of the first line. */
const HEAD_FIELDS = 7;
/**
 * The number of fields of a line: its number, time relative to the first line, level, text, and run (0 for none). If the line
 * has structured fields, the last one is a pair of run and fields.
 */
const LINE_FIELDS = 5;

export interface PackedLogRow {
  readonly order: number;
  readonly attempt: string;
  readonly body: string;
}

export function packLog(row: LogRow): string {
  const from = row.lines[0]?.at ?? 0;
  const packed: Field[] = [row.phase, row.visit, row.handler, row.task, row.number, row.worker, from];
  for (const { n, at, level, text, run, fields } of row.lines)
    packed.push(n, at - from, level, text, fields === undefined ? (run ?? 0) : [run ?? 0, fields]);
  return seal(JSON.stringify(packed), row.attempt);
}

/** Unpacks a row. A damaged row becomes one line with an error message. */
export function unpackLog(row: PackedLogRow): StoredLogRow {
  const { text, state } = unseal(row.body, row.attempt);
  try {
    if (state !== "broken") return unpack(row, JSON.parse(text) as Field[]);
  } catch (thrown) {
    return damagedLog(row, (thrown as Error).message);
  }
  return damagedLog(row, WRONG_CHECKSUM);
}

/** The line that is shown in place of a damaged row. */
export function damagedLog({ order, attempt }: Omit<PackedLogRow, "body">, why: string): StoredLogRow {
  const text = `log lines of this attempt are damaged (row ${order}): ${why}`;
  const lines = [{ n: 1, at: 0, level: "error", text }];
  return { order, attempt, phase: "", visit: 0, handler: "", task: -1, number: 0, worker: "", lines };
}

function unpack({ order, attempt }: PackedLogRow, packed: readonly Field[]): StoredLogRow {
  const [phase, visit, handler, task, number, worker, from] = packed as [
    string,
    number,
    string,
    number,
    number,
    string,
    number,
  ];
  const lines: LogLine[] = [];
  for (let i = HEAD_FIELDS; i < packed.length; i += LINE_FIELDS) {
    const [n, after, level, text, run] = packed.slice(i, i + LINE_FIELDS) as [
      number,
      number,
      string,
      string,
      Field,
    ];
    const [name, fields] = typeof run === "object" ? run : [run];
    const line = { n, at: from + after, level, text, ...(fields === undefined ? {} : { fields }) };
    lines.push(typeof name === "string" ? { ...line, run: name } : line);
  }
  return { order, attempt, phase, visit, handler, task, number, worker, lines };
}

/** Returns the packed row without the lines up to number `last`; null if no line is left. */
export function linesAfter(attempt: string, body: string, last: number): string | null {
  const packed = JSON.parse(body) as Field[];
  const left = packed.slice(0, HEAD_FIELDS);
  for (let i = HEAD_FIELDS; i < packed.length; i += LINE_FIELDS)
    if ((packed[i] as number) > last) left.push(...packed.slice(i, i + LINE_FIELDS));
  return left.length === HEAD_FIELDS ? null : seal(JSON.stringify(left), attempt);
}
