/** Skip scans: find groups of rows in an index with one seek per group. Values are bytes, so that damaged ones are found too. */
import type { Partitions } from "../store.ts";
import { bytesOf, type Statement, type Value } from "./driver.ts";

type Bytes = Uint8Array;

/** The greatest number, which stands for "no bound" in statements that need a bound. */
export const LAST = Number.MAX_SAFE_INTEGER;

/** Yields the distinct values of an index column after the given prefix. `next` is the statement that finds the next value. */
export function* distinct(next: Statement, prefix: readonly Value[]): Generator<Bytes> {
  let last: Bytes = bytesOf("");
  for (;;) {
    const found = next.get<{ next: Bytes }>([...prefix, last]);
    if (found === undefined) return;
    last = found.next;
    yield last;
  }
}

/** Returns the value of a filter as a list of one, or all values if there is no filter. */
export function oneOrAll(one: string | undefined, all: () => Iterable<Bytes>): Iterable<Bytes> {
  return one === undefined ? all() : [bytesOf(one)];
}

/** Whether a scan includes partition 0, the only one of an embedded store. */
export function hasPartition({ partitions }: { readonly partitions: Partitions }): boolean {
  return partitions === null || partitions.includes(0);
}

/** Limits a number of rows to the range that SQLite accepts. */
export function limit(max: number): number {
  return Math.max(0, Math.min(max, LAST));
}
