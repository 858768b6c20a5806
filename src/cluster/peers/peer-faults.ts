/**
 * Remembers store faults that other nodes report. A node without partitions writes nothing, so it learns from the answers to messages
 * that it passes on whether the store accepts writes. After such a fault the node is not ready, until a message that it passes on is
 * written.
 */
import { StoreFault } from "../../store/store.ts";
import type { PeerAnswer } from "./peer-client.ts";

/** How long a reported fault counts. Owners repeat their commits more often than this. */
const COUNTS_MS = 10_000;

export class PeerFaults {
  readonly #monotonic: () => number;
  #last: { readonly fault: StoreFault; readonly at: number } | null = null;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Returns why the store accepts no writes, by the last report of another node; null if there is no recent report. */
  get fault(): StoreFault | null {
    if (this.#last !== null && this.#monotonic() - this.#last.at > COUNTS_MS) this.#last = null;
    return this.#last?.fault ?? null;
  }

  /**
   * Records the answer to a message that was passed on to another node. If the message could not be written, it counts as lost, so that
   * it is sent again.
   */
  recorded<T>(url: string, answer: PeerAnswer<T>): PeerAnswer<T> {
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
