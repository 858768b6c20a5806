/** Granted items that have not begun, in the order in which they came. */
import type { Beat, GrantItem } from "../protocol/work.ts";
import { samePlace } from "./attempt-place.ts";
import type { Shared } from "./context.ts";

interface Entry {
  readonly shared: Shared;
  next: number;
}

export class WorkQueue {
  readonly #entries: Entry[] = [];
  readonly #givenUp = new WeakSet<GrantItem>();

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** What the next item belongs to. */
  get first(): Shared | undefined {
    return this.#entries[0]?.shared;
  }

  push(shared: Shared): void {
    if (shared.grant.items.length > 0) this.#entries.push({ shared, next: 0 });
  }

  /** Takes the next item of `first`; undefined: it was given up. */
  take(): GrantItem | undefined {
    const entry = this.#entries[0];
    if (entry === undefined) return undefined;
    const { items } = entry.shared.grant;
    const item = items[entry.next++] as GrantItem;
    if (entry.next >= items.length) this.#entries.shift();
    return this.#givenUp.has(item) ? undefined : item;
  }

  /** Takes up to so many items of `first`, of one grant. */
  takeGroup(max: number): GrantItem[] {
    const shared = this.first;
    const group: GrantItem[] = [];
    while (group.length < max && this.first === shared && !this.isEmpty) {
      const item = this.take();
      if (item !== undefined) group.push(item);
    }
    return group;
  }

  /** Gives up what a beat names; `each` gets every item that is given up. */
  giveUp(beat: Beat, each: (shared: Shared, item: GrantItem) => void): void {
    const isNamed = (item: GrantItem): boolean =>
      beat.attempts.some(
        (a) => a.task === item.number && a.attempt === item.attempt && a.claim === item.claim,
      );
    for (const entry of this.#entries)
      if (samePlace(entry.shared.grant, beat)) this.#giveUp(entry, isNamed, each);
  }

  /** Gives up everything. */
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
      if (this.#givenUp.has(item) || !which(item)) continue;
      this.#givenUp.add(item);
      each(shared, item);
    }
  }
}
