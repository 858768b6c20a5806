/**
 * A map and a set that use almost no memory while they are empty. An empty built-in `Map` or `Set` takes about 180 bytes, and
 * an execution has several of them, mostly empty. Their order and behaviour are those of `Map` and `Set`. For values that come and go, use
 * `TransientMap`.
 */
export class SparseMap<K, V> {
  #map: Map<K, V> | null = null;

  get size(): number {
    return this.#map === null ? 0 : this.#map.size;
  }

  get(key: K): V | undefined {
    return this.#map === null ? undefined : this.#map.get(key);
  }

  has(key: K): boolean {
    return this.#map?.has(key) ?? false;
  }

  set(key: K, value: V): this {
    this.#map ??= new Map();
    this.#map.set(key, value);
    return this;
  }

  delete(key: K): boolean {
    return this.#map?.delete(key) ?? false;
  }

  keys(): Iterable<K> {
    return this.#map?.keys() ?? NOTHING;
  }

  values(): Iterable<V> {
    return this.#map?.values() ?? NOTHING;
  }

  [Symbol.iterator](): Iterator<[K, V]> {
    return (this.#map ?? NOTHING)[Symbol.iterator]();
  }
}

/** A set that uses almost no memory while it is empty. */
export class SparseSet<T> {
  #set: Set<T> | null = null;

  get size(): number {
    return this.#set === null ? 0 : this.#set.size;
  }

  has(value: T): boolean {
    return this.#set?.has(value) ?? false;
  }

  add(value: T): this {
    this.#set ??= new Set();
    this.#set.add(value);
    return this;
  }

  delete(value: T): boolean {
    return this.#set?.delete(value) ?? false;
  }

  clear(): void {
    this.#set = null;
  }

  [Symbol.iterator](): Iterator<T> {
    return (this.#set ?? NOTHING)[Symbol.iterator]();
  }
}

const NOTHING: readonly never[] = [];
