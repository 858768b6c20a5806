/**
 * Implements `map` inside `process`: runs a function for many items within one attempt, and journals the results in batches. A batch is a
 * step whose name contains the number of the batch, so it is stored, sent and found like any other step. A later attempt runs only the
 * items that no batch contains. Each batch has a checksum of all items, because results are found by their index.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import type { Clock } from "../std/clock.ts";
import { checksum } from "../std/hash.ts";
import { byteLength, toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { MapContext } from "./handler-code.ts";

/** The parts of an attempt that a map uses. */
export interface MapOptions<Item, Result> {
  readonly name: string;
  readonly items: readonly Item[];
  readonly run: (item: Item, context: MapContext) => Result | Promise<Result>;
  readonly concurrency: number;
  readonly clock: Clock;
  readonly signal: () => AbortSignal;
  readonly idempotencyKey: string;
  readonly isOver: () => boolean;
  /** The batches that earlier attempts have journaled. */
  readonly known: readonly unknown[];
  /** Journals the batch with this number, from 1. */
  readonly journal: (batch: number, value: Batch) => Promise<unknown>;
}

/** The results of some items, with the indexes of the items, as they are journaled. */
export interface Batch {
  readonly checksum: number;
  readonly total: number;
  readonly items: readonly number[];
  readonly results: readonly unknown[];
}

/**
 * The most results of a batch. A batch is journaled when it has this many results or `BATCH_BYTES`, or some time after its first result.
 */
const BATCH_ITEMS = 1_000;
const BATCH_BYTES = LIMITS.resultBytes - 32_768;
const BATCH_MS = 50;
/** After this many batches, the time between two batches grows, because each is a checkpoint and a task has a limited number of them. */
const EARLY_BATCHES = 100;

export class JournaledMap<Item, Result> {
  readonly #options: MapOptions<Item, Result>;
  readonly #checksum: number;
  readonly #results: unknown[];
  readonly #isDone: Uint8Array;
  #batches: number;
  #items: number[] = [];
  #bytes = 0;
  #stopTimer: (() => void) | null = null;
  /** Resolves when the batches so far are journaled. They are journaled one after the other. */
  #writing: Promise<unknown> = Promise.resolve();
  /** Why a batch could not be journaled; null if all were. After a failure no further item begins. */
  #refused: { readonly thrown: unknown } | null = null;

  constructor(options: MapOptions<Item, Result>) {
    this.#options = options;
    const { items, known } = options;
    this.#checksum = items.reduce<number>((sum, item, i) => checksum(`${this.#stored(item, i)}\n`, sum), 0);
    this.#results = new Array<unknown>(items.length);
    this.#isDone = new Uint8Array(items.length);
    this.#batches = known.length;
    for (const batch of known) this.#recall(batch as Partial<Batch>);
  }

