/** Messages between executions whose receiver does not exist. They are kept as documents, for operators. */
import type { Message } from "../../kernel/message.ts";
import { anything, KEPT, number, object, string } from "../../std/decode.ts";
import { jsonForm } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";

/** A stored message whose receiver does not exist. */
export interface Undelivered {
  /** The id of the message, which begins with the id of its sender. */
  readonly id: string;
  readonly to: string;
  readonly at: number;
  readonly message: unknown;
}

/** The form of the documents for undelivered messages. Their ids begin with their time, so that retention can delete old ones. */
export const UNDELIVERED_FORM = jsonForm<Undelivered>(
  "undelivered",
  object({ id: string, to: string, at: number, message: anything }, KEPT),
);

/** Stores a message whose receiver does not exist, as a document. */
export function keepUndelivered(
  store: Pick<DocumentStore, "putDocument">,
  { id, to, at, message }: Undelivered & { readonly message: Message },
): Promise<void> {
  const key = `${String(at).padStart(15, "0")}-${id}`;
  return store.putDocument(UNDELIVERED_FORM.kind, key, JSON.stringify({ id, to, at, message }));
}
