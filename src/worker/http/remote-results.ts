/** Reads results of earlier phases and checkpoints of earlier attempts over HTTP, for a worker without access to the store. */
import { type ResultsSource, type SettledAt, TasksUnknown } from "../results-reader.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { KeptCheckpoint } from "./read-work.ts";

export interface RemoteResultsOptions {
  readonly held: HeldAttempts;
  /** Reads an API path with an attempt's token; waits while no server answers. */
  readonly get: (path: string, attempt: HeldAttempt) => Promise<string>;
}

interface Page {
  readonly data: readonly {
    readonly task: number;
    readonly status: string;
    readonly result?: unknown;
    readonly error?: unknown;
    readonly data?: unknown;
  }[];
  readonly next: string | null;
}

/** The most task numbers in one request. */
const NUMBERS_MAX = 100;

export class RemoteResults implements ResultsSource {
  readonly #options: RemoteResultsOptions;
  readonly #kept = new Map<number, KeptCheckpoint>();
  #number = 0;

  constructor(options: RemoteResultsOptions) {
    this.#options = options;
  }

  /** Stores a checkpoint of an earlier attempt in memory; returns the number by which it can be read. */
  keep(payload: KeptCheckpoint): number {
    this.#kept.set(++this.#number, payload);
    return this.#number;
  }

  /** Drops the checkpoints that were stored for an attempt, once the attempt has ended. */
  release(numbers: readonly number[]): void {
    for (const number of numbers) this.#kept.delete(number);
  }

  async checkpoint(_execution: string, number: number): Promise<KeptCheckpoint> {
    const kept = this.#kept.get(number);
    if (kept === undefined)
      throw new Error("the attempt has ended, so its checkpoint cannot be read any more");
    return kept;
  }

  async items(execution: string, page: number): Promise<string | null> {
    const attempt = this.#options.held.openOf(execution);
    if (attempt === undefined) throw new Error("the attempt has ended, so it cannot read items any more");
    const path = `/v1/attempts/${encodeURIComponent(attempt.id)}/items/${page}`;
    const { data } = JSON.parse(await this.#options.get(path, attempt)) as { readonly data: unknown };
    return data === null ? null : JSON.stringify(data);
  }

  async *settled(at: SettledAt): AsyncGenerator<{ task: number; status: string; payload: string }> {
    for await (const { task, status, result, error } of this.#pages(at, ""))
      yield { task, status, payload: JSON.stringify((status === "done" ? result : error) ?? null) };
  }

  async *tasks(at: SettledAt, numbers: ReadonlySet<number>): AsyncGenerator<{ task: number; text: string }> {
    const all = [...numbers];
    for (let from = 0; from < all.length; from += NUMBERS_MAX) {
      const some = all.slice(from, from + NUMBERS_MAX);
      try {
        for await (const { task, data } of this.#pages(at, `&tasks=${some.join(",")}`))
          yield { task, text: JSON.stringify(data ?? null) };
      } catch (thrown) {
        if ((thrown as { problem?: { status?: unknown } }).problem?.status !== 422) throw thrown;
        throw new TasksUnknown("the server is of an older version, which cannot read tasks for a worker", {
          cause: thrown,
        });
      }
    }
  }

  async *#pages(at: SettledAt, more: string): AsyncGenerator<Page["data"][number]> {
    let cursor: string | null = `${at.firstSeq}-${at.lastSeq}`;
    while (cursor !== null) {
      const { held } = this.#options;
      const attempt = at.by === undefined ? held.openOf(at.execution) : held.get(at.by.attempt);
      if (attempt === undefined) throw new Error("the attempt has ended, so it cannot read results any more");
      const child = at.by === undefined ? "" : `&child=${encodeURIComponent(at.by.child)}`;
      const path: string = `/v1/attempts/${encodeURIComponent(attempt.id)}/results/${at.phase}/${at.handler}?visit=${at.visit}&cursor=${cursor}${child}${more}`;
      const page = JSON.parse(await this.#options.get(path, attempt)) as Page;
      yield* page.data;
      cursor = page.next;
    }
  }
}
