/** Finding groups of rows by skipping through an index, one seek per group. */
import type { Statement, Value } from "./driver.ts";

/** Stands for "no bound" in statements that have one. */
export const LAST = Number.MAX_SAFE_INTEGER;

/** The distinct values of a column after the given prefix. The statement finds the next one. */
export function* distinct(next: Statement, prefix: readonly Value[]): Generator<string> {
  let last = "";
  for (;;) {
    const found = next.get<{ next: string }>([...prefix, last]);
    if (found === undefined) return;
    last = found.next;
    yield last;
  }
}

/** The one value of a filter, or else all of them. */
export function oneOrAll(one: string | undefined, all: () => Iterable<string>): Iterable<string> {
  return one === undefined ? all() : [one];
}

/** A number of rows as SQLite takes it. */
export function limit(max: number): number {
  return Math.max(0, Math.min(max, LAST));
}
