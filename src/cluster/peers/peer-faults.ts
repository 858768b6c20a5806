/**
 * What other nodes say about the store. A node that owns nothing commits nothing, so its own renewals succeed while the
 * owners' commits fail (a full disk has room for a renewal, which grows no table). It learns that the store takes no
 * writes from the answers to what it passes on, and is not ready until one is written, or until the last such answer is
 * too old to say anything.
 */
import { StoreFault } from "../../store/store.ts";
import type { PeerAnswer } from "./peer-client.ts";

/** How long such an answer counts. Owners try their commits again more often than this. */
const COUNTS_MS = 10_000;

export class PeerFaults {
  readonly #monotonic: () => number;
  #last: { readonly fault: StoreFault; readonly at: number } | null = null;

  /** `monotonic`: milliseconds of a clock that does not jump. */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Why the store takes no writes, as another node said last; null: nobody said so lately. */
  get fault(): StoreFault | null {
    if (this.#last !== null && this.#monotonic() - this.#last.at > COUNTS_MS) this.#last = null;
    return this.#last?.fault ?? null;
  }

  /** Notes the answer to a message that was passed on. One that could not be written is sent again, as if it were lost. */
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
