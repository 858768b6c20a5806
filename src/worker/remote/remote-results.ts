/** What code reads of earlier phases and attempts, for a worker that is not beside the store. */
import type { ResultsSource } from "../results-reader.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { KeptCheckpoint } from "./read-work.ts";

export interface RemoteResultsOptions {
  readonly held: HeldAttempts;
  /** Gets a path of the API by an attempt's token; waits for a server that is not there. */
  readonly get: (path: string, attempt: HeldAttempt) => Promise<string>;
}

interface Page {
  readonly data: readonly {
    readonly task: number;
    readonly status: string;
    readonly result?: unknown;
    readonly error?: unknown;
  }[];
  readonly next: string | null;
}

export class RemoteResults implements ResultsSource {
  readonly #options: RemoteResultsOptions;
  readonly #kept = new Map<number, KeptCheckpoint>();
  #number = 0;

  constructor(options: RemoteResultsOptions) {
    this.#options = options;
  }

  /** Keeps what an earlier attempt journaled; gives the number to ask for it by. */
  keep(payload: KeptCheckpoint): number {
    this.#kept.set(++this.#number, payload);
    return this.#number;
  }

  /** An attempt is over: what was kept for it is not needed any more. */
  release(numbers: readonly number[]): void {
    for (const number of numbers) this.#kept.delete(number);
  }

  async checkpoint(_execution: string, number: number): Promise<KeptCheckpoint> {
    const kept = this.#kept.get(number);
    if (kept === undefined) throw new Error("the attempt that this was kept for is over");
    return kept;
  }

  async *settled(
    at: Parameters<ResultsSource["settled"]>[0],
  ): AsyncGenerator<{ task: number; status: string; payload: string }> {
    let cursor: string | null = `${at.firstSeq}-${at.lastSeq}`;
    while (cursor !== null) {
      const attempt = this.#options.held.openOf(at.execution);
      if (attempt === undefined) throw new Error("the attempt that reads results is over");
      const path: string = `/v1/attempts/${encodeURIComponent(attempt.id)}/results/${at.phase}/${at.handler}?visit=${at.visit}&cursor=${cursor}`;
      const page = JSON.parse(await this.#options.get(path, attempt)) as Page;
      for (const { task, status, result, error } of page.data)
        yield { task, status, payload: JSON.stringify((status === "done" ? result : error) ?? null) };
      cursor = page.next;
    }
  }
}
