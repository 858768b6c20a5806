import { expect } from "vitest";
import type { Store } from "../../src/store/store.ts";

/**
 * Expects a store made of commits that each created `left-N` and `right-N` to hold all of them up to
 * `acknowledged`, and beyond that only whole ones without a gap. Answers how many there are.
 */
export async function expectWholePairs(store: Store, acknowledged: number): Promise<number> {
  const heads = await store.listHeads({}, { before: null, max: 100_000 });
  const count = heads.length / 2;
  expect(count).toBeGreaterThanOrEqual(acknowledged);
  const ids = Array.from({ length: count }, (_, i) => [`left-${i + 1}`, `right-${i + 1}`]).flat();
  const loaded = await store.load(ids);
  for (const [i, execution] of loaded.entries()) {
    const id = ids[i] as string;
    expect(execution).toMatchObject({ head: { id }, chain: `chain-${id}` });
    expect(JSON.parse(execution?.entries[0]?.body ?? "null")).toMatchObject({ id });
  }
  expect(await store.scanTimers({ until: Infinity, max: 100_000, partitions: null })).toHaveLength(2 * count);
  return count;
}
