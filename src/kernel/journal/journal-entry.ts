/**
 * The format of a journal row. A row has consecutive events of one step, with at most 1,000 items or 256 KiB of payload. The body is
 * text. Its first line is a JSON header, in which columns are shortened if all values are equal or count up by one. Then all payload
 * texts follow end to end; the lengths in the header say where each begins. The body ends with a checksum over the row and the name
 * of its execution (std/seal.ts), which rows of older versions lack. The header of the first row names the execution (`of`).
 */
import { assert } from "../../std/assert.ts";
import { seal, sealJoined, sealState } from "../../std/seal.ts";
import { LIMITS } from "../definition/definition.ts";
import { versionOfId } from "../definition/names.ts";
import type { Afters } from "../definition/task-name.ts";
import { EVENT_VERSION, type Event, type Recorded, versionOfEvent } from "../event.ts";
import { DamagedData, damageOf, WRONG_CHECKSUM } from "./damage.ts";

/** A row of the journal as stores keep it. */
export interface Entry {
  /** The sequence number of the row's first event. */
  readonly seq: number;
  /** How many events the row holds. */
  readonly count: number;
  /** The time of the events, which all belong to one step. */
  readonly at: number;
  readonly body: string;
  /** Why the row is damaged, if the store has found that. Then the body must not be read. */
  readonly damage?: string;
}

/** Returns the number of characters in the bodies of journal rows. */
export function charsIn(entries: readonly Pick<Entry, "body">[]): number {
  let chars = 0;
  for (const { body } of entries) chars += body.length;
  return chars;
}

/** For each kind of event, the field that contains the list of payload texts. */
const PAYLOADS: Partial<Record<Event["kind"], string>> = {
  "tasks.enumerated": "tasks",
  "tasks.settled": "payloads",
  "tasks.retrying": "errors",
};

/** The most payload characters in a row. The next constant is the most tasks. */
const ROW_CHARS = LIMITS.rowBytes;
const ROW_ITEMS = LIMITS.rowItems;

type Column =
  | readonly unknown[]
  | { readonly all: unknown; readonly n: number }
  | { readonly up: number; readonly n: number };

/**
 * Packs the events of one step of an execution into rows. The version of a row also depends on the execution's id, so that versions
 * of Rondo that refuse such ids do not read the row.
 */
export function encodeEntries(events: readonly Recorded[], execution: string): Entry[] {
  const entries: Entry[] = [];
  let from = 0;
  let chars = 0;
  let items = 0;
  for (let i = 0; i <= events.length; i++) {
    const event = events[i];
    const size = event === undefined ? 0 : payloadChars(event.event);
    const count = event !== undefined && "tasks" in event.event ? event.event.tasks.length : 0;
    const isFull = chars + size > ROW_CHARS || items + count > ROW_ITEMS;
    if (event === undefined || (i > from && (isFull || event.at !== (events[from] as Recorded).at))) {
      if (i > from)
        entries.push(
          encodeRow(from === 0 && i === events.length ? events : events.slice(from, i), execution),
        );
      from = i;
      chars = 0;
      items = 0;
    }
    chars += size;
    items += count;
  }
  return entries;
}

/** Verifies the checksum of a row that was read. A row without a checksum is accepted. */
export function checkedEntry<Row extends Entry>(row: Row, execution: string): Row {
  const key = keyOf(execution, row.seq, row.count, row.at);
  return sealState(row.body, key) === "broken" ? { ...row, damage: WRONG_CHECKSUM } : row;
}

/** Returns the execution that the first row of a journal names; null if Rondo 0.2 wrote the row, or if the row is damaged. */
export function executionOf(row: Entry): string | null {
  const end = row.body.indexOf("\n");
  try {
    const { of } = JSON.parse(end < 0 ? row.body : row.body.slice(0, end)) as { of?: unknown };
    return typeof of === "string" && checkedEntry(row, of).damage === undefined ? of : null;
  } catch (thrown) {
    if (thrown instanceof SyntaxError || thrown instanceof TypeError) return null;
    throw thrown;
  }
}

/** Decodes the events of a row. */
export function decodeEntry(entry: Entry): Recorded[] {
  return decodeUpTo(EVENT_VERSION, entry);
}

