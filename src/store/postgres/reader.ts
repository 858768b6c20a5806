/** Reads executions from PostgreSQL. Each read is one statement, or several if the database cannot read a value. */
import { checkedEntry, type Entry } from "../../kernel/journal/journal-entry.ts";
import { readTags } from "../read-tags.ts";
import {
  DAMAGED,
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type Page,
  type Partitions,
  type StoredHead,
  type StoredTimer,
  type TimerScan,
  type WorkScan,
} from "../store.ts";
import { UnreadableValue } from "./faults.ts";
import type { Links } from "./links.ts";
import { orUnreadable, readApart, textsApart } from "./read-apart.ts";
import { READS } from "./read-statements.ts";
import { decodeText, joinNumbers, joinTexts, plainText, splitTexts } from "./text.ts";

/** The greatest number, which stands for "no bound" in statements that need a bound. */
export const LAST = Number.MAX_SAFE_INTEGER;
const LAST_SEQ = 2_147_483_647;
const LEAST_SEQ = -2_147_483_648;

/**
 * The number of journal rows that one read returns. It is smaller for reads that count characters, so that a read exceeds
 * `charsMax` only a little.
 */
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

type RowsWanted = readonly [id: string, from: number, to: number, max: number];
type ChainedEntry = Entry & { readonly chain: string | null };

/** A loaded execution, with the data for the cache (known-executions.ts). */
export interface Loaded {
  readonly e: number;
  readonly end: number;
  /** The phase of the execution if it is stored with the journal rows; null if it is stored in the head. */
  readonly phase: string | null;
  readonly execution: LoadedExecution;
}

export class PostgresReader {
  readonly #links: Links;
  readonly #settled: () => Promise<void>;

  /** `settled` resolves when the outcome of every commit of this node is known. Scans and reads of journals wait for that. */
  constructor(links: Links, settled: () => Promise<void>) {
    this.#links = links;
    this.#settled = settled;
  }

