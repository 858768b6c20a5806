/**
 * What this side has made at the broker, in the store: whoever comes after a crash or takes an execution over finds it,
 * hears what is in the queues, and removes what is of no use.
 */
import type { Store } from "../store/store.ts";
import { type DeskPlace, deskKey } from "./names.ts";

const DESKS = "amqp-queues";
const INTAKES = "amqp-intakes";
const TOPICS = "amqp-topics";
const PAGE = 500;

/** A handler of a visit with queues. */
export interface BookedDesk {
  readonly place: DeskPlace;
  /** The wire name of the code. */
  readonly use: string;
}

/** The intake of an enumeration. */
export interface BookedIntake {
  /** The attempt's id. */
  readonly attempt: string;
  readonly intake: string;
}

export class DeskBook {
  readonly #store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">;

  constructor(store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">) {
    this.#store = store;
  }

  putDesk(desk: BookedDesk): Promise<void> {
    return this.#store.putDocument(DESKS, deskKey(desk.place), JSON.stringify(desk));
  }

  removeDesk(place: DeskPlace): Promise<void> {
    return this.#store.putDocument(DESKS, deskKey(place), null);
  }

  putIntake(intake: BookedIntake): Promise<void> {
    return this.#store.putDocument(INTAKES, intake.attempt, JSON.stringify(intake));
  }

  removeIntake(attempt: string): Promise<void> {
    return this.#store.putDocument(INTAKES, attempt, null);
  }

  /** Notes a queue that receipts of commands are consumed from. */
  putTopic(receiptTopic: string): Promise<void> {
    return this.#store.putDocument(TOPICS, receiptTopic, JSON.stringify({ receiptTopic }));
  }

  desks(): Promise<readonly BookedDesk[]> {
    return this.#all<BookedDesk>(DESKS);
  }

  intakes(): Promise<readonly BookedIntake[]> {
    return this.#all<BookedIntake>(INTAKES);
  }

  topics(): Promise<readonly { readonly receiptTopic: string }[]> {
    return this.#all<{ readonly receiptTopic: string }>(TOPICS);
  }

  /** Whether receipts of commands were ever consumed from a queue. */
  async hasTopic(receiptTopic: string): Promise<boolean> {
    return (await this.#store.getDocument(TOPICS, receiptTopic)) !== null;
  }

  async #all<T>(kind: string): Promise<readonly T[]> {
    const found: T[] = [];
    for (let after = ""; ; ) {
      const page = await this.#store.listDocuments(kind, { after, max: PAGE });
      for (const { body, damage } of page) if (damage === undefined) found.push(JSON.parse(body) as T);
      if (page.length < PAGE) return found;
      after = page.at(-1)?.id ?? "";
    }
  }
}