/** Decodes the events of a row; returns none if the row is damaged. It is for scans over many executions. */
export function decodeReadable(entry: Entry): Recorded[] {
  try {
    return decodeEntry(entry);
  } catch (thrown) {
    if (thrown instanceof DamagedData) return [];
    throw thrown;
  }
}

/** Decodes the events of a row without their payloads, whose lists are empty. It is for scans that do not need payloads. */
export function decodeColumns(entry: Entry): Recorded[] {
  return decodeUpTo(EVENT_VERSION, entry, false);
}

/** The body of a row that stands for rows that were deleted when a gate's journal was compacted. Only imports write such a row. */
export const TRIMMED = "(trimmed)";

/** Decodes the events of a row up to the version `reads`. Throws `UnknownVersion` or `DamagedData`. */
export function decodeUpTo(reads: number, entry: Entry, withPayloads = true): Recorded[] {
  const place = { table: "journal", execution: null, row: entry.seq };
  if (entry.damage !== undefined) throw new DamagedData({ ...place, why: entry.damage });
  if (entry.body === TRIMMED) return [];
  try {
    const events = decodeRow(reads, entry, withPayloads);
    if (events.length === entry.count) return events;
  } catch (thrown) {
    if (thrown instanceof UnknownVersion) throw thrown;
    throw new DamagedData(damageOf(thrown, place), { cause: thrown });
  }
  throw new DamagedData({ ...place, why: "the row does not have the number of events that it declares" });
}

function decodeRow(reads: number, entry: Entry, withPayloads: boolean): Recorded[] {
  const end = entry.body.indexOf("\n");
  const header = JSON.parse(end < 0 ? entry.body : entry.body.slice(0, end)) as {
    v: number;
    events: Record<string, unknown>[];
  };
  if (!Number.isInteger(header.v) || header.v < 1) throw new Error("the row has no version");
  if (header.v > reads) throw new UnknownVersion(header.v, reads);
  let at = end + 1;
  return header.events.map((packed, i) => {
    const event: Record<string, unknown> = {};
    const kind = packed["kind"] as Event["kind"];
    const payloads = PAYLOADS[kind];
    const hasColumns = kind.startsWith("tasks.");
    for (const [field, value] of Object.entries(packed)) {
      if (field === payloads && !withPayloads) {
        event[field] = [];
        continue;
      }
      event[field] = hasColumns && isColumn(value) ? unpack(value) : value;
      if (field !== payloads) continue;
      event[field] = (event[field] as number[]).map((length) => entry.body.slice(at, (at += length)));
    }
    return { seq: entry.seq + i, at: entry.at, event: event as unknown as Event };
  });
}

/** Thrown for a row that a newer version of Rondo has written. */
export class UnknownVersion extends Error {
  override name = "UnknownVersion";
  constructor(version: number, reads: number) {
    super(`the journal has rows of version ${version}; this version of Rondo reads versions up to ${reads}`);
  }
}

/** Returns the lowest version of events that a node must know to read these events of an execution. */
export function versionNeeded(events: readonly Recorded[], execution: string): number {
  let version = versionOfId(execution);
  for (const { event } of events) version = Math.max(version, versionOfEvent(event));
  return version;
}

function encodeRow(events: readonly Recorded[], execution: string): Entry {
  const first = events[0] as Recorded;
  const parts: string[] = [];
  const packed: unknown[] = [];
  for (const { event } of events)
    packed.push(event.kind.startsWith("tasks.") ? packColumns(event, parts) : event);
  const v = versionNeeded(events, execution);
  const { seq, at } = first;
  const header = JSON.stringify(seq === 1 ? { v, of: execution, events: packed } : { v, events: packed });
  const key = keyOf(execution, seq, events.length, at);
  const body = parts.length === 0 ? seal(header, key) : sealJoined(`${header}\n`, parts.join(""), key);
  return { seq, count: events.length, at, body };
}

/** Returns the text that the checksum of a row covers besides the body. */
function keyOf(execution: string, seq: number, count: number, at: number): string {
  return `${execution}\n${seq} ${count} ${at}`;
}

