/**
 * A growable set of small integers, one bit each. The first 32 are in a plain number, because most sets are tiny; the others
 * are in chunks that are allocated on first use.
 */
const CHUNK_BITS = 32_768;
const CHUNK_WORDS = CHUNK_BITS / 32;

const NONE: (Uint32Array | undefined)[] = [];

export class Bitset {
  #chunks: (Uint32Array | undefined)[] = NONE;
  #first = 0;
  size = 0;

  has(n: number): boolean {
    if (n < 32) return (this.#first & (1 << n)) !== 0;
    const chunk = this.#chunks[Math.floor(n / CHUNK_BITS)];
    if (chunk === undefined) return false;
    const i = n % CHUNK_BITS;
    return ((chunk[i >>> 5] as number) & (1 << (i & 31))) !== 0;
  }

  /** Adds n to the set; false if the set had it already. */
  add(n: number): boolean {
    if (n < 32) {
      if (this.has(n)) return false;
      this.#first |= 1 << n;
      this.size++;
      return true;
    }
    const at = Math.floor(n / CHUNK_BITS);
    let chunk = this.#chunks[at];
    if (chunk === undefined) {
      chunk = new Uint32Array(CHUNK_WORDS);
      if (this.#chunks === NONE) this.#chunks = [];
      this.#chunks[at] = chunk;
    }
    const i = n % CHUNK_BITS;
    const bit = 1 << (i & 31);
    const word = chunk[i >>> 5] as number;
    if ((word & bit) !== 0) return false;
    chunk[i >>> 5] = word | bit;
    this.size++;
    return true;
  }

  /** Removes n from the set; false if the set did not have it. */
  delete(n: number): boolean {
    if (!this.has(n)) return false;
    this.size--;
    if (n < 32) {
      this.#first &= ~(1 << n);
      return true;
    }
    const chunk = this.#chunks[Math.floor(n / CHUNK_BITS)] as Uint32Array;
    const i = n % CHUNK_BITS;
    chunk[i >>> 5] = (chunk[i >>> 5] as number) & ~(1 << (i & 31));
    return true;
  }

  /** The smallest number from `from` up to `end` (excluded) that is not in the set, or -1. */
  nextMissing(from: number, end: number): number {
    let n = from;
    while (n < end) {
      if (n < 32) {
        if (this.#first === -1) n = 32;
        else if (!this.has(n)) return n;
        else n++;
        continue;
      }
      const chunk = this.#chunks[Math.floor(n / CHUNK_BITS)];
      if (chunk === undefined) return n;
      const i = n % CHUNK_BITS;
      const word = chunk[i >>> 5] as number;
      if (word === 0xffffffff) {
        n += 32 - (i & 31);
        continue;
      }
      if ((word & (1 << (i & 31))) === 0) return n;
      n++;
    }
    return -1;
  }

  /** Encodes the set as text for a snapshot: base64 of the words in order, as little-endian bytes without trailing zeros. */
  toText(): string {
    let words = this.#first === 0 ? 0 : 1;
    for (let c = 0; c < this.#chunks.length; c++) {
      const chunk = this.#chunks[c];
      if (chunk === undefined) continue;
      for (let i = CHUNK_WORDS - 1; i >= 0; i--) {
        if (chunk[i] !== 0) {
          words = c * CHUNK_WORDS + i + 1;
          break;
        }
      }
    }
    const bytes = Buffer.alloc(words * 4);
    if (words > 0) bytes.writeInt32LE(this.#first, 0);
    for (let w = 1; w < words; w++) {
      bytes.writeUInt32LE(this.#chunks[Math.floor(w / CHUNK_WORDS)]?.[w % CHUNK_WORDS] ?? 0, w * 4);
    }
    return bytes.toString("base64");
  }

  /** Parses the text of `toText`. */
  static fromText(text: string): Bitset {
    const set = new Bitset();
    const bytes = Buffer.from(text, "base64");
    for (let w = 0; w < bytes.length / 4; w++) {
      const word = bytes.readUInt32LE(w * 4);
      for (let b = 0; word >>> b !== 0 && b < 32; b++) if ((word >>> b) & 1) set.add(w * 32 + b);
    }
    return set;
  }
}
