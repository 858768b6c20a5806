/** Reads lists that the server returns in pages. */
import type { Requester } from "../../client/requester.ts";

/** A page of any list. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | null;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

const PAGE_MAX = 1_000;

/** Yields every item, page by page, at most `max` items. */
export async function* readPages<T>(
  requester: Requester,
  path: string,
  query: Query = {},
  max = Number.POSITIVE_INFINITY,
): AsyncGenerator<T> {
  for await (const { data } of wholePages<Page<T>>(requester, path, query, max)) yield* data;
}

/** Yields every page in the form in which the server returns it, with at most `max` items in total. */
export async function* wholePages<P extends Page<unknown>>(
  requester: Requester,
  path: string,
  query: Query = {},
  max = Number.POSITIVE_INFINITY,
): AsyncGenerator<P> {
  let left = max;
  let cursor: string | undefined;
  while (left > 0) {
    const limit = Math.min(left, PAGE_MAX);
    const page: P = await requester.json<P>(path, { query: { ...query, limit, cursor } });
    yield { ...page, data: page.data.slice(0, left) };
    left -= page.data.length;
    if (page.next === null) return;
    cursor = page.next;
  }
}

/** Reads all items into one list. */
export async function readAll<T>(
  requester: Requester,
  path: string,
  query: Query = {},
  max = Number.POSITIVE_INFINITY,
): Promise<T[]> {
  const all: T[] = [];
  for await (const item of readPages<T>(requester, path, query, max)) all.push(item);
  return all;
}
