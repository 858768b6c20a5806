/**
 * What workers at the broker serve, as far as can be seen from here: code whose queue of enumerations has consumers
 * enumerates, and gets its work although workers elsewhere serve it too.
 */
import type { Serves } from "../protocol/work.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { BrokerNames } from "./names.ts";

/** Names of code that are remembered, and looked at in one turn. */
const USES_MAX = 10_000;
const LOOKS_MAX = 50;

export class ServedAtBroker {
  readonly #names: BrokerNames;
  readonly #onChange: () => void;
  /** Code that enumerates at the broker. */
  readonly #enumerating = new Set<string>();
  /** Code that was looked for, and is served or not. */
  readonly #known = new Set<string>();
  /** Code that other workers serve. */
  readonly #elsewhere = new Set<string>();

  constructor(names: BrokerNames, onChange: () => void) {
    this.#names = names;
    this.#onChange = onChange;
  }

  /** What the engine is told. */
  get serves(): readonly Serves[] {
    return Array.from(this.#enumerating, (use) => ({ use, enumerates: true }));
  }

  isKnown(use: string): boolean {
    return this.#known.has(use);
  }

  /** Other workers serve these. */
  elsewhere(serves: readonly Serves[]): void {
    for (const { use } of serves) if (this.#elsewhere.size < USES_MAX) this.#elsewhere.add(use);
  }

  /** Whether code enumerates at the broker, found out now. */
  async learn(session: BrokerSession, use: string): Promise<boolean> {
    const consumers = (await session.look(this.#names.enumerate(use)))?.consumers ?? 0;
    if (this.#known.size < USES_MAX) this.#known.add(use);
    const has = consumers > 0;
    if (has === this.#enumerating.has(use)) return has;
    if (has) this.#enumerating.add(use);
    else this.#enumerating.delete(use);
    this.#onChange();
    return has;
  }

  /** Looks again, at a few of those that matter. */
  async look(session: BrokerSession, uses: ReadonlySet<string>): Promise<void> {
    const all = [...new Set([...uses, ...this.#enumerating, ...this.#elsewhere])];
    for (const use of all.slice(0, LOOKS_MAX)) {
      // The next turn begins with others.
      if (this.#elsewhere.delete(use)) this.#elsewhere.add(use);
      if (!use.startsWith("topic:")) await this.learn(session, use);
    }
  }

  /** No visit needs the code's queue of enumerations any more: it goes, unless somebody uses it. */
  tidy(session: BrokerSession | null, use: string): void {
    if (session === null) return;
    this.#known.delete(use);
    const queue = this.#names.enumerate(use);
    // It is in use, or the broker is gone: then it stays.
    session.with((channel) => channel.deleteQueue(queue, { ifUnused: true, ifEmpty: true })).catch(() => {});
  }
}
