/**
 * A map for values that come and go all the time. Its order and behaviour are those of `Map`, and it uses almost no memory before the
 * first value.
 *
 * A built-in `Map` or `Set` that lives long and whose values live short makes V8's garbage collector slow. V8 replaces a table that is full of
 * deleted entries by a new one. The former table keeps a reference to the new one, for iterators that still read it. If the former table is
 * in the old generation, only a full collection frees it. Until then it keeps all later tables alive, and with them all values that were in
 * them. So deleted values survive every collection of the young generation and move to the old one (decision 171).
 *
 * This map keeps its values in an array. Its built-in map holds only the keys, each with the index of its value in the array.
 */
export class TransientMap<K extends string | number, V extends object | string> {
  #places: Map<K, number> | null = null;
  /** The values by their places. A place that is free holds the next free place; the last one holds -1. */
  #values: (V | number)[] = NO_VALUES;
  #free = NO_PLACE;

  get size(): number {
    return this.#places === null ? 0 : this.#places.size;
  }

  get(key: K): V | undefined {
    const place = this.#places?.get(key);
    return place === undefined ? undefined : (this.#values[place] as V);
  }

  has(key: K): boolean {
    return this.#places?.has(key) ?? false;
  }

  set(key: K, value: V): this {
    if (this.#places === null) {
      this.#places = new Map();
      this.#values = [];
    }
    const known = this.#places.get(key);
    const place = known ?? this.#free;
    if (place === NO_PLACE) this.#places.set(key, this.#values.push(value) - 1);
    else {
      if (known === undefined) {
        this.#free = this.#values[place] as number;
        this.#places.set(key, place);
      }
      this.#values[place] = value;
    }
    return this;
  }

  delete(key: K): boolean {
    const place = this.#places?.get(key);
    if (place === undefined) return false;
    this.#places?.delete(key);
    this.#values[place] = this.#free;
    this.#free = place;
    // Gives the memory back after there were many values.
    if (this.size === 0 && this.#values.length > FEW) this.clear();
    return true;
  }

  clear(): void {
    if (this.#places === null) return;
    // The built-in map stays the same, so an iterator that is under way still finds entries that are added later.
    this.#places.clear();
    this.#values = [];
    this.#free = NO_PLACE;
  }

  keys(): Iterable<K> {
    return this.#places?.keys() ?? [];
  }

  *values(): Generator<V> {
    if (this.#places !== null) for (const place of this.#places.values()) yield this.#values[place] as V;
  }

  *[Symbol.iterator](): Generator<[K, V]> {
    if (this.#places !== null) for (const [key, place] of this.#places) yield [key, this.#values[place] as V];
  }
}

const NO_PLACE = -1;
const NO_VALUES: never[] = [];
/** An empty map keeps its array if the array has at most this many places. */
const FEW = 64;
