/**
 * Remembers store faults that other nodes report. A node without partitions writes nothing, so it learns from the answers to
 * messages that it passes on whether the store accepts writes. It is not ready until such a message is written.
 */
import { StoreFault } from "../../store/store.ts";
import type { PeerAnswer } from "./peer-client.ts";

/** How long such an answer counts. Owners repeat their commits more often than this. */
const COUNTS_MS = 10_000;

export class PeerFaults {
  readonly #monotonic: () => number;
  #last: { readonly fault: StoreFault; readonly at: number } | null = null;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Why the store accepts no writes, by the last report of another node; null without a recent report. */
  get fault(): StoreFault | null {
    if (this.#last !== null && this.#monotonic() - this.#last.at > COUNTS_MS) this.#last = null;
    return this.#last?.fault ?? null;
  }

  /**
   * Records the answer to a message that was passed on. A message that could not be written counts as lost and is repeated.
   */
  heard<T>(url: string, answer: PeerAnswer<T>): PeerAnswer<T> {
    if (answer.kind === "answered") this.#last = null;
    if (answer.kind !== "refused" || answer.rejection.code !== "store_unavailable") return answer;
    const why = `${url}: ${answer.rejection.message}`;
    this.#last = {
      fault: new StoreFault(why, { retryable: true, nothingWritten: false }),
      at: this.#monotonic(),
    };
    return { kind: "unreached", why };
  }
}
