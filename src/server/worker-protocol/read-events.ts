/** Reads the body of a request with events. The whole body is checked before any event is applied. */
import { EVENT_NUMBER_MAX } from "../../protocol/worker-wire.ts";
import { invalid, isObject } from "../../std/decode.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import { type ReadEvent, readEvent } from "./read-event.ts";

/** An event and its attempt; `n` is null for an event without a number, which counts as the next one. */
export interface AttemptEvent {
  readonly record: AttemptRecord;
  readonly n: number | null;
  readonly event: ReadEvent;
}

/** The events of a request, and the last event of each attempt that the worker knows to be stored. */
export interface ReadEvents {
  readonly events: readonly AttemptEvent[];
  /**
   * The last acknowledged number of each attempt. By default, all events before the first one in this request count as
   * acknowledged.
   */
  readonly acknowledged: ReadonlyMap<AttemptRecord, number>;
  /** Attempts of other nodes, whose events are left out. */
  readonly elsewhere: ReadonlySet<string>;
}

const EVENTS_MAX = 50_000;

/** Reads the events of a request; `open` finds the attempt of a token. */
export function readEvents(
  body: unknown,
  now: number,
  open: (id: string, token: unknown) => AttemptRecord | Rejection,
): ReadEvents | Rejection {
  if (!isObject(body)) return invalid("body", "must be an object");
  const { tokens, events, acknowledged = {}, ...more } = body;
  const [unknown] = Object.keys(more);
  if (unknown !== undefined)
    return reject("unknown_field", `${unknown.slice(0, 100)}: there is no such field`, { path: unknown });
  if (!isObject(tokens)) return invalid("tokens", "must be an object of tokens by attempt");
  if (!isObject(acknowledged)) return invalid("acknowledged", "must be an object of numbers by attempt");
  if (!Array.isArray(events) || events.length > EVENTS_MAX)
    return invalid("events", `must be a list of at most ${EVENTS_MAX} events`);
  const opened = new Map<string, AttemptRecord>();
  const before = new Map<AttemptRecord, number>();
  const elsewhere = new Set<string>();
  const read: AttemptEvent[] = [];
  for (let i = 0; i < events.length; i++) {
    const fields: unknown = events[i];
    if (!isObject(fields)) return invalid(`events[${i}]`, "must be an object");
    const { attempt, n } = fields;
    if (typeof attempt !== "string") return invalid(`events[${i}].attempt`, "must be the id of an attempt");
    if (!isNumber(n, 1)) return invalid(`events[${i}].n`, `must be a number from 1 to ${EVENT_NUMBER_MAX}`);
    if (elsewhere.has(attempt)) continue;
    let record = opened.get(attempt);
    if (record === undefined) {
      const found = open(attempt, fields["token"] ?? tokens[attempt]);
      if (isRejection(found)) {
        if (found.code !== "not_owner") return found;
        elsewhere.add(attempt);
        continue;
      }
      const known = Object.hasOwn(acknowledged, attempt) ? acknowledged[attempt] : n - 1;
      if (!isNumber(known, 0))
        return invalid(`acknowledged.${attempt}`, `must be a number from 0 to ${EVENT_NUMBER_MAX}`);
      record = found;
      opened.set(attempt, record);
      before.set(record, known);
    } else if (!Object.hasOwn(acknowledged, attempt))
      // Events may arrive in any order, so the first event of an attempt is the one with the lowest number.
      before.set(record, Math.min(before.get(record) ?? 0, n - 1));
    const event = readEvent(fields, now);
    if (isRejection(event)) return within(`events[${i}].`, event);
    if (event.kind === "page" && !record.isEnumeration)
      return invalid(`events[${i}].kind`, "a page can only come from an enumeration (do: enumerate)");
    read.push({ record, n, event });
  }
  return { events: inOrder(read), acknowledged: before, elsewhere };
}

/** Sorts the events of each attempt by their numbers. */
function inOrder(events: AttemptEvent[]): readonly AttemptEvent[] {
  const last = new Map<AttemptRecord, number>();
  for (const { record, n } of events) {
    if ((n ?? 0) < (last.get(record) ?? 0))
      return events.toSorted((one, other) => (one.n ?? 0) - (other.n ?? 0));
    last.set(record, n ?? 0);
  }
  return events;
}

function within(place: string, { path, message, ...more }: Rejection): Rejection {
  return { ...more, message: `${place}${message}`, path: `${place}${path ?? ""}` };
}

function isNumber(value: unknown, from: number): value is number {
  return Number.isInteger(value) && (value as number) >= from && (value as number) <= EVENT_NUMBER_MAX;
}