  /** Runs the items that have no result; returns all results in the order of the items. */
  async run(): Promise<readonly unknown[]> {
    const { items, concurrency, isOver } = this.#options;
    let next = 0;
    let failure: { readonly thrown: unknown } | null = null;
    const work = async (): Promise<void> => {
      while (failure === null && this.#refused === null && !isOver()) {
        while (next < items.length && this.#isDone[next] === 1) next++;
        if (next >= items.length) return;
        try {
          await this.#runItem(next++);
        } catch (thrown) {
          failure ??= { thrown };
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
    if (isOver()) return new Promise(() => {});
    // If an item failed, the results of the other items are journaled nevertheless, so that the next attempt does not run them again.
    this.#flush();
    await this.#writing;
    if (failure !== null) throw (failure as { readonly thrown: unknown }).thrown;
    return this.#results;
  }

  async #runItem(index: number): Promise<void> {
    const { run, items, signal, idempotencyKey } = this.#options;
    const value = await run(items[index] as Item, {
      index,
      idempotencyKey: `${idempotencyKey}/${index}`,
      get signal() {
        return signal();
      },
    });
    if (this.#options.isOver()) return;
    const text = this.#stored(value, index);
    const bytes = byteLength(text);
    if (this.#items.length >= BATCH_ITEMS || this.#bytes + bytes > BATCH_BYTES) this.#flush();
    this.#results[index] = JSON.parse(text);
    this.#isDone[index] = 1;
    this.#items.push(index);
    this.#bytes += bytes;
    this.#stopTimer ??= this.#options.clock.after(batchMs(this.#batches), () => this.#flush());
    // If the code is faster than the journal, it waits, so that there are never many results that are not journaled.
    if (this.#items.length >= BATCH_ITEMS) await this.#writing;
  }

  #flush(): void {
    this.#stopTimer?.();
    this.#stopTimer = null;
    if (this.#items.length === 0) return;
    const items = this.#items;
    this.#items = [];
    this.#bytes = 0;
    const batch = {
      checksum: this.#checksum,
      total: this.#results.length,
      items,
      results: items.map((index) => this.#results[index]),
    };
    const number = ++this.#batches;
    this.#writing = this.#writing.then(() => this.#options.journal(number, batch));
    // The error is not lost: it is thrown where the batch is awaited.
    this.#writing.catch((thrown: unknown) => {
      this.#refused ??= { thrown };
    });
  }

  #stored(value: unknown, index: number): string {
    return stored(value, BATCH_BYTES, `map "${this.#options.name}" item ${index}`);
  }

  #recall({ checksum: sum, total, items = [], results = [] }: Partial<Batch>): void {
    const { name } = this.#options;
    if (sum !== this.#checksum || total !== this.#results.length) throw otherItems(name);
    items.forEach((index, i) => {
      this.#results[index] = results[i];
      this.#isDone[index] = 1;
    });
  }
}

/**
 * Journals the items of a map in pages, and returns the number of items. The name of a page contains a checksum of all items up
 * to its end. `known` has the pages that earlier attempts journaled; this attempt must have the same items.
 */
export async function journalItems(
  map: string,
  items: Iterable<unknown> | AsyncIterable<unknown>,
  {
    known,
    journal,
  }: {
    readonly known: readonly string[];
    readonly journal: (page: string, items: string) => Promise<void>;
  },
): Promise<number> {
  let pages = 0;
  let total = 0;
  for await (const { text, count, sum } of itemPages(map, items)) {
    const page = `${map}/${pages + 1}/${sum}`;
    if ((known[pages++] ?? page) !== page) throw otherItems(map);
    total += count;
    await journal(page, text);
  }
  if (pages < known.length) throw otherItems(map);
  return total;
}

/** A page of items of a map, as it is journaled. */
interface ItemPage {
  /** The items as the JSON text of a list. */
  readonly text: string;
  readonly count: number;
  /** A checksum over all items up to the end of this page. */
  readonly sum: string;
}

/** Packs items into pages that fit into a step. The same items give the same pages. */
async function* itemPages(
  map: string,
  items: Iterable<unknown> | AsyncIterable<unknown>,
): AsyncGenerator<ItemPage> {
  if (
    typeof items !== "object" ||
    items === null ||
    !(Symbol.iterator in items || Symbol.asyncIterator in items)
  )
    throw brandFatal(new Error(`map "${map}": items must be an array, an iterable or an async iterable`));
  let texts: string[] = [];
  let bytes = 0;
  let sum = 0;
  let index = 0;
  const page = (): ItemPage => {
    const full = { text: `[${texts.join(",")}]`, count: texts.length, sum: (sum >>> 0).toString(16) };
    texts = [];
    bytes = 0;
    return full;
  };
  for await (const item of items) {
    const text = stored(item, LIMITS.taskBytes, `map "${map}" item ${index++}`);
    const size = byteLength(text) + 1;
    if (texts.length >= BATCH_ITEMS || bytes + size > BATCH_BYTES) yield page();
    texts.push(text);
    bytes += size;
    sum = checksum(`${text}\n`, sum);
  }
  if (texts.length > 0) yield page();
}

/** Makes the error for a map whose items are not those that an earlier attempt journaled. */
function otherItems(map: string): Error {
  const message = `map "${map}" has other items than in an earlier attempt: make the list in a step, so that it stays the same`;
  return Object.assign(brandFatal(new Error(message)), { code: "map_diverged" });
}

/** Returns the JSON text of an item or a result. If the value cannot be stored, it throws an error that fails the task without a retry. */
function stored(value: unknown, bytesMax: number, what: string): string {
  const text = toStoredText(value, { bytesMax, what });
  if (!isRejection(text)) return text;
  const { code, message, hint, path } = text;
  throw Object.assign(brandFatal(new Error(message)), { name: "NotStorable", code, hint, path });
}

/** Returns the time after which the next batch is journaled: 50 ms at first, 4 s after 2,000 batches, 40 s after 9,000. */
function batchMs(batches: number): number {
  return Math.round(BATCH_MS * Math.max(1, (batches / EARLY_BATCHES) ** 1.5));
}
