/** Attempts whose receipts are committed, the newest of them: one that is sent again is a repeat, whatever ended since. */
import type { AttemptRecord } from "./attempt-record.ts";

const ENDED_MAX = 10_000;

export class EndedAttempts {
  readonly #ids = new Set<string>();
  /** The same in their order, the oldest at `#next` once it is full. */
  readonly #ring: string[] = [];
  #next = 0;

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** The receipt of this one is committed. After its phase the engine knows no attempt: that it was heard is known here. */
  note(record: AttemptRecord): void {
    const { id, verdict } = record;
    if (!this.#ids.has(id)) this.#add(id);
    else if (verdict === "gone") record.verdict = "duplicate";
  }

  #add(id: string): void {
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
    this.#ring[this.#next] = id;
    this.#next = (this.#next + 1) % ENDED_MAX;
  }
}
