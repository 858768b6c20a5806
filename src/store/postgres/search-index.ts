/**
 * The search index of the PostgreSQL store, which maps terms to executions (store/search-terms.ts). It is written after the commits:
 * 1. Each node indexes its own commits, from memory.
 * 2. Cursors that follow some time later find the rest: commits of a node that died before it indexed them, commits of nodes of older
 *    versions, and executions from before the index. All nodes advance the cursors; existing entries stay.
 */
import { type FoundOrders, inAny, ordersUpTo } from "../found-orders.ts";
import { errorTerms, type SearchWord, termsOf } from "../search-terms.ts";
import type { Commit } from "../store.ts";
import type { Value } from "./link.ts";
import type { Links } from "./links.ts";
import type { PostgresReader } from "./reader.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

/** How many executions one call indexes. */
const SLICE = 200;
/** How many new executions of this node that share a single term one call indexes. */
const SLICE_PLAIN = 1_000;
/**
 * How far the cursors stay behind the newest execution. A commit that is still running may have smaller numbers than one that has ended.
 */
const BEHIND_MS = 30_000;

/**
 * Limits of a search by the beginning of an id. Up to FEW matches are sorted by age; if there are more, only the NEWEST
 * executions are read first.
 */
const FEW = 5_000;
const NEWEST = 20_000;
const MANY = 100_000;
/** A character that is greater than any other. */
const LAST_CHARACTER = "\u{10ffff}";

const CHECKED = "check_generation_1($1) AS checked";

export const SEARCH_READS = {
  "search-term": "SELECT e FROM search WHERE term = $1 AND e < $2 ORDER BY e DESC LIMIT $3",
  "search-ids": "SELECT e FROM executions WHERE id >= $1 AND id < $2 LIMIT $3",
  "search-newest": `SELECT e FROM (SELECT e, id FROM executions WHERE e < $1 ORDER BY e DESC LIMIT $2) AS newest
    WHERE id >= $3 AND id < $4 ORDER BY e DESC LIMIT $5`,
  "search-floor": `SELECT coalesce(min(e), 0), count(*)::int FROM
    (SELECT e FROM executions WHERE e < $1 ORDER BY e DESC LIMIT $2) AS newest`,
  "search-many": `SELECT e, n FROM (
      SELECT e, count(*) OVER () AS n FROM (
        SELECT e FROM executions WHERE id >= $1 AND id < $2 LIMIT $3
      ) AS many
    ) AS counted WHERE e < $4 ORDER BY e DESC LIMIT $5`,
  "search-of-ids": String.raw`SELECT e FROM executions WHERE id = ANY (string_to_array($1, E'\x1f'))`,
  "search-last": "SELECT coalesce(max(e), 0) FROM executions",
  "search-unindexed": `
    SELECT c.e, c.ended, c.ended_e, x.e FROM search_cursor c LEFT JOIN LATERAL (
      SELECT e FROM executions w
      WHERE w.e > c.e AND w.e <= $1
        AND NOT EXISTS (SELECT FROM search s WHERE s.term = '#' || left(w.hash, 8) AND s.e = w.e)
      ORDER BY w.e LIMIT $2
    ) x ON true`,
  "search-cursor": "SELECT e FROM search_cursor",
  "search-ended": `
    SELECT finished_at, e FROM executions
    WHERE finished_at IS NOT NULL AND (finished_at, e) > ($1, $2) AND finished_at <= $3
    ORDER BY finished_at, e LIMIT $4`,
} as const;

const WRITES = {
  "search-add-ids": String.raw`
    INSERT INTO search (term, e)
    SELECT DISTINCT t.term, x.e
    FROM unnest(string_to_array($2, E'\x1f'), string_to_array($3, E'\x1f')) AS t (term, id)
    JOIN executions x ON x.id = t.id, ${CHECKED} ORDER BY 1, 2
    ON CONFLICT DO NOTHING`,
  "search-add": String.raw`
    INSERT INTO search (term, e)
    SELECT t.term, t.e FROM unnest(string_to_array($2, E'\x1f'), $3::bigint[]) AS t (term, e), ${CHECKED}
    ORDER BY 1, 2 ON CONFLICT DO NOTHING`,
  "search-remove": String.raw`
    DELETE FROM search s USING unnest(string_to_array($2, E'\x1f'), $3::bigint[]) AS t (term, e), ${CHECKED}
    WHERE s.term = t.term AND s.e = t.e`,
  "search-move": `
    UPDATE search_cursor SET e = $2, ended = $3, ended_e = $4 FROM ${CHECKED}
    WHERE e = $5 AND ended = $6 AND ended_e = $7`,
} as const;

