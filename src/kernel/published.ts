/**
 * Values that the code of an execution publishes, by key. The last value of a key counts, and null removes the key. The total size is
 * limited: beyond the limit, the keys that were published longest ago are dropped.
 */
import { byteLength, type Json } from "../std/json.ts";
import type { Published } from "./event.ts";
import type { Execution } from "./execution.ts";

/** The most bytes of all published values of an execution, including their keys. */
export const PUBLISHED_BYTES_MAX = 65_536;

/** Applies an event with published values to the state. */
export function published(execution: Execution, { values }: Published): void {
  const { published: all } = execution;
  for (const [key, value] of Object.entries(values)) {
    all.delete(key);
    // @plant removed keys stay published
    if (value !== null) all.set(key, value);
  }
  let bytes = 0;
  for (const [key, value] of all) bytes += bytesOf(key, value);
  for (const [key, value] of all) {
    if (bytes <= PUBLISHED_BYTES_MAX) break;
    all.delete(key);
    bytes -= bytesOf(key, value);
  }
}

/** Whether these values are published already, so that they would change nothing. */
export function isPublished({ published: all }: Execution, values: Readonly<Record<string, Json>>): boolean {
  return Object.entries(values).every(([key, value]) =>
    value === null ? !all.has(key) : all.has(key) && JSON.stringify(all.get(key)) === JSON.stringify(value),
  );
}

function bytesOf(key: string, value: Json): number {
  return byteLength(key) + byteLength(JSON.stringify(value));
}
