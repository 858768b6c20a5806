/** Documents and definitions in plain maps. They are durable at once: a simulated crash does not lose them. */
import { assertDocumentKey } from "../check-write.ts";
import type {
  DocumentRange,
  FoundDefinition,
  NamedDefinition,
  NamedDocument,
  StoredDefinition,
  Swap,
} from "../store.ts";

export class MemoryDocuments {
  /** Documents by kind, then by id. */
  readonly #documents = new Map<string, Map<string, string>>();
  readonly #definitions = new Map<string, string>();
  readonly #newestOf = new Map<string, string>();

  putDocument(kind: string, id: string, body: string | null): void {
    assertDocumentKey(kind, id);
    const ofKind = this.#documents.get(kind) ?? new Map<string, string>();
    this.#documents.set(kind, ofKind);
    if (body === null) ofKind.delete(id);
    else ofKind.set(id, body);
  }

  putDocuments(kind: string, documents: readonly NamedDocument[]): void {
    for (const { id, body } of documents) this.putDocument(kind, id, body);
  }

  deleteDocuments(kind: string, ids: readonly string[]): void {
    for (const id of ids) this.putDocument(kind, id, null);
  }

  swapDocument(kind: string, id: string, { was, body }: Swap): boolean {
    if (this.getDocument(kind, id) !== was) return false;
    this.putDocument(kind, id, body);
    return true;
  }

  getDocument(kind: string, id: string): string | null {
    return this.#documents.get(kind)?.get(id) ?? null;
  }

  listDocuments(
    kind: string,
    { after, before, descending = false, max }: DocumentRange,
  ): { id: string; body: string }[] {
    const found = [...(this.#documents.get(kind) ?? [])]
      .filter(([id]) => after === undefined || compareText(id, after) > 0)
      .filter(([id]) => before === undefined || compareText(id, before) < 0)
      .sort(([a], [b]) => compareText(a, b));
    if (descending) found.reverse();
    return found.slice(0, max).map(([id, body]) => ({ id, body }));
  }

  putDefinition(name: string, hash: string, body: string): void {
    if (!this.#definitions.has(hash)) this.#definitions.set(hash, body);
    this.#newestOf.set(name, hash);
  }

  addDefinitions(definitions: readonly NamedDefinition[]): FoundDefinition[] {
    return definitions.map(({ name, hash, body }) => {
      const newest = this.#newestOf.get(name);
      if (newest !== undefined)
        return newest === hash && this.#definitions.get(hash) === body ? "same" : "other";
      this.putDefinition(name, hash, body);
      return "none";
    });
  }

  dropDefinition(name: string, hash: string): void {
    if (this.#newestOf.get(name) === hash) this.#newestOf.delete(name);
    this.#definitions.delete(hash);
  }

  getDefinition(by: { hash: string } | { newestOf: string }): StoredDefinition | null {
    const hash = "hash" in by ? by.hash : this.#newestOf.get(by.newestOf);
    const body = hash === undefined ? undefined : this.#definitions.get(hash);
    return hash === undefined || body === undefined ? null : { hash, body };
  }

  listDefinitions(options: { after: string; max: number }): { name: string; hash: string }[] {
    return [...this.#newestOf]
      .filter(([name]) => compareText(name, options.after) > 0)
      .sort(([a], [b]) => compareText(a, b))
      .slice(0, options.max)
      .map(([name, hash]) => ({ name, hash }));
  }
}

/** Compares texts by code points, as databases do in their binary collation. */
export function compareText(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}
