/** The random port, and a small seeded generator (xoshiro128** seeded by splitmix). One seed determines all draws of a run. */
export interface Random {
  /** Draws an integer from 0 to 2^32 - 1. */
  u32(): number;
}

/** Draws a random hexadecimal text, with 8 digits for each word. */
export function randomHex(random: Random, words: number): string {
  return Array.from({ length: words }, () => random.u32().toString(16).padStart(8, "0")).join("");
}

/** A deterministic generator. Equal seeds give equal draws on every machine. */
export class SeededRandom implements Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;
  draws = 0;

  constructor(seed: number | string) {
    let state = typeof seed === "string" ? hashText(seed) : seed >>> 0;
    const next = () => {
      state = (state + 0x9e3779b9) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return (z ^ (z >>> 15)) >>> 0;
    };
    this.#a = next();
    this.#b = next();
    this.#c = next();
    this.#d = next() | 1;
  }

  u32(): number {
    this.draws++;
    const result = Math.imul(rotate(Math.imul(this.#b, 5), 7), 9) >>> 0;
    const t = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= t;
    this.#d = rotate(this.#d, 11);
    return result;
  }

  /** Makes a child generator whose draws do not depend on the use of its siblings. */
  child(name: string): SeededRandom {
    return new SeededRandom(hashText(`${this.#a}:${this.#b}:${this.#c}:${this.#d}:${name}`));
  }

  /** Draws an integer from 0 to n - 1. */
  below(n: number): number {
    return n <= 0 ? 0 : Math.floor((this.u32() / 4294967296) * n);
  }

  /** Draws an integer from low to high, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(probability: number): boolean {
    return this.u32() / 4294967296 < probability;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }

  shuffle<T>(values: readonly T[]): T[] {
    const copy = [...values];
    for (let i = copy.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
    }
    return copy;
  }
}

const pool = new Uint32Array(1_024);
let used = pool.length;

/** The machine's source of random numbers, read in blocks. */
export const systemRandom: Random = {
  u32() {
    if (used === pool.length) {
      globalThis.crypto.getRandomValues(pool);
      used = 0;
    }
    return pool[used++] as number;
  },
};

/** A 32-bit hash of a text (FNV-1a with a final mix), for seeds, jitter and placement. It is too short to identify a text. */
export function hashText(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function rotate(x: number, bits: number): number {
  return (x << bits) | (x >>> (32 - bits));
}
