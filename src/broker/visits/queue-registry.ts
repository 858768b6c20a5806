/**
 * What this side has made at the broker, in the store: whoever comes after a crash or takes an execution over finds it,
 * hears what is in the queues, and removes what is of no use.
 */
import { allDocuments, type DocumentForm, fields, isText, jsonForm } from "../../store/document-form.ts";
import type { Store } from "../../store/store.ts";
import { deskKey, type VisitPlace } from "../names.ts";

const DESKS = "amqp-queues";
const INTAKES = "amqp-intakes";
const TOPICS = "amqp-topics";

/** A handler of a visit with queues. */
export interface RegisteredVisit {
  readonly place: VisitPlace;
  /** The wire name of the code. */
  readonly use: string;
}

/** The intake of an enumeration. */
export interface RegisteredIntake {
  /** The attempt's id. */
  readonly attempt: string;
  readonly intake: string;
}

const DESK_FORM = jsonForm<RegisteredVisit>(DESKS, fields({ place: fields({}), use: isText }));
const INTAKE_FORM = jsonForm<RegisteredIntake>(INTAKES, fields({ attempt: isText, intake: isText }));
const TOPIC_FORM = jsonForm<{ readonly receiptTopic: string }>(TOPICS, fields({ receiptTopic: isText }));

export class QueueRegistry {
  readonly #store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">;

  constructor(store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">) {
    this.#store = store;
  }

  putDesk(desk: RegisteredVisit): Promise<void> {
    return this.#store.putDocument(DESKS, deskKey(desk.place), JSON.stringify(desk));
  }

  removeDesk(place: VisitPlace): Promise<void> {
    return this.#store.putDocument(DESKS, deskKey(place), null);
  }

  putIntake(intake: RegisteredIntake): Promise<void> {
    return this.#store.putDocument(INTAKES, intake.attempt, JSON.stringify(intake));
  }

  removeIntake(attempt: string): Promise<void> {
    return this.#store.putDocument(INTAKES, attempt, null);
  }

  /** Notes a queue that receipts of commands are consumed from. */
  putTopic(receiptTopic: string): Promise<void> {
    return this.#store.putDocument(TOPICS, receiptTopic, JSON.stringify({ receiptTopic }));
  }

  desks(): Promise<readonly RegisteredVisit[]> {
    return this.#all(DESK_FORM);
  }

  intakes(): Promise<readonly RegisteredIntake[]> {
    return this.#all(INTAKE_FORM);
  }

  topics(): Promise<readonly { readonly receiptTopic: string }[]> {
    return this.#all(TOPIC_FORM);
  }

  /** Whether receipts of commands were ever consumed from a queue. */
  async hasTopic(receiptTopic: string): Promise<boolean> {
    return (await this.#store.getDocument(TOPICS, receiptTopic)) !== null;
  }

  /** Those that can be read. */
  async #all<T>(form: DocumentForm<T>): Promise<readonly T[]> {
    const found: T[] = [];
    for await (const document of allDocuments(this.#store, form))
      if (document.damage === undefined) found.push(document.value);
    return found;
  }
}
