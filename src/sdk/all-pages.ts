/** Walks all pages of a list. */

/** A page of a list. */
interface PageOf<Item> {
  readonly data: readonly Item[];
  readonly next: string | null;
}

/** Yields the items of a list, page by page. A page is read when the items before it were taken. */
export async function* allPages<Item>(
  list: (page: { readonly cursor?: string }) => Promise<PageOf<Item>>,
): AsyncGenerator<Item, void, void> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data, next } = await list(cursor === undefined ? {} : { cursor });
    yield* data;
    cursor = next;
  }
}
