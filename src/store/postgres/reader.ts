/** All reads of executions in the PostgreSQL store; each is one statement, so what it answers is of one moment. */
import { checkedEntry, type Entry } from "../../kernel/journal-entry.ts";
import { readTags } from "../read-tags.ts";
import type {
  HeadFilter,
  JournalRange,
  JournalRow,
  LoadedExecution,
  Partitions,
  StoredHead,
  StoredTimer,
} from "../store.ts";
import type { Links } from "./links.ts";
import { READS } from "./read-statements.ts";
import { decodeText, joinNumbers, joinTexts, plainText, splitTexts } from "./text.ts";

/** Stands for "no bound" in statements that have one. */
export const LAST = Number.MAX_SAFE_INTEGER;
const LAST_SEQ = 2_147_483_647;

/** Rows of a journal read in one go; fewer while counting characters, which bounds what is held beyond the limit. */
const ROWS_AT_ONCE = 1_000;
const COUNTED_ROWS_AT_ONCE = 32;

type HeadRow = readonly [
  e: number,
  id: string,
  partition: number,
  workflow: string,
  hash: string,
  project: string,
  status: string,
  phase: string | null,
  want: StoredHead["want"],
  priority: number,
  createdAt: number,
  finishedAt: number | null,
  tags: string,
  error: string | null,
];

type LoadRow = readonly [
  ...HeadRow,
  epoch: number,
  opened: string | null,
  snapshotSeq: number | null,
  foldVersion: number,
  snapshotChain: string,
  snapshotBody: string,
  rows: string | null,
  bodies: string,
  chain: string | null,
  end: number,
  carried: string | null,
];

/** An execution as loaded, with what is known of it by that. */
export interface Loaded {
  readonly e: number;
  readonly end: number;
  /** The phase that the journal names, since the head does not; null: the head names it. */
  readonly phase: string | null;
  readonly execution: LoadedExecution;
}

export class PostgresReader {
  readonly #links: Links;

  constructor(links: Links) {
    this.#links = links;
  }

  /** By id, of those that exist. */
  async load(ids: readonly string[], foldVersion: number | undefined): Promise<Map<string, Loaded>> {
    const wanted = joinTexts([...new Set(ids)].map(plainText));
    if (wanted === null) return new Map();
    const rows = await this.#read<LoadRow>("load", [wanted, foldVersion ?? null]);
    return new Map(rows.map((row) => [row[1], loadedOf(row)]));
  }

  async readJournal(range: JournalRange): Promise<JournalRow[]> {
    const { execution, to = LAST_SEQ, rowsMax = LAST, charsMax, chains = false } = range;
    const atOnce = charsMax === undefined ? ROWS_AT_ONCE : COUNTED_ROWS_AT_ONCE;
    const found: JournalRow[] = [];
    let { from } = range;
    let chars = 0;
    for (;;) {
      const max = Math.min(atOnce, rowsMax - found.length);
      const rows = max > 0 ? await this.#rows([execution, from, Math.min(to, LAST_SEQ), max]) : [];
      for (const { chain, ...row } of rows) {
        if (chars >= (charsMax ?? Infinity)) return found;
        found.push(chains ? { ...row, chain } : row);
        chars += row.body.length;
        from = row.seq + row.count;
      }
      if (rows.length < atOnce || chars >= (charsMax ?? Infinity)) return found;
    }
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
    partitions: Partitions;
  }): Promise<StoredHead[]> {
    const pairs = Object.entries(options.after);
    const rows = await this.#read<HeadRow>("work", [
      joinTexts(pairs.map(([pair]) => plainText(pair))),
      joinNumbers(pairs.map(([, after]) => after)),
      partitionsValue(options.partitions),
      limit(options.each),
    ]);
    return rows.map(headOf);
  }

  async scanTimers(options: {
    from?: number;
    until: number;
    max: number;
    partitions: Partitions;
  }): Promise<StoredTimer[]> {
    const rows = await this.#read<[id: string, timer: string, due: number]>("timers", [
      Math.min(options.until, LAST),
      partitionsValue(options.partitions),
      limit(options.max),
      options.from ?? 0,
    ]);
    return rows.map(([execution, timer, due]) => ({ execution, timer, due }));
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<StoredHead[]> {
    const { project, workflow, status } = filter;
    const page = [options.before ?? LAST, limit(options.max)];
    if (project === undefined && workflow === undefined && status === undefined)
      return (await this.#read<HeadRow>("newest", page)).map(headOf);
    const statement = project === undefined ? "list" : "list-of-project";
    const rows = await this.#read<HeadRow>(statement, [
      project ?? null,
      workflow ?? null,
      status ?? null,
      ...page,
    ]);
    return rows.map(headOf);
  }

  /** Heads by order, those that are there. */
  async headsOf(orders: readonly number[]): Promise<StoredHead[]> {
    if (orders.length === 0) return [];
    return (await this.#read<HeadRow>("heads", [joinNumbers(orders)])).map(headOf);
  }

  async #rows(values: readonly (string | number)[]): Promise<(Entry & { chain: string | null })[]> {
    type Row = [seq: number, count: number, at: number, body: string, chain: string | null];
    const rows = await this.#read<Row>("journal", values);
    return rows.map(([seq, count, at, body, chain]) => ({
      ...checkedEntry({ seq, count, at, body: decodeText(body) }, String(values[0])),
      chain: chain === null ? null : decodeText(chain),
    }));
  }

  #read<Row extends readonly unknown[]>(
    name: keyof typeof READS,
    values: readonly (string | number | null)[],
  ): Promise<Row[]> {
    return this.#links.run<Row>({ name, text: READS[name] }, values);
  }
}

/** A number of rows as PostgreSQL takes it. */
export function limit(max: number): number {
  return Math.max(0, Math.min(max, LAST));
}

/** Null: all partitions. */
export function partitionsValue(partitions: Partitions): string | null {
  return partitions === null ? null : (joinNumbers(partitions) ?? "{}");
}

function loadedOf(row: LoadRow): Loaded {
  const [epoch, opened, seq, foldVersion, chain, body, rows, bodies, lastChain, end, phase] = row.slice(
    HEAD_FIELDS,
  ) as unknown as Rest;
  return {
    e: row[0],
    end,
    phase,
    execution: {
      head: headOf(row as unknown as HeadRow),
      snapshot: seq === null ? null : { seq, foldVersion, chain: decodeText(chain), body: decodeText(body) },
      entries: rows === null ? [] : entriesOf(row[1], rows, bodies),
      chain: lastChain === null ? "" : decodeText(lastChain),
      opened: opened === null ? {} : (JSON.parse(opened) as Record<string, number>),
      epoch,
    },
  };
}

const HEAD_FIELDS = 14;
type Rest = LoadRow extends readonly [...HeadRow, ...infer R] ? R : never;

function entriesOf(execution: string, rows: string, joined: string): Entry[] {
  const bodies = splitTexts(joined);
  return rows.split(";").map((row, i) => {
    const [seq, count, at] = row.split(",").map(Number) as [number, number, number];
    return checkedEntry({ seq, count, at, body: decodeText(bodies[i] ?? "") }, execution);
  });
}

function headOf(row: HeadRow): StoredHead {
  const [order, id, partition, workflow, hash, project, status, phase, want, priority, createdAt] = row;
  const [, , , , , , , , , , , finishedAt, tags, error] = row;
  return {
    order,
    id,
    partition,
    workflow,
    hash,
    project,
    status,
    phase,
    want,
    priority,
    createdAt,
    finishedAt,
    tags: readTags(decodeText(tags)),
    error: error === null ? null : decodeText(error),
  };
}