  /** Loads the executions that exist, by id. */
  async loadAll(ids: readonly string[], foldVersion: number | undefined): Promise<Map<string, Loaded>> {
    const read = async (some: readonly string[]) => {
      const wanted = joinTexts(some.map(plainText));
      if (wanted === null) return [];
      return (await this.#read<LoadRow>("load", [wanted, foldVersion ?? null])).map(loadedOf);
    };
    const loaded = await readApart([...new Set(ids)], read, (id, fault) => this.#loadApart(id, fault));
    return new Map(loaded.map((one) => [one.execution.head.id, one]));
  }

  async readJournal(range: JournalRange): Promise<JournalRow[]> {
    const { execution, to = LAST_SEQ, rowsMax = LAST, charsMax, chains = false } = range;
    await this.#settled();
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

  async scanWork(options: WorkScan): Promise<StoredHead[]> {
    await this.#settled();
    const pairs = Object.entries(options.after);
    return this.#listHeads("work", [
      joinTexts(pairs.map(([pair]) => plainText(pair))),
      joinNumbers(pairs.map(([, after]) => after)),
      partitionsValue(options.partitions),
      limit(options.each),
    ]);
  }

  async scanTimers(options: TimerScan): Promise<StoredTimer[]> {
    await this.#settled();
    const rows = await this.#read<[id: string, timer: string, due: number]>("timers", [
      Math.min(options.until, LAST),
      partitionsValue(options.partitions),
      limit(options.max),
      options.from ?? 0,
    ]);
    return rows.map(([execution, timer, due]) => ({ execution, timer, due }));
  }

  async listHeads({ project, workflow, status }: HeadFilter, options: Page): Promise<StoredHead[]> {
    const page = [options.before ?? LAST, limit(options.max)];
    if (project === undefined && workflow === undefined && status === undefined)
      return this.#listHeads("newest", page);
    const statement = project === undefined ? "list" : "list-of-project";
    return this.#listHeads(statement, [project ?? null, workflow ?? null, status ?? null, ...page]);
  }

  async headsOf(orders: readonly number[]): Promise<StoredHead[]> {
    const newestFirst = [...orders].sort((a, b) => b - a);
    return [...(await this.#headsApart(newestFirst))];
  }

  async #listHeads(
    statement: "work" | "newest" | "list" | "list-of-project",
    values: readonly (string | number | null)[],
  ): Promise<StoredHead[]> {
    const rows = await orUnreadable(this.#read<HeadRow>(statement, values));
    if (!(rows instanceof UnreadableValue)) return rows.map(headOf);
    const orders = (await this.#read<[e: number]>(`${statement}-orders`, values)).map(([e]) => e);
    const heads = new Map((await this.#headsApart(orders)).map((head) => [head.order, head]));
    return orders.flatMap((order) => heads.get(order) ?? []);
  }

  /**
   * Reads heads by order number. A head that the database cannot read is read again without tags and error; if that fails, also
   * without the phase in the journal.
   */
  #headsApart(orders: readonly number[]): Promise<readonly StoredHead[]> {
    const read = async (some: readonly number[]) =>
      some.length === 0 ? [] : (await this.#read<HeadRow>("heads", [joinNumbers(some)])).map(headOf);
    return readApart(orders, read, async (order) => {
      for (const narrower of ["narrow-head", "narrowest-head"] as const) {
        const rows = await orUnreadable(this.#read<HeadRow>(narrower, [order]));
        if (!(rows instanceof UnreadableValue)) return rows.map(headOf);
      }
      return [];
    });
  }

  /**
   * Loads an execution with a value that the database cannot read: first the head, then the rows, then the marks. The snapshot
   * is left out.
   */
  async #loadApart(id: string, fault: UnreadableValue): Promise<readonly Loaded[]> {
    const order = await orUnreadable(this.#read<[e: number]>("head-order", [id]));
    if (order instanceof UnreadableValue) return [unreadable(id, "executions", order)];
    const [e] = order[0] ?? [];
    if (e === undefined) return [];
    const [head] = await this.#headsApart([e]);
    if (head === undefined) return [unreadable(id, "executions", fault)];
    const rows = await this.#rowsApart([id, LEAST_SEQ, LAST_SEQ, LAST]);
    const narrow = await orUnreadable(this.#read<[epoch: number, opened: string | null]>("narrow-load", [e]));
    if (narrow instanceof UnreadableValue) return [unreadable(id, "opened", narrow, head)];
    const [marked] = narrow;
    if (marked === undefined) return [];
    const [epoch, opened] = marked;
    const last = rows.at(-1);
    const execution: LoadedExecution = {
      ...{ head, snapshot: null, epoch, chain: last?.chain ?? "" },
      entries: rows.map(({ chain: _, phase: __, ...entry }) => entry),
      opened: opened === null ? {} : (JSON.parse(opened) as Record<string, number>),
    };
    const end = last === undefined ? 0 : last.seq + last.count - 1;
    return [{ e, end, phase: last?.phase ?? null, execution }];
  }

  async #rows(values: RowsWanted): Promise<ChainedEntry[]> {
    type Row = [seq: number, count: number, at: number, body: string, chain: string | null];
    const rows = await orUnreadable(this.#read<Row>("journal", values));
    if (rows instanceof UnreadableValue)
      return (await this.#rowsApart(values)).map(({ phase: _, ...row }) => row);
    return rows.map(([seq, count, at, body, chain]) => ({
      ...checkedEntry({ seq, count, at, body: decodeText(body) }, String(values[0])),
      chain: chain === null ? null : decodeText(chain),
    }));
  }

  /**
   * Reads a journal in which the database cannot read some bodies. If it cannot read the numbers of the rows either, one row is
   * returned that says why.
   */
  async #rowsApart(values: RowsWanted): Promise<(ChainedEntry & { readonly phase: string | null })[]> {
    type Row = [seq: number, count: number, at: number, chain: string | null, phase: string | null];
    const [id, from] = values;
    const rows = await orUnreadable(this.#read<Row>("journal-numbers", values));
    if (rows instanceof UnreadableValue) {
      const nothing = { count: 1, at: 0, body: "", chain: null, phase: null };
      return [{ seq: Math.max(from, 1), ...nothing, damage: rows.why }];
    }
    const statement = { name: "journal-bodies", text: READS["journal-bodies"] };
    const seqs = rows.map(([seq]) => seq);
    const bodies = await textsApart(this.#links, statement, seqs, [id]);
    return rows.flatMap(([seq, count, at, stored, phase]) => {
      const body = bodies.get(seq);
      // The row was purged after its key was read.
      if (body === undefined) return [];
      const rest = { chain: stored === null ? null : decodeText(stored), phase };
      if (body.damage !== undefined) return [{ seq, count, at, body: "", damage: body.damage, ...rest }];
      return [{ ...checkedEntry({ seq, count, at, body: decodeText(body.text) }, id), ...rest }];
    });
  }

  #read<Row extends readonly unknown[]>(
    name: keyof typeof READS,
    values: readonly (string | number | null)[],
  ): Promise<Row[]> {
    return this.#links.run<Row>({ name, text: READS[name] }, values);
  }
}

/** Makes an execution of which only the existence is known, because the database cannot read its rows. */
function unreadable(id: string, table: string, { why }: UnreadableValue, head?: StoredHead): Loaded {
  const unknown: StoredHead = {
    ...{ id, order: 0, partition: 0, workflow: "", hash: "", project: "", status: DAMAGED, phase: null },
    ...{ want: "nothing", priority: 0, createdAt: 0, finishedAt: null, tags: {}, error: why },
  };
  const damage = { table, execution: id, row: id, why };
  const nothing = { snapshot: null, entries: [], chain: "", opened: {}, epoch: 0 };
  return {
    e: head?.order ?? 0,
    end: 0,
    phase: null,
    execution: { head: head ?? unknown, damage, ...nothing },
  };
}

/** Limits a number of rows to the range that PostgreSQL accepts. */
export function limit(max: number): number {
  return Math.max(0, Math.min(max, LAST));
}

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
