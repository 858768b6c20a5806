/**
 * Lists executions by words and tags, newest first. Each store answers `findOrders` from its index; this file combines the
 * answers.
 * For each word the index returns a list of order numbers, newest first, and the order down to which the list is complete. If
 * one list is complete to the end, its executions are checked. Otherwise the executions that are in all lists are checked, as
 * far as all lists are complete. One call checks a bounded number of executions: a page can be short, and the next page
 * continues from its cursor.
 */
import { isChildId } from "../kernel/definition/names.ts";
import { isRelayName } from "../kernel/relay/relay.ts";
import { inAll, inAny } from "./found-orders.ts";
import { fits, hasTags, type SearchWord, searchPhrase, searchWords, tagWord } from "./search-terms.ts";
import { type ExecutionSearch, type HeadFilter, isWaiting, type StoredHead } from "./store.ts";

/** The most order numbers in one list. `ROUNDS_MAX`: the most lists of one word in one call. `READ_MAX`: the most heads in one read. */
const LIST_MAX = 1_000;
const ROUNDS_MAX = 16;
const READ_MAX = 200;

export interface Search {
  readonly filter: HeadFilter;
  /** Words that must all match, or a text that matches as a whole. */
  readonly q?: string | undefined;
  /** Tags that an execution must have; null as a value matches any value. */
  readonly tags?: Readonly<Record<string, string | null>> | undefined;
  /** Filters that are applied after the read, because the store does not have them. */
  readonly choice?: HeadChoice | undefined;
  readonly before: number | null;
  readonly max: number;
}

/** Filters that are applied after the read, because the store does not have them. An empty list of statuses matches all of them. */
export interface HeadChoice {
  readonly status: readonly string[];
  /** The earliest time of creation. `until` is the latest. */
  readonly since: number;
  readonly until: number;
  /** Whether to leave out children of other executions. */
  readonly top: boolean;
  /** Whether to list only executions that have no work for workers now, because they wait for a time or a signal. */
  readonly waiting: boolean;
}

export interface FoundHeads {
  readonly heads: readonly StoredHead[];
  /** The cursor of the next page; null if there is none. */
  readonly next: number | null;
}

/** How often `indexNewest` calls the index. Each call indexes hundreds of executions. */
const INDEXED_MAX = 20;

/** Indexes the executions that were started lately, so that a search finds them. In a cluster, only those of this node. */
export async function indexNewest(store: Pick<ExecutionSearch, "indexSome">): Promise<void> {
  for (let i = 0; i < INDEXED_MAX && (await store.indexSome()); i++);
}

/** The most pages of the store that are read for a page of the list. */
const FILTERED_PAGES = 10;

/** Reads a page of executions that match all filters. A short page can still have a next page. */
export async function listOrSearch(store: ExecutionSearch, search: Search): Promise<FoundHeads> {
  const { choice, ...rest } = search;
  if (choice === undefined || isEmpty(choice)) return listPlain(store, rest);
  const { status, since, until, top, waiting } = choice;
  const heads: StoredHead[] = [];
  let { before } = search;
  for (let page = 0; page < FILTERED_PAGES; page++) {
    const found = await listPlain(store, { ...rest, before });
    for (const head of found.heads) {
      // Executions are listed newest first, so all that follow are older than `since`, too.
      if (head.createdAt < since) return { heads, next: null };
      const isMeant =
        head.createdAt <= until &&
        (status.length === 0 || status.includes(head.status)) &&
        !(top && isChildId(head.id)) &&
        (!waiting || isWaiting(head));
      if (isMeant) heads.push(head);
      if (heads.length === search.max) return { heads, next: head.order };
    }
    if (found.next === null) return { heads, next: null };
    before = found.next;
  }
  return { heads, next: before };
}

function isEmpty({ status, since, until, top, waiting }: HeadChoice): boolean {
  return status.length === 0 && since === 0 && until === Number.POSITIVE_INFINITY && !top && !waiting;
}

/** Lists executions. Without words and tags it reads the list directly, without a search. */
async function listPlain(store: ExecutionSearch, search: Omit<Search, "choice">): Promise<FoundHeads> {
  const { filter, q = "", tags = {}, before, max } = search;
  if (q.trim() !== "" || Object.keys(tags).length > 0) return searchHeads(store, search);
  const heads = await store.listHeads(filter, { before, max });
  const next = heads.length === max ? (heads.at(-1)?.order ?? null) : null;
  if (filter.workflow !== undefined || !heads.some(({ workflow }) => isRelayName(workflow)))
    return { heads, next };
  return listWithoutRelays(store, search);
}

/**
 * Reads a page of executions, without events and gates; those are listed only if the filter names their workflow. A short page
 * can still have a next page.
 */
async function listWithoutRelays(
  store: ExecutionSearch,
  { filter, before, max }: Search,
): Promise<FoundHeads> {
  const found: StoredHead[] = [];
  let from = before;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const heads = await store.listHeads(filter, { before: from, max: Math.max(max, READ_MAX) });
    for (const head of heads) {
      if (!isRelayName(head.workflow)) found.push(head);
      if (found.length === max) return { heads: found, next: head.order };
    }
    if (heads.length < Math.max(max, READ_MAX)) return { heads: found, next: null };
    from = heads.at(-1)?.order ?? null;
  }
  return { heads: found, next: from };
}

async function searchHeads(store: ExecutionSearch, search: Omit<Search, "choice">): Promise<FoundHeads> {
  const { filter, q = "", tags = {}, max } = search;
  const words = searchWords(q);
  const phrase = searchPhrase(q);
  const tagged: SearchWord[] = [];
  for (const [name, value] of Object.entries(tags)) {
    tagged.push(tagWord(name, value));
    // The index has names and values of tags apart. Another tag may have this value, so the name is searched too.
    if (value !== null && value !== "") tagged.push(tagWord(name, null));
  }
  const isFound = (head: StoredHead): boolean =>
    (filter.project ?? head.project) === head.project &&
    (filter.workflow ?? head.workflow) === head.workflow &&
    (filter.status ?? head.status) === head.status &&
    hasTags(head, tags) &&
    (words.every((word) => fits(head, word)) || (phrase !== null && fits(head, phrase)));
  const found: StoredHead[] = [];
  let before = search.before ?? Number.MAX_SAFE_INTEGER;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const options = { before, max: LIST_MAX };
    const find = (some: readonly SearchWord[]) =>
      Promise.all(some.map((word) => store.findOrders(word, options)));
    const byWords = await find([...words, ...tagged]);
    const byPhrase = phrase === null ? null : await find([phrase, ...tagged]);
    const { orders, floor } =
      byPhrase === null ? inAll(byWords) : inAny([inAll(byWords), inAll(byPhrase)], LIST_MAX);
    for (let from = 0; from < orders.length; from += READ_MAX) {
      for (const head of await store.headsOf(orders.slice(from, from + READ_MAX))) {
        if (isFound(head)) found.push(head);
        if (found.length === max) return { heads: found, next: head.order };
      }
    }
    if (floor === 0) return { heads: found, next: null };
    before = floor;
  }
  return { heads: found, next: before };
}
