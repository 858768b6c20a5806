/** Addresses of the API that the page of an execution begins with; known before its code is there. */
import { addressOf } from "../../core/address.ts";
import type { Place } from "../../core/router.ts";
import { spanOf } from "./place.ts";
import type { Span } from "./time-view.ts";

/** Of the time, for lanes. */
const PIECES = 240;

/** An execution. */
export function executionPath(id: string): string {
  return `/v1/executions/${encodeURIComponent(id)}`;
}

/** Its lanes, as of an event (null: now) and in a piece of the time (null: in all of it). */
export function lanesAddress(path: string, at: number | null, span: Span | null): string {
  return addressOf(`${path}/lanes`, { at, ...span, pieces: PIECES });
}

/** What the page is sure to ask for. */
export function firstAddresses(id: string, { query }: Place): readonly string[] {
  const path = executionPath(id);
  return query.has("at") ? [path] : [path, lanesAddress(path, null, spanOf(query))];
}
