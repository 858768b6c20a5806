/** Finding groups of rows by skipping through an index, one seek per group. Values are bytes: damaged ones are found as well. */
import { bytesOf, type Statement, type Value } from "./driver.ts";

/** A value as one row gives it and as it is bound. */
type Bytes = Uint8Array;

/** Stands for "no bound" in statements that have one. */
export const LAST = Number.MAX_SAFE_INTEGER;

/** The distinct values of a column after the given prefix. The statement finds the next one. */
export function* distinct(next: Statement, prefix: readonly Value[]): Generator<Bytes> {
  let last: Bytes = bytesOf("");
  for (;;) {
    const found = next.get<{ next: Bytes }>([...prefix, last]);
    if (found === undefined) return;
    last = found.next;
    yield last;
  }
}

/** The one value of a filter, or else all of them. */
export function oneOrAll(one: string | undefined, all: () => Iterable<Bytes>): Iterable<Bytes> {
  return one === undefined ? all() : [bytesOf(one)];
}

/** A number of rows as SQLite takes it. */
export function limit(max: number): number {
  return Math.max(0, Math.min(max, LAST));
}
