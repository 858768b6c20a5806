/** The register of queues at the broker, kept in the store. The next node finds the queues by it after a crash or takeover. */
import { KEPT, object, string } from "../../std/decode.ts";
import { allDocuments, type DocumentForm, jsonForm } from "../../store/document-form.ts";
import type { Store } from "../../store/store.ts";
import { type VisitPlace, visitKey } from "../names.ts";

const VISITS = "amqp-queues";
const INTAKES = "amqp-intakes";
const TOPICS = "amqp-topics";

export interface RegisteredVisit {
  readonly place: VisitPlace;
  readonly use: string;
}

export interface RegisteredIntake {
  readonly attempt: string;
  readonly intake: string;
}

const VISIT_FORM = jsonForm<RegisteredVisit>(VISITS, object({ place: object({}, KEPT), use: string }, KEPT));
const INTAKE_FORM = jsonForm<RegisteredIntake>(INTAKES, object({ attempt: string, intake: string }, KEPT));
const TOPIC_FORM = jsonForm<{ readonly receiptTopic: string }>(
  TOPICS,
  object({ receiptTopic: string }, KEPT),
);

export class QueueRegistry {
  readonly #store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">;

  constructor(store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">) {
    this.#store = store;
  }

  putVisit(visit: RegisteredVisit): Promise<void> {
    return this.#store.putDocument(VISITS, visitKey(visit.place), JSON.stringify(visit));
  }

  removeVisit(place: VisitPlace): Promise<void> {
    return this.#store.putDocument(VISITS, visitKey(place), null);
  }

  putIntake(intake: RegisteredIntake): Promise<void> {
    return this.#store.putDocument(INTAKES, intake.attempt, JSON.stringify(intake));
  }

  removeIntake(attempt: string): Promise<void> {
    return this.#store.putDocument(INTAKES, attempt, null);
  }

  /** Registers a queue from which receipts of commands are consumed. */
  putTopic(receiptTopic: string): Promise<void> {
    return this.#store.putDocument(TOPICS, receiptTopic, JSON.stringify({ receiptTopic }));
  }

  visits(): Promise<readonly RegisteredVisit[]> {
    return this.#all(VISIT_FORM);
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

  /** Reads all documents of a form that are not damaged. */
  async #all<T>(form: DocumentForm<T>): Promise<readonly T[]> {
    const found: T[] = [];
    for await (const document of allDocuments(this.#store, form))
      if (document.damage === undefined) found.push(document.value);
    return found;
  }
}
