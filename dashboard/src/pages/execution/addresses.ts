/** Addresses of the API that the page of an execution needs first. They are known before its code is loaded. */
import { addressOf } from "../../core/address.ts";
import type { Place } from "../../core/router.ts";
import { spanOf } from "./place.ts";
import type { Span } from "./time-view.ts";

/** The number of intervals into which lanes divide the time. */
const PIECES = 240;

/** The API path of an execution. */
export function executionPath(id: string): string {
  return `/v1/executions/${encodeURIComponent(id)}`;
}

/** The address of an execution's lanes, as of an event (null: now) and for a span of time (null: all of it). */
export function lanesAddress(path: string, at: number | null, span: Span | null): string {
  return addressOf(`${path}/lanes`, { at, ...span, pieces: PIECES });
}

/** The addresses that the page certainly requests. */
export function firstAddresses(id: string, { query }: Place): readonly string[] {
  const path = executionPath(id);
  return query.has("at") ? [path] : [path, lanesAddress(path, null, spanOf(query))];
}
