import type { Store } from "../../store/store.ts";

/** Finds the first event of an execution at or after a time, by binary search; one past the last event if there is none. */
export async function seqSince(
  store: Pick<Store, "readJournal">,
  execution: string,
  { since, revision }: { since: number; revision: number },
): Promise<number> {
  let [low, high] = [1, revision + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [row] = await store.readJournal({ execution, from: middle, to: middle, rowsMax: 1 });
    // Only the first rows of a gate's journal can be missing.
    if (row === undefined) low = middle + 1;
    else if (row.at < since) low = row.seq + row.count;
    else high = Math.min(middle, row.seq);
  }
  return Math.min(low, revision + 1);
}
