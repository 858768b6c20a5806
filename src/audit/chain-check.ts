/**
 * The chain hash of a journal, made anew: the hash of each write covers its rows and the hash before it. So a row that was
 * changed, moved or taken out by somebody else than the engine shows.
 */
import { createHash, type Hash } from "node:crypto";
import type { JournalRow } from "../store/store.ts";

const HEX = 32;

export class ChainCheck {
  #hash: Hash = createHash("sha256");

  /** Takes the next row; false: it, or one since the last hash, is not what was written. */
  take({ seq, body, chain }: JournalRow): boolean {
    this.#hash.update(`\n${seq} ${body}`);
    if (chain === null || chain === undefined) return true;
    const made = this.#hash.digest("hex").slice(0, HEX);
    // The next one is held against what is stored: it has no part in this difference.
    this.#hash = createHash("sha256").update(chain);
    return made === chain;
  }
}
