/** A set of identities, stored as 128-bit hashes (open addressing). */
import { sha256Words } from "../../std/hash.ts";

export class IdentitySet {
  #slots = new Uint32Array(4 * 64);
  size = 0;

  has(identity: string): boolean {
    return this.#find(sha256Words(identity)) < 0;
  }

  /** Adds an identity; false if the set has it already. */
  add(identity: string): boolean {
    const words = sha256Words(identity);
    const slot = this.#find(words);
    if (slot < 0) return false;
    this.#put(slot, words);
    this.size++;
    if (this.size * 8 > this.#slots.length) this.#grow();
    return true;
  }

  toText(): string {
    const full = new Uint32Array(this.size * 4);
    let n = 0;
    for (let i = 0; i < this.#slots.length; i += 4) {
      if (this.#isFree(i)) continue;
      full.set(this.#slots.subarray(i, i + 4), n);
      n += 4;
    }
    return Buffer.from(full.buffer).toString("base64");
  }

  static fromText(text: string): IdentitySet {
    const set = new IdentitySet();
    const bytes = Buffer.from(text, "base64");
    for (let i = 0; i + 16 <= bytes.length; i += 16) {
      const words = [0, 4, 8, 12].map((at) => bytes.readUInt32LE(i + at)) as [number, number, number, number];
      const slot = set.#find(words);
      if (slot < 0) continue;
      set.#put(slot, words);
      set.size++;
      if (set.size * 8 > set.#slots.length) set.#grow();
    }
    return set;
  }

  /** The index of the free slot for these words; -1 if the set has them. */
  #find(words: readonly [number, number, number, number]): number {
    const mask = this.#slots.length / 4 - 1;
    for (let at = words[0] & mask; ; at = (at + 1) & mask) {
      const i = at * 4;
      if (this.#isFree(i)) return i;
      if (
        this.#slots[i] === words[0] &&
        this.#slots[i + 1] === words[1] &&
        this.#slots[i + 2] === words[2] &&
        this.#slots[i + 3] === words[3]
      )
        return -1;
    }
  }

  #isFree(i: number): boolean {
    return this.#slots[i + 3] === 0;
  }

  #put(slot: number, words: readonly [number, number, number, number]): void {
    this.#slots.set(words, slot);
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    for (let i = 0; i < before.length; i += 4) {
      if (before[i + 3] === 0) continue;
      const words = [before[i], before[i + 1], before[i + 2], before[i + 3]] as [
        number,
        number,
        number,
        number,
      ];
      this.#put(this.#find(words), words);
    }
  }
}
