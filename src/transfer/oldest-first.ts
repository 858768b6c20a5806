/** Pages of one size, the newest row first, with an order below `before`. */
export type ListNewest<Row> = (before: number | null, max: number) => Promise<readonly Row[]>;

const PAGE = 1_000;

/**
 * Pages of rows, oldest first, of a list that is read newest first. It is walked through twice, and of the first time
 * only the places of the pages are kept: one number for a thousand rows.
 */
export async function* oldestFirst<Row extends { readonly order: number }>(
  list: ListNewest<Row>,
): AsyncGenerator<readonly Row[]> {
  const places: (number | null)[] = [];
  for (let before: number | null = null; ; ) {
    const last: Row | undefined = (await list(before, PAGE)).at(-1);
    if (last === undefined) break;
    places.push(before);
    before = last.order;
  }
  for (const before of places.toReversed()) yield (await list(before, PAGE)).toReversed();
}
