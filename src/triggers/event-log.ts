/**
 * The log of events: one document for each event, by its time. Lists of events are read from it, and retention finds old events by it.
 * Events that matched no trigger have documents of their own kind, because they are deleted sooner.
 */
import { flag, KEPT, number, object, string } from "../std/decode.ts";
import { jsonForm, listDocuments } from "../store/document-form.ts";
import type { DocumentStore, NamedDocument, Store } from "../store/store.ts";

/** An event in the log. */
export interface LoggedEvent {
  /** When the event was sent, in milliseconds since 1970. */
  readonly at: number;
  /** The id of the execution that represents the event. */
  readonly execution: string;
  /** The name of the event. */
  readonly name: string;
  /** The id of the event. */
  readonly id: string;
  /** The project of the event. */
  readonly project: string;
  /** Whether the event matched a trigger. */
  readonly isMatched: boolean;
}

const shape = object(
  { at: number, execution: string, name: string, id: string, project: string, isMatched: flag },
  KEPT,
);
export const EVENT_FORM = jsonForm<LoggedEvent>("event", shape);
export const UNMATCHED_FORM = jsonForm<LoggedEvent>("event-unmatched", shape);

/** How long events are kept, and how long events that matched no trigger are kept. */
export const EVENTS_KEPT_MS = 7 * 86_400_000;
export const UNMATCHED_KEPT_MS = 3_600_000;

const TIME_DIGITS = 15;
const PAGE = 500;
/** The most events in one write. */
const BATCH_MAX = 500;

/**
 * Writes events to the log, before they are sent. While a write is under way, further events gather and go with the next one, so
 * the number of writes does not grow with the number of events.
 */
export class EventLog {
  readonly #matched: GatheredWrites;
  readonly #unmatched: GatheredWrites;

  constructor(store: Pick<DocumentStore, "putDocuments">) {
    this.#matched = new GatheredWrites((documents) => store.putDocuments(EVENT_FORM.kind, documents));
    this.#unmatched = new GatheredWrites((documents) => store.putDocuments(UNMATCHED_FORM.kind, documents));
  }

  /** Stores an event in the log. Resolves when it is durable. */
  keep(event: LoggedEvent): Promise<void> {
    const id = `${timeKey(event.at)}-${event.execution}`;
    const writes = event.isMatched ? this.#matched : this.#unmatched;
    return writes.add(id, JSON.stringify(event));
  }
}

/** Bodies of documents by id, and the end of their write. */
interface Batch {
  readonly bodies: Map<string, string>;
  readonly written: Promise<void>;
}

/** Writes documents in batches, one batch at a time. */
class GatheredWrites {
  readonly #write: (documents: readonly NamedDocument[]) => Promise<void>;
  /** The batch that has not begun. */
  #next: Batch | null = null;
  /** The end of the last batch. */
  #last: Promise<void> = Promise.resolve();

  constructor(write: (documents: readonly NamedDocument[]) => Promise<void>) {
    this.#write = write;
  }

  add(id: string, body: string): Promise<void> {
    const { bodies, written } = (this.#next ??= this.#gather());
    bodies.set(id, body);
    // A full batch waits for its turn.
    if (bodies.size >= BATCH_MAX) this.#next = null;
    return written;
  }

  #gather(): Batch {
    const bodies = new Map<string, string>();
    const write = (): Promise<void> => {
      if (this.#next?.bodies === bodies) this.#next = null;
      return this.#write(Array.from(bodies, ([id, body]) => ({ id, body })));
    };
    const written = this.#last.then(write, write);
    this.#last = written;
    return { bodies, written };
  }
}

/** A page of events. */
export interface EventPage {
  /** The events, newest first. */
  readonly data: readonly LoggedEvent[];
  /** The `cursor` of the next page; null on the last page. */
  readonly next: string | null;
}

/** Lists events, newest first. */
export async function listEvents(
  store: Pick<Store, "listDocuments">,
  {
    unmatched,
    cursor,
    limit,
  }: { readonly unmatched: boolean; readonly cursor?: string; readonly limit: number },
): Promise<EventPage> {
  const form = unmatched ? UNMATCHED_FORM : EVENT_FORM;
  const range = { descending: true, max: limit, ...(cursor === undefined ? {} : { before: cursor }) };
  const found = await listDocuments(store, form, range);
  const data = found.flatMap((one) => (one.damage === undefined ? [one.value] : []));
  return { data, next: found.length === limit ? (found.at(-1)?.id ?? null) : null };
}

/**
 * Deletes a page of events that were sent before a time. The engine deletes their executions, then their documents are deleted. Returns
 * true if there may be more.
 */
export async function forgetEvents(
  store: Pick<Store, "listDocuments" | "deleteDocuments">,
  { unmatched, before }: { readonly unmatched: boolean; readonly before: number },
  {
    purge,
    isMine,
  }: {
    readonly purge: (ids: readonly string[]) => void | Promise<void>;
    readonly isMine: (id: string) => boolean;
  },
): Promise<boolean> {
  const form = unmatched ? UNMATCHED_FORM : EVENT_FORM;
  const found = await listDocuments(store, form, { before: timeKey(before), max: PAGE });
  const own = found.filter(({ id }) => isMine(executionIn(id)));
  if (own.length === 0) return false;
  const ids = own.map(({ id }) => id);
  await purge(ids.map(executionIn));
  await store.deleteDocuments(form.kind, ids);
  return found.length === PAGE;
}

function executionIn(id: string): string {
  return id.slice(TIME_DIGITS + 1);
}

function timeKey(at: number): string {
  return String(Math.max(0, at)).padStart(TIME_DIGITS, "0");
}
