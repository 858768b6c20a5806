/** Reads stored documents. Each kind of document has one parser. A document that is not JSON, or has another shape, counts as damaged. */
import { DamagedData, describeDamage } from "../kernel/journal/damage.ts";
import { type Decode, Undecodable } from "../std/decode.ts";
import type { Store, StoredDocument } from "./store.ts";

export interface DocumentForm<T> {
  readonly kind: string;
  /** Parses the body of a document; throws if it has another shape. */
  readonly parse: (body: string) => T;
}

/** A document in a list: its content, or why it cannot be read. */
export type ReadDocument<T> =
  | { readonly id: string; readonly body: string; readonly value: T; readonly damage?: never }
  | { readonly id: string; readonly body: string; readonly damage: string };

const PAGE = 500;

export function jsonForm<T>(kind: string, read: Decode<unknown>): DocumentForm<T> {
  return { kind, parse: (body) => read(JSON.parse(body)) as T };
}

/** Parses the body of a document; throws `DamagedData` if it cannot be read. */
export function parseDocument<T>(form: DocumentForm<T>, id: string, body: string): T {
  const read = listed(form, { id, body });
  if (read.damage === undefined) return read.value;
  throw damaged(form.kind, read);
}

/** Reads the content of a stored document; null if the document does not exist. Throws `DamagedData` if it cannot be read. */
export async function readDocument<T>(
  store: Pick<Store, "getDocument">,
  form: DocumentForm<T>,
  id: string,
): Promise<T | null> {
  const body = await store.getDocument(form.kind, id);
  return body === null ? null : parseDocument(form, id, body);
}

export async function listDocuments<T>(
  store: Pick<Store, "listDocuments">,
  form: DocumentForm<T>,
  options: Parameters<Store["listDocuments"]>[1],
): Promise<readonly ReadDocument<T>[]> {
  return (await store.listDocuments(form.kind, options)).map((document) => listed(form, document));
}

export async function* allDocuments<T>(
  store: Pick<Store, "listDocuments">,
  form: DocumentForm<T>,
  after = "",
): AsyncGenerator<ReadDocument<T>> {
  for (let last = after; ; ) {
    const page = await listDocuments(store, form, { after: last, max: PAGE });
    yield* page;
    if (page.length < PAGE) return;
    last = page.at(-1)?.id ?? "";
  }
}

export function damaged(
  kind: string,
  { id, damage }: { readonly id: string; readonly damage: string },
): DamagedData {
  return new DamagedData({ table: "documents", execution: null, row: `${kind}/${id}`, why: damage });
}

/** Returns one sentence that describes a damaged document. */
export function describeDamaged(kind: string, document: { readonly id: string; readonly damage: string }) {
  return describeDamage(damaged(kind, document).damage);
}

function listed<T>({ parse }: DocumentForm<T>, { id, body, damage }: StoredDocument): ReadDocument<T> {
  if (damage !== undefined) return { id, body, damage };
  try {
    return { id, body, value: parse(body) };
  } catch (thrown) {
    return { id, body, damage: whyDamaged(thrown as Error) };
  }
}

function whyDamaged(thrown: Error): string {
  if (thrown instanceof SyntaxError) return "the document is not JSON";
  return thrown instanceof Undecodable
    ? `the document is JSON, but does not have the shape that Rondo writes (${thrown.at()})`
    : thrown.message;
}
