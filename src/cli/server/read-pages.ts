/** Lists that come in pages, as one sequence. */
import type { Requester } from "../../client/requester.ts";

/** A page of any list. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | null;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

const PAGE_MAX = 1_000;

/** Every item, page by page, `max` at most. */
export async function* readPages<T>(
  requester: Requester,
  path: string,
  query: Query = {},
  max = Number.POSITIVE_INFINITY,
): AsyncGenerator<T> {
  let left = max;
  let cursor: string | undefined;
  while (left > 0) {
    const limit = Math.min(left, PAGE_MAX);
    const page: Page<T> = await requester.json<Page<T>>(path, { query: { ...query, limit, cursor } });
    for (const item of page.data.slice(0, left)) yield item;
    left -= page.data.length;
    if (page.next === null) return;
    cursor = page.next;
  }
}

/** All of them in a list. */
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
