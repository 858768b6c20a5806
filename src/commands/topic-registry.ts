/**
 * The role of each topic in the deployment (commands or receipts). The first use of a topic decides its role, which is stored by
 * compare-and-set.
 */
import { DamagedData } from "../kernel/journal/damage.ts";
import { KEPT, object, oneOf, string } from "../std/decode.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { jsonForm, readDocument } from "../store/document-form.ts";
import type { Store } from "../store/store.ts";

export type TopicRole = "command" | "receipt";

export interface TopicUse {
  readonly name: string;
  readonly role: TopicRole;
}

interface StoredTopic {
  readonly role: TopicRole;
  /** The project that used the topic first. */
  readonly project: string;
}

const KIND = "topic";
export const TOPIC_FORM = jsonForm<StoredTopic>(
  KIND,
  object({ role: oneOf(["command", "receipt"] satisfies TopicRole[]), project: string }, KEPT),
);
/** The most topic roles that are cached. A role never changes. */
const KEPT_MAX = 10_000;

export class TopicRegistry {
  readonly #store: Pick<Store, "swapDocument" | "getDocument">;
  readonly #known = new Map<string, StoredTopic>();

  constructor(store: Pick<Store, "swapDocument" | "getDocument">) {
    this.#store = store;
  }

  /** Returns why one of the topics cannot have its role; null if each topic has that role, or none yet. */
  async check(uses: readonly TopicUse[]): Promise<Rejection | null> {
    for (const use of uses) {
      const stored = this.#known.get(use.name) ?? (await this.#read(use.name));
      const refusal = this.#refusal(use, stored);
      if (refusal !== null) return refusal;
    }
    return null;
  }

  /** Stores the roles of the topics for good. Returns a rejection if a topic has the other role already. */
  async claim(uses: readonly TopicUse[], project: string): Promise<Rejection | null> {
    // If one topic is refused, the roles of the others are not stored either.
    const refusal = await this.check(uses);
    if (refusal !== null) return refusal;
    for (const use of uses) {
      if (this.#known.has(use.name)) continue;
      const topic: StoredTopic = { role: use.role, project };
      const isFirst = await this.#store.swapDocument(KIND, use.name, {
        was: null,
        body: JSON.stringify(topic),
      });
      const stored = isFirst ? this.#keep(use.name, topic) : await this.#read(use.name);
      const late = this.#refusal(use, stored);
      if (late !== null) return late;
    }
    return null;
  }

  #refusal({ name, role }: TopicUse, stored: StoredTopic | DamagedData | null): Rejection | null {
    if (stored instanceof DamagedData)
      return reject(
        "wrong_status",
        `the stored role of the topic "${name}" cannot be read: ${stored.message}`,
        {
          path: role === "command" ? "topic" : "receiptTopic",
          hint: "to derive the role again from the definitions that use the topic: rondo audit --repair",
        },
      );
    if (stored === null || stored.role === role) return null;
    const [is, cannot] =
      role === "command"
        ? ["receipts are sent to this topic", "commands cannot be sent to it"]
        : ["commands are sent to this topic", "receipts cannot be sent to it"];
    return reject(
      "invalid_input",
      `"${name}" is a ${stored.role} topic since its first use: ${is}, so ${cannot}`,
      { path: role === "command" ? "topic" : "receiptTopic", hint: "choose another name" },
    );
  }

  async #read(name: string): Promise<StoredTopic | DamagedData | null> {
    try {
      const topic = await readDocument(this.#store, TOPIC_FORM, name);
      return topic === null ? null : this.#keep(name, topic);
    } catch (thrown) {
      if (thrown instanceof DamagedData) return thrown;
      throw thrown;
    }
  }

  #keep(name: string, topic: StoredTopic): StoredTopic {
    if (this.#known.size >= KEPT_MAX) this.#known.clear();
    this.#known.set(name, topic);
    return topic;
  }
}

/** Returns the topics that a command uses, with their roles. */
export function usesOf({
  topic,
  receiptTopic,
}: {
  readonly topic: string;
  readonly receiptTopic: string;
}): TopicUse[] {
  return [
    { name: topic, role: "command" },
    { name: receiptTopic, role: "receipt" },
  ];
}
