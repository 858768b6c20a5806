/**
 * A binary heap with the smallest item first. The comparison must be a total order, so that the order of items is the same in every run.
 */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #before: (a: T, b: T) => boolean;

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  /** Removes and yields the smallest items while the test holds. */
  *popWhile(holds: (item: T) => boolean): Generator<T> {
    for (let top = this.peek(); top !== undefined && holds(top); top = this.peek()) {
      this.pop();
      yield top;
    }
  }

  /** All items of the heap, in no particular order. */
  items(): readonly T[] {
    return this.#items;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    const items = this.#items;
    let i = items.length;
    items.push(item);
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (!this.#before(item, items[up] as T)) break;
      items[i] = items[up] as T;
      i = up;
    }
    items[i] = item;
  }

  pop(): T | undefined {
    const items = this.#items;
    const top = items[0];
    const last = items.pop() as T;
    if (items.length === 0) return top;
    let i = 0;
    for (;;) {
      let down = 2 * i + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && this.#before(items[down + 1] as T, items[down] as T)) down++;
      if (!this.#before(items[down] as T, last)) break;
      items[i] = items[down] as T;
      i = down;
    }
    items[i] = last;
    return top;
  }

  /** Removes one item from any place of the heap. It is slow, so it is meant for rare cases. */
  remove(item: T): void {
    const rest = this.#items.filter((other) => other !== item);
    this.clear();
    for (const other of rest) this.push(other);
  }

  clear(): void {
    this.#items.length = 0;
  }
}
