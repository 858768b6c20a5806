/**
 * Which code enumerates at the broker: its enumerate queue has consumers. Such code gets its enumerations and tasks at the
 * broker too, although workers elsewhere serve it. What this remembers never decides where tasks come from.
 */
import type { Serves } from "../../protocol/work.ts";
import type { BrokerSession } from "../broker-link.ts";
import type { BrokerNames } from "../names.ts";

/** Names of code that are remembered, and looked at in one turn. */
const USES_MAX = 10_000;
const LOOKS_MAX = 50;

export class ServedAtBroker {
  readonly #names: BrokerNames;
  readonly #onChange: () => void;
  /** Code that enumerates at the broker. */
  readonly #enumerating = new Set<string>();
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

  /** Other workers serve these. */
  elsewhere(serves: readonly Serves[]): void {
    for (const { use } of serves) if (this.#elsewhere.size < USES_MAX) this.#elsewhere.add(use);
  }

  /** Whether code enumerates at the broker, found out now; the engine is told before this resolves. */
  async learn(session: BrokerSession, use: string): Promise<boolean> {
    const consumers = (await session.look(this.#names.enumerate(use)))?.consumers ?? 0;
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
}
