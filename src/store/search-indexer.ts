/** Updates the search index while the store is open: once a second, in small parts, so that commits can run in between. */
import { type Clock, systemClock } from "../std/clock.ts";
import { type ExecutionSearch, StoreFault } from "./store.ts";

/** The interval of updates. The index may lag by two seconds. */
const EVERY_MS = 1_000;

export class SearchIndexer {
  readonly #store: Pick<ExecutionSearch, "indexSome">;
  readonly #clock: Clock;
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(store: Pick<ExecutionSearch, "indexSome">, clock: Clock = systemClock()) {
    this.#store = store;
    this.#clock = clock;
  }

  start(): void {
    this.#cancel = this.#clock.after(EVERY_MS, () => void this.#run());
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  async #run(): Promise<void> {
    try {
      while (!this.#isStopped && (await this.#store.indexSome()));
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
    }
    if (!this.#isStopped) this.start();
  }
}