/** Empties the index and resets the cursors to a new random value. So a node that still has an old value cannot advance them. */
const CLEAR = `DO $clear$ BEGIN
  TRUNCATE search;
  UPDATE search_cursor SET e = -1 - floor(random() * 1e15)::bigint, ended = 0, ended_e = 0;
END $clear$`;

interface Cursor {
  readonly e: number;
  readonly ended: number;
  readonly endedE: number;
}

/** The terms of an execution that this node has committed. */
interface OwnTerms {
  /** The number of the execution; undefined if it is not known, so that it must be looked up by its id. */
  readonly e: number | undefined;
  readonly terms: readonly string[];
}

type Unindexed = readonly [cursor: number, ended: number, endedE: number, e: number | null];

export class PostgresSearchIndex {
  readonly #links: Links;
  readonly #reader: PostgresReader;
  readonly #generation: string;
  readonly #now: () => Promise<number>;
  readonly #behindMs: number;
  readonly #numberOf: (id: string) => number | undefined;
  /** Terms of this node's commits that are not indexed yet, by the id of the execution. */
  readonly #own = new Map<string, OwnTerms>();
  /**
   * The numbers of this node's new executions that are not indexed yet and have a single term, by the term. They are most of all
   * executions, so they take little memory.
   */
  readonly #plain = new Map<string, number[]>();
  /** For each write of own terms that is under way: the ids and numbers of the executions that were deleted since it began. */
  readonly #deletedMeanwhile = new Set<Set<string | number>>();
  /** The execution up to which the cursors may advance, and when it was the newest one. */
  #bound: { readonly e: number; readonly at: number } | null = null;

  constructor(parts: {
    readonly links: Links;
    readonly reader: PostgresReader;
    readonly generation: string;
    readonly now: () => Promise<number>;
    /** Returns the number of an execution that was committed a moment ago, if it is cached. */
    readonly numberOf: (id: string) => number | undefined;
    readonly behindMs?: number;
  }) {
    this.#links = parts.links;
    this.#reader = parts.reader;
    this.#generation = parts.generation;
    this.#now = parts.now;
    this.#numberOf = parts.numberOf;
    this.#behindMs = parts.behindMs ?? BEHIND_MS;
  }

  committed({ writes }: Commit): void {
    for (const { head, create, execution } of writes) {
      if (head === null || !(create || head.error !== null)) continue;
      const terms = create ? termsOf(head) : errorTerms(head.error);
      const number = this.#numberOf(execution);
      const [term] = terms;
      if (create && number !== undefined && terms.length === 1 && term !== undefined) {
        this.#addPlain(term, [number]);
        continue;
      }
      const before = this.#own.get(execution);
      const e = number ?? before?.e;
      this.#own.set(execution, { e, terms: before === undefined ? terms : [...before.terms, ...terms] });
    }
  }

