/** Writes to SQLite that need no fence: definitions, documents, and the removal of dead letters. */
import { assertDocumentKey } from "../check-write.ts";
import { readTasks } from "../read-tags.ts";
import { openDocument, sealDocument } from "../sealed-documents.ts";
import type { FoundDefinition, NamedDefinition, NamedDocument, Swap } from "../store.ts";
import type { Checkpoints } from "./checkpoints.ts";
import {
  type Bytes,
  type Connection,
  prepareAll,
  type Statement,
  text,
  textOf,
  textValue,
} from "./driver.ts";
import { inTransaction } from "./in-transaction.ts";

export class SideWriter {
  readonly #connection: Connection;
  readonly #checkpoints: Checkpoints;
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;

  constructor(connection: Connection, checkpoints: Checkpoints) {
    this.#connection = connection;
    this.#checkpoints = checkpoints;
    this.#statements = prepareAll(connection, STATEMENTS);
  }

  putDefinition(name: string, hash: string, body: string): void {
    this.#write(body.length, () => {
      this.#statements.definition.run([hash, textValue(body)]);
      this.#statements.newestDefinition.run([name, hash]);
    });
  }

  addDefinitions(definitions: readonly NamedDefinition[]): FoundDefinition[] {
    if (definitions.length === 0) return [];
    const chars = definitions.reduce((sum, { body }) => sum + body.length, 0);
    return this.#write(chars, () => definitions.map((one) => this.#addDefinition(one)), definitions.length);
  }

  #addDefinition({ name, hash, body }: NamedDefinition): FoundDefinition {
    const value = textValue(body);
    const newest = this.#statements.newestHash.get<{ hash: string }>([name]);
    if (newest !== undefined) {
      const isSame = newest.hash === hash && this.#statements.isDefinition.get([hash, value]) !== undefined;
      return isSame ? "same" : "other";
    }
    this.#statements.definition.run([hash, value]);
    this.#statements.newestDefinition.run([name, hash]);
    return "none";
  }

  dropDefinition(name: string, hash: string): void {
    this.#write(0, () => {
      this.#statements.dropNewest.run([name, hash]);
      this.#statements.dropDefinition.run([hash]);
    });
  }

  putDocument(kind: string, id: string, body: string | null): void {
    if (body === null) this.deleteDocuments(kind, [id]);
    else this.putDocuments(kind, [{ id, body }]);
  }

  putDocuments(kind: string, documents: readonly NamedDocument[]): void {
    if (documents.length === 0) return;
    for (const { id } of documents) assertDocumentKey(kind, id);
    const chars = documents.reduce((sum, { body }) => sum + body.length, 0);
    const put = ({ id, body }: NamedDocument) =>
      this.#statements.document.run([kind, id, textValue(sealDocument(kind, id, body))]);
    this.#write(chars, () => documents.map(put), documents.length);
  }

  deleteDocuments(kind: string, ids: readonly string[]): void {
    if (ids.length === 0) return;
    for (const id of ids) assertDocumentKey(kind, id);
    this.#write(0, () => ids.map((id) => this.#statements.deleteDocument.run([kind, id])), ids.length);
  }

  swapDocument(kind: string, id: string, { was, body }: Swap): boolean {
    assertDocumentKey(kind, id);
    return this.#write(body.length, () => {
      const found = this.#statements.documentOf.get<{ body: Bytes }>([kind, id]);
      const stored = found === undefined ? null : openDocument(kind, id, textOf(found.body));
      if (stored !== was) return false;
      this.#statements.document.run([kind, id, textValue(sealDocument(kind, id, body))]);
      return true;
    });
  }

  dropDeadLetter(order: number, dropped: readonly number[] | null): void {
    this.#write(1, () => {
      const found = this.#statements.tasksOfDeadLetter.get<{ tasks: Bytes }>([order]);
      if (found === undefined) return;
      const tasks = readTasks(textOf(found.tasks)) ?? [];
      const gone = new Set(dropped ?? tasks);
      const left = tasks.filter((task) => !gone.has(task));
      if (left.length === 0) this.#statements.deleteDeadLetter.run([order]);
      else this.#statements.changeDeadLetter.run([JSON.stringify(left), order]);
    });
  }

  trimJournal(execution: string, before: number): void {
    this.#write(1, () => this.#statements.trimJournal.run([execution, before]));
  }

  /** Runs a transaction that writes about `chars` characters. */
  #write<T>(chars: number, write: () => T, rows = 1): T {
    const written = inTransaction(this.#connection, write);
    this.#checkpoints.note(rows, chars);
    return written;
  }
}

const STATEMENTS = {
  definition:
    "INSERT INTO definitions VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body WHERE body <> excluded.body",
  newestDefinition: "INSERT OR REPLACE INTO newest_definitions VALUES (?, ?)",
  newestHash: "SELECT hash FROM newest_definitions WHERE name = ?",
  isDefinition: "SELECT 1 FROM definitions WHERE hash = ? AND body = ?",
  dropDefinition: "DELETE FROM definitions WHERE hash = ?",
  dropNewest: "DELETE FROM newest_definitions WHERE name = ? AND hash = ?",
  document: "INSERT OR REPLACE INTO documents VALUES (?, ?, ?)",
  documentOf: `SELECT ${text("body")} AS body FROM documents WHERE kind = ? AND id = ?`,
  deleteDocument: "DELETE FROM documents WHERE kind = ? AND id = ?",
  tasksOfDeadLetter: `SELECT ${text("tasks")} AS tasks FROM dead_letters WHERE row = ?`,
  changeDeadLetter: "UPDATE dead_letters SET tasks = ? WHERE row = ?",
  trimJournal:
    "DELETE FROM journal WHERE e = (SELECT e FROM executions WHERE id = ?) AND seq < ?2 AND seq + count <= ?2",
  deleteDeadLetter: "DELETE FROM dead_letters WHERE row = ?",
} as const;
