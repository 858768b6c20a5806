/** The open commands of this node, by topic and by handler of a visit. */
import type { Clock } from "../../std/clock.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import { overflowOf } from "./lost-commands.ts";
import type { ReceiptTopics } from "./receipt-topics.ts";
import { type Command, newTopic, type Topic } from "./topic.ts";

export class OpenCommands {
  readonly topics = new Map<string, Topic>();
  /** By handler of a visit: the keys of its commands, with their topics. */
  readonly #places = new Map<string, Map<string, Topic>>();
  readonly #receipts: Pick<ReceiptTopics, "add" | "remove" | "mayHaveMore">;
  readonly #clock: Clock;

  constructor(receipts: Pick<ReceiptTopics, "add" | "remove" | "mayHaveMore">, clock: Clock) {
    this.#receipts = receipts;
    this.#clock = clock;
  }

  topic(name: string): Topic {
    let topic = this.topics.get(name);
    if (topic === undefined) {
      topic = newTopic(name, this.#clock.now());
      this.topics.set(name, topic);
    }
    return topic;
  }

  add(topic: Topic, key: string, command: Command): void {
    topic.open.set(key, command);
    const place = visitKey(command.at);
    const keys = this.#places.get(place) ?? new Map<string, Topic>();
    this.#places.set(place, keys.set(key, topic));
    this.#receipts.add(command.receiptTopic, key, command.project);
  }

  remove(topic: Topic, key: string): Command | null {
    const command = topic.open.get(key);
    if (command === undefined) return null;
    topic.open.delete(key);
    const place = visitKey(command.at);
    const keys = this.#places.get(place);
    keys?.delete(key);
    if (keys?.size === 0) this.#places.delete(place);
    this.#receipts.remove(command.receiptTopic, key);
    return command;
  }

  /** The visit of a handler is over: none of its commands is open any more. */
  removeAll(place: VisitPlace): void {
    for (const [key, topic] of [...(this.#places.get(visitKey(place)) ?? [])]) this.remove(topic, key);
  }

  /** Forgets the oldest commands of a topic that has too many. */
  forgetOldest(topic: Topic): void {
    for (const [key, { receiptTopic }] of overflowOf(topic)) {
      this.#receipts.mayHaveMore(receiptTopic);
      this.remove(topic, key);
    }
  }
}
