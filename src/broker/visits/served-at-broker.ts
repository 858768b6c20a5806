/** Finds out which code enumerates at the broker, by the consumers of its enumerate queue. Such code gets its work at the broker. */
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Serves } from "../../protocol/work.ts";
import type { BrokerNames } from "../names.ts";

/** The most code names that are kept in memory, and how many of them are checked at a time. */
const USES_MAX = 10_000;
const CHECKS_MAX = 50;

export class ServedAtBroker {
  readonly #names: BrokerNames;
  readonly #onChange: () => void;
  /** Code that enumerates at the broker. */
  readonly #enumerating = new Set<string>();
  /** Code that workers outside of the broker serve (in the process or over HTTP). */
  readonly #elsewhere = new Set<string>();

  constructor(names: BrokerNames, onChange: () => void) {
    this.#names = names;
    this.#onChange = onChange;
  }

  /** The code that enumerates at the broker, in the form in which the bridge reports it to the engine. */
  get serves(): readonly Serves[] {
    return Array.from(this.#enumerating, (use) => ({ use, enumerates: true }));
  }

  /** Records code that workers outside of the broker serve. */
  noteElsewhere(serves: readonly Serves[]): void {
    for (const { use } of serves) if (this.#elsewhere.size < USES_MAX) this.#elsewhere.add(use);
  }

  /** Asks the broker whether the code enumerates there. Informs the engine about a change before it resolves. */
  async enumeratesNow(session: BrokerSession, use: string): Promise<boolean> {
    const consumers = (await session.counts(this.#names.enumerate(use)))?.consumers ?? 0;
    const has = consumers > 0;
    if (has === this.#enumerating.has(use)) return has;
    if (has) this.#enumerating.add(use);
    else this.#enumerating.delete(use);
    this.#onChange();
    return has;
  }

  /** Asks the broker again about some of the known code names. */
  async refresh(session: BrokerSession, uses: ReadonlySet<string>): Promise<void> {
    const all = [...new Set([...uses, ...this.#enumerating, ...this.#elsewhere])];
    for (const use of all.slice(0, CHECKS_MAX)) {
      // Moves the name to the end of the set, so that the next refresh checks other names first.
      if (this.#elsewhere.delete(use)) this.#elsewhere.add(use);
      if (!use.startsWith("topic:")) await this.enumeratesNow(session, use);
    }
  }
}