/** Shortens the columns of an event about many tasks, for the header of a row. The payload texts are added to `parts`. */
function packColumns(event: Event, parts: string[]): Record<string, unknown> {
  const payloads = PAYLOADS[event.kind];
  const row: Record<string, unknown> = {};
  for (const field in event) {
    const value = (event as unknown as Record<string, unknown>)[field];
    if (!Array.isArray(value)) row[field] = value;
    else row[field] = pack(field === payloads ? movePayloads(value as string[], parts) : value);
  }
  return row;
}

/** Adds payload texts to `parts`, and returns their lengths. */
function movePayloads(texts: readonly string[], parts: string[]): number[] {
  const lengths: number[] = [];
  for (const text of texts) {
    parts.push(text);
    lengths.push(text.length);
  }
  return lengths;
}

function payloadChars(event: Event): number {
  let chars = 200;
  if (event.kind === "tasks.enumerated")
    for (let i = 0; i < event.tasks.length; i++)
      chars += (event.tasks[i] as string).length + charsOf(event.afters?.[i]);
  else if (event.kind === "tasks.settled") for (const text of event.payloads) chars += text.length;
  else if (event.kind === "tasks.retrying") for (const text of event.errors) chars += text.length;
  else if (event.kind === "task.step") chars += (event.result ?? event.error ?? "").length;
  else if (event.kind === "task.step.retrying" || event.kind === "task.step.failed")
    chars += event.error.length;
  else if (event.kind === "published") chars += JSON.stringify(event.values).length;
  else if (event.kind === "task.run") chars += event.state.length;
  else if (event.kind === "command.receipted") chars += (event.result ?? event.error ?? "").length;
  return chars;
}

function pack(values: readonly unknown[]): Column {
  const n = values.length;
  if (n < 2) return values;
  const first = values[0];
  let equal = true;
  let up = typeof first === "number";
  for (let i = 1; i < n && (equal || up); i++) {
    if (values[i] !== first) equal = false;
    if (up && values[i] !== (first as number) + i) up = false;
  }
  if (equal) return { all: first, n };
  return up ? { up: first as number, n } : values;
}

function unpack(column: Column): readonly unknown[] {
  if (!("n" in column)) return column;
  if (!("up" in column)) return equalColumn(column.all, column.n);
  const values: number[] = [];
  for (let i = 0; i < column.n; i++) values.push(column.up + i);
  return values;
}

/**
 * A cache of columns whose values are all equal, because rows of a long journal repeat the same few columns. They must not be
 * changed.
 */
const equalColumns = new Map<unknown, readonly unknown[]>();
const EQUAL_COLUMNS_MAX = 64;

function equalColumn(value: unknown, n: number): readonly unknown[] {
  const known = equalColumns.get(value);
  if (known?.length === n) return known;
  const values: unknown[] = [];
  for (let i = 0; i < n; i++) values.push(value);
  if (equalColumns.size >= EQUAL_COLUMNS_MAX) equalColumns.clear();
  equalColumns.set(value, values);
  return values;
}

function isColumn(value: unknown): value is Column {
  if (Array.isArray(value)) return true;
  return typeof value === "object" && value !== null && "n" in value && ("all" in value || "up" in value);
}

/** Checks that rows follow one another without a gap. */
export function assertContiguous(entries: readonly Entry[], from: number): void {
  let next = from;
  for (const entry of entries) {
    assert(
      entry.seq === next,
      `journal rows must follow one another without a gap (expected ${next}, found ${entry.seq})`,
    );
    next += entry.count;
  }
}

function charsOf(names: readonly string[] | undefined): number {
  let chars = 0;
  for (const name of names ?? []) chars += name.length;
  return chars;
}

/**
 * Splits tasks into ranges [from, to) that each fit into a row, together with the names of the tasks for which they wait. A single
 * task always fits.
 */
export function* rowRanges(texts: readonly string[], afters?: Afters): Generator<readonly [number, number]> {
  let from = 0;
  let chars = 0;
  for (let i = 0; i < texts.length; i++) {
    const length = (texts[i] as string).length + charsOf(afters?.[i]);
    if (i > from && (i - from >= LIMITS.rowItems || chars + length > LIMITS.rowBytes)) {
      yield [from, i];
      from = i;
      chars = 0;
    }
    chars += length;
  }
  if (from < texts.length) yield [from, texts.length];
}
