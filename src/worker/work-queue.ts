/** A queue of granted items that a worker has not begun, in order. */
import type { Beat, GrantItem } from "../protocol/work.ts";
import { samePlace } from "./attempt-place.ts";
import type { Shared } from "./context.ts";

interface Entry {
  readonly shared: Shared;
  next: number;
}

export class WorkQueue {
  readonly #entries: Entry[] = [];
  /** The items that were given up; null before the first. */
  #givenUp: WeakSet<GrantItem> | null = null;

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  get first(): Shared | undefined {
    return this.#entries[0]?.shared;
  }

  push(shared: Shared): void {
    if (shared.grant.items.length > 0) this.#entries.push({ shared, next: 0 });
  }

  /** Removes and returns the next item of the grant `first`. Returns undefined if the item was removed before. */
  dequeue(): GrantItem | undefined {
    const entry = this.#entries[0];
    if (entry === undefined) return undefined;
    const { items } = entry.shared.grant;
    const item = items[entry.next++] as GrantItem;
    if (entry.next >= items.length) this.#entries.shift();
    return this.#givenUp?.has(item) === true ? undefined : item;
  }

  /** Removes and returns up to `max` items of the grant `first`. */
  dequeueGroup(max: number): GrantItem[] {
    const shared = this.first;
    const group: GrantItem[] = [];
    while (group.length < max && this.first === shared && !this.isEmpty) {
      const item = this.dequeue();
      if (item !== undefined) group.push(item);
    }
    return group;
  }

  /** Removes the items whose attempts `beat` lists, and calls `each` for every removed item. */
  giveUp(beat: Beat, each: (shared: Shared, item: GrantItem) => void): void {
    const isNamed = (item: GrantItem): boolean =>
      beat.attempts.some(
        (a) => a.task === item.number && a.attempt === item.attempt && a.claim === item.claim,
      );
    for (const entry of this.#entries)
      if (samePlace(entry.shared.grant, beat)) this.#giveUp(entry, isNamed, each);
  }

  /** Removes all items, and calls `each` for every item. */
  clear(each: (shared: Shared, item: GrantItem) => void): void {
    for (const entry of this.#entries) this.#giveUp(entry, () => true, each);
    this.#entries.length = 0;
  }

  #giveUp(
    { shared, next }: Entry,
    which: (item: GrantItem) => boolean,
    each: (shared: Shared, item: GrantItem) => void,
  ): void {
    for (const item of shared.grant.items.slice(next)) {
      if (this.#givenUp?.has(item) === true || !which(item)) continue;
      this.#givenUp ??= new WeakSet();
      this.#givenUp.add(item);
      each(shared, item);
    }
  }
}