  async indexSome(): Promise<boolean> {
    if (this.#plain.size > 0) await this.#writePlain();
    if (this.#own.size > 0) await this.#writeOwn();
    if (this.#plain.size > 0 || this.#own.size > 0) return true;
    const now = await this.#now();
    if (this.#bound === null) this.#bound = { e: await this.#last(), at: now };
    if (now - this.#bound.at < this.#behindMs) return false;
    const isAll = await this.#writeOthers(this.#bound);
    if (isAll) this.#bound = null;
    return !isAll;
  }

  async indexedTo(): Promise<number> {
    const [[e] = [0]] = await this.#read<[e: number]>("search-cursor", []);
    return Math.max(0, e);
  }

  async clearIndex(): Promise<void> {
    this.#bound = null;
    await this.#links.run({ name: "search-clear", text: CLEAR }, [], { writes: true });
  }

  /** Called before these executions are deleted. Returns a function that deletes the terms of those that no longer exist. */
  async removing(ids: readonly string[]): Promise<() => Promise<void>> {
    for (const id of ids) this.#own.delete(id);
    this.#noteDeleted(ids);
    this.#deletePlain(new Set(ids.flatMap((id) => this.#numberOf(id) ?? [])));
    const find = () => this.#orders("search-of-ids", [joinTexts(ids.map(plainText))]);
    const found = await find();
    this.#deletePlain(new Set(found));
    const heads = await this.#reader.headsOf(found);
    return async () => {
      const left = new Set(await find());
      const gone = heads
        .filter(({ order }) => !left.has(order))
        .flatMap((head) => termsOf(head).map((term) => ({ term, order: head.order })));
      if (gone.length === 0) return;
      const terms = joinTexts(gone.map(({ term }) => encodeText(term)));
      await this.#write("search-remove", [terms, joinNumbers(gone.map(({ order }) => order))]);
    };
  }

  async findOrders(
    { terms, ids, workflow }: SearchWord,
    options: { before: number; max: number },
  ): Promise<FoundOrders> {
    const { before, max } = options;
    const lists = [
      ...terms.map(async (term) =>
        ordersUpTo(await this.#orders("search-term", [encodeText(term), before, max]), max),
      ),
      ...ids.map((begin) => this.#ofIds(begin, options)),
    ];
    if (workflow !== "") {
      const heads = this.#reader.listHeads({ workflow }, { before, max });
      lists.push(
        heads.then((found) =>
          ordersUpTo(
            found.map(({ order }) => order),
            max,
          ),
        ),
      );
    }
    return inAny(await Promise.all(lists), max);
  }

  async #ofIds(begin: string, { before, max }: { before: number; max: number }): Promise<FoundOrders> {
    const range = [begin, begin + LAST_CHARACTER];
    const few = await this.#orders("search-ids", [...range, FEW + 1]);
    if (few.length <= FEW) return inAny([{ orders: few.filter((e) => e < before), floor: 0 }], max);
    const newest = await this.#orders("search-newest", [before, NEWEST, ...range, max]);
    if (newest.length === max) return ordersUpTo(newest, max);
    const [[floor, count] = [0, 0]] = await this.#read<[number, number]>("search-floor", [before, NEWEST]);
    if (count < NEWEST || newest.length > 0) return { orders: newest, floor: count < NEWEST ? 0 : floor };
    // None of the newest executions matches, so the older ones are searched.
    const many = await this.#read<[number, number]>("search-many", [...range, MANY + 1, before, max]);
    if ((many[0]?.[1] ?? 0) <= MANY)
      return ordersUpTo(
        many.map(([e]) => e),
        max,
      );
    return { orders: [], floor };
  }

  #addPlain(term: string, numbers: readonly number[]): void {
    const before = this.#plain.get(term);
    if (before === undefined) this.#plain.set(term, [...numbers]);
    else for (const number of numbers) before.push(number);
  }

  #deletePlain(gone: ReadonlySet<number>): void {
    if (gone.size === 0) return;
    this.#noteDeleted(gone);
    for (const [term, numbers] of this.#plain) {
      const left = numbers.filter((number) => !gone.has(number));
      if (left.length === 0) this.#plain.delete(term);
      else this.#plain.set(term, left);
    }
  }

  #noteDeleted(gone: Iterable<string | number>): void {
    for (const one of gone) for (const deleted of this.#deletedMeanwhile) deleted.add(one);
  }

  /** Indexes up to `SLICE_PLAIN` new executions that share one term. */
  async #writePlain(): Promise<void> {
    const [term, numbers] = this.#plain.entries().next().value as [string, number[]];
    const some = numbers.splice(0, SLICE_PLAIN);
    if (numbers.length === 0) this.#plain.delete(term);
    const deleted = new Set<string | number>();
    this.#deletedMeanwhile.add(deleted);
    try {
      const terms = new Array<string>(some.length).fill(encodeText(term));
      await this.#write("search-add", [joinTexts(terms), joinNumbers(some)]);
    } catch (error) {
      const left = some.filter((number) => !deleted.has(number));
      if (left.length > 0) this.#addPlain(term, left);
      throw error;
    } finally {
      this.#deletedMeanwhile.delete(deleted);
    }
  }

  async #writeOwn(): Promise<void> {
    const some: [string, OwnTerms][] = [];
    for (const entry of this.#own) {
      some.push(entry);
      if (some.length === SLICE) break;
    }
    for (const [id] of some) this.#own.delete(id);
    const [terms, numbers, termsOfIds, ids] = [[], [], [], []] as [string[], number[], string[], string[]];
    for (const [id, { e, terms: own }] of some)
      for (const term of own) {
        (e === undefined ? termsOfIds : terms).push(encodeText(term));
        if (e === undefined) ids.push(plainText(id));
        else numbers.push(e);
      }
    const deleted = new Set<string | number>();
    this.#deletedMeanwhile.add(deleted);
    try {
      if (terms.length > 0) await this.#write("search-add", [joinTexts(terms), joinNumbers(numbers)]);
      if (ids.length > 0) await this.#write("search-add-ids", [joinTexts(termsOfIds), joinTexts(ids)]);
    } catch (error) {
      for (const [id, { e, terms: own }] of some) {
        if (deleted.has(id)) continue;
        const later = this.#own.get(id);
        this.#own.set(id, { e: later?.e ?? e, terms: [...own, ...(later?.terms ?? [])] });
      }
      throw error;
    } finally {
      this.#deletedMeanwhile.delete(deleted);
    }
  }

  /** Indexes executions of other nodes up to the bound. Returns true if all of them are indexed. */
  async #writeOthers(bound: { readonly e: number; readonly at: number }): Promise<boolean> {
    const rows = await this.#read<Unindexed>("search-unindexed", [bound.e, SLICE]);
    const [[e = 0, ended = 0, endedE = 0] = []] = rows as readonly (readonly number[])[];
    const cursor: Cursor = { e, ended, endedE };
    const created = rows.flatMap(([, , , number]) => number ?? []);
    const over = await this.#read<[finishedAt: number, e: number]>("search-ended", [
      ended,
      endedE,
      bound.at,
      SLICE,
    ]);
    const pairs: [string, number][] = [];
    for (const head of await this.#reader.headsOf(created))
      for (const term of termsOf(head)) pairs.push([encodeText(term), head.order]);
    for (const { error, order } of await this.#reader.headsOf(over.map(([, number]) => number)))
      for (const term of errorTerms(error)) pairs.push([encodeText(term), order]);
    if (pairs.length > 0)
      await this.#write("search-add", [
        joinTexts(pairs.map(([term]) => term)),
        joinNumbers(pairs.map(([, number]) => number)),
      ]);
    const last = over.at(-1);
    const isAll = created.length < SLICE && over.length < SLICE;
    await this.#move(cursor, {
      e: created.length < SLICE ? Math.max(e, bound.e) : (created.at(-1) ?? e),
      ended: last?.[0] ?? ended,
      endedE: last?.[1] ?? endedE,
    });
    return isAll;
  }

  async #move(from: Cursor, to: Cursor): Promise<void> {
    if (from.e === to.e && from.ended === to.ended && from.endedE === to.endedE) return;
    await this.#write("search-move", [to.e, to.ended, to.endedE, from.e, from.ended, from.endedE]);
  }

  async #last(): Promise<number> {
    const [[e] = [0]] = await this.#read<[number]>("search-last", []);
    return e;
  }

  async #orders(name: keyof typeof SEARCH_READS, values: readonly Value[]): Promise<number[]> {
    return (await this.#read<[number]>(name, values)).map(([e]) => e);
  }

  #read<Row extends readonly unknown[]>(
    name: keyof typeof SEARCH_READS,
    values: readonly Value[],
  ): Promise<Row[]> {
    return this.#links.run<Row>({ name, text: SEARCH_READS[name] }, values);
  }

  async #write(name: keyof typeof WRITES, values: readonly Value[]): Promise<void> {
    await this.#links.run({ name, text: WRITES[name] }, [this.#generation, ...values], { writes: true });
  }
}
