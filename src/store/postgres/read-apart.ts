/**
 * Reads rows when the database cannot read some of them (`UnreadableValue`). It finds these rows by bisection: the read is
 * repeated for each half.
 */
import { UnreadableValue } from "./faults.ts";
import type { Links } from "./links.ts";
import { joinNumbers, joinTexts } from "./text.ts";

/** Reads all items in their order. Calls `unreadable` for each item that cannot be read even alone. */
export async function readApart<Item, Result>(
  items: readonly Item[],
  read: (items: readonly Item[]) => Promise<readonly Result[]>,
  unreadable: (item: Item, fault: UnreadableValue) => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  const first = await orUnreadable(read(items));
  if (!(first instanceof UnreadableValue)) return first;
  const [item] = items;
  if (item === undefined) throw first;
  if (items.length === 1) return unreadable(item, first);
  const middle = items.length >> 1;
  const before = await readApart(items.slice(0, middle), read, unreadable);
  return [...before, ...(await readApart(items.slice(middle), read, unreadable))];
}

/** Returns the result of a read, or the fault if the database cannot read a value. Throws all other faults. */
export async function orUnreadable<T>(reading: Promise<T>): Promise<T | UnreadableValue> {
  try {
    return await reading;
  } catch (thrown) {
    if (thrown instanceof UnreadableValue) return thrown;
    throw thrown;
  }
}

/** The text of a row. If the database cannot read the text, it is empty, and `damage` says why. */
export interface ReadText {
  readonly text: string;
  readonly damage?: string;
}

/** Reads the texts of rows by their keys. The statement returns keys and texts. $1 is an array of numeric keys, or the joined text keys. */
export async function textsApart<Key extends number | string>(
  links: Links,
  statement: { readonly name: string; readonly text: string },
  keys: readonly Key[],
  values: readonly (string | number)[] = [],
): Promise<ReadonlyMap<Key, ReadText>> {
  const read = async (some: readonly Key[]) => {
    const wanted = some.every((key) => typeof key === "number")
      ? joinNumbers(some)
      : joinTexts(some.map(String));
    if (wanted === null) return [];
    const rows = await links.run<[key: Key, text: string]>(statement, [wanted, ...values]);
    return rows.map(([key, text]): [Key, ReadText] => [key, { text }]);
  };
  const texts = await readApart(
    keys,
    read,
    async (key, { why }): Promise<[Key, ReadText][]> => [[key, { text: "", damage: why }]],
  );
  return new Map(texts);
}
