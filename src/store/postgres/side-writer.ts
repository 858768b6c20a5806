/** Writes to PostgreSQL that need no fence, and purges. Each statement checks the generation of the store ($1). */
import { assertDocumentKey } from "../check-write.ts";
import { sealDocument } from "../sealed-documents.ts";
import type { FoundDefinition, NamedDefinition, NamedDocument, Swap } from "../store.ts";
import { UnreadableValue } from "./faults.ts";
import type { Value } from "./link.ts";
import type { Links } from "./links.ts";
import { orUnreadable } from "./read-apart.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const CHECKED = "check_generation_1($1) AS checked";

const STATEMENTS = {
  "put-definition": `
    WITH put AS (
      INSERT INTO definitions (hash, body) SELECT $3, $4 FROM ${CHECKED}
      ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE definitions.body <> excluded.body
    )
    INSERT INTO newest_definitions (name, hash) VALUES ($2, $3)
    ON CONFLICT (name) DO UPDATE SET hash = excluded.hash WHERE newest_definitions.hash <> excluded.hash`,
  // Names are locked in sorted order, so that two transactions cannot deadlock.
  "add-definitions": String.raw`
    WITH given AS MATERIALIZED (
      SELECT * FROM ROWS FROM (
        string_to_table($2, E'\x1f'), string_to_table($3, E'\x1f'), string_to_table($4, E'\x1f')
      ) WITH ORDINALITY AS g (name, hash, body, i), ${CHECKED}
    ), added AS (
      INSERT INTO newest_definitions (name, hash) SELECT name, hash FROM given ORDER BY name
      ON CONFLICT (name) DO NOTHING RETURNING name
    ), put AS (
      INSERT INTO definitions (hash, body)
      SELECT DISTINCT ON (g.hash) g.hash, g.body FROM given g JOIN added a ON a.name = g.name ORDER BY g.hash, g.i DESC
      ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE definitions.body <> excluded.body
    )
    SELECT CASE
      WHEN a.name IS NOT NULL THEN 'none'
      WHEN EXISTS (
        SELECT 1 FROM newest_definitions n JOIN definitions d ON d.hash = n.hash
        WHERE n.name = g.name AND n.hash = g.hash AND d.body = g.body
      ) THEN 'same'
      ELSE 'other'
    END
    FROM given g LEFT JOIN added a ON a.name = g.name ORDER BY g.i`,
  // This statement replaces a definition that the database cannot read, and therefore cannot compare.
  "replace-definition": `
    INSERT INTO definitions (hash, body) SELECT $2, $3 FROM ${CHECKED}
    ON CONFLICT (hash) DO UPDATE SET body = excluded.body`,
  "drop-definition": `
    WITH dropped AS (DELETE FROM newest_definitions USING ${CHECKED} WHERE name = $2 AND hash = $3)
    DELETE FROM definitions USING ${CHECKED} WHERE hash = $3`,
  "put-document": `
    INSERT INTO documents (kind, id, body) SELECT $2, $3, $4 FROM ${CHECKED}
    ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body`,
  // Documents are locked in the order of their ids, so that two transactions do not wait for each other.
  "put-documents": String.raw`
    INSERT INTO documents (kind, id, body)
    SELECT $2, g.id, g.body
    FROM ROWS FROM (string_to_table($3, E'\x1f'), string_to_table($4, E'\x1f')) AS g (id, body), ${CHECKED}
    ORDER BY g.id
    ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body`,
  "delete-documents": String.raw`
    WITH locked AS MATERIALIZED (
      SELECT id FROM documents, ${CHECKED}
      WHERE kind = $2 AND id = ANY (string_to_array($3, E'\x1f')) ORDER BY id FOR UPDATE OF documents
    )
    DELETE FROM documents USING locked WHERE documents.kind = $2 AND documents.id = locked.id`,
  "add-document": `
    INSERT INTO documents (kind, id, body) SELECT $2, $3, $4 FROM ${CHECKED} ON CONFLICT DO NOTHING RETURNING 1`,
  "swap-document": `
    UPDATE documents SET body = $4 FROM ${CHECKED} WHERE kind = $2 AND id = $3 AND body IN ($5, $6) RETURNING 1`,
  "delete-document": `DELETE FROM documents USING ${CHECKED} WHERE kind = $2 AND id = $3`,
  // The tasks of a dead letter are a JSON array of numbers. The remaining ones keep their order.
  "drop-dead-letter": `
    WITH left_over AS (
      SELECT n, (
        SELECT json_agg(task ORDER BY i) FROM json_array_elements(tasks::json) WITH ORDINALITY AS t (task, i)
        WHERE $3::bigint[] IS NOT NULL AND task::text::bigint <> ALL ($3::bigint[])
      ) AS tasks
      FROM dead_letters, ${CHECKED} WHERE n = $2 FOR UPDATE OF dead_letters
    ), gone AS (
      DELETE FROM dead_letters d USING left_over l WHERE d.n = l.n AND l.tasks IS NULL
    )
    UPDATE dead_letters d SET tasks = l.tasks::text FROM left_over l WHERE d.n = l.n AND l.tasks IS NOT NULL`,
  // The condition `seq < $3` lets the statement use the index, so that it reads only rows that it deletes.
  "trim-journal": `
    DELETE FROM journal USING ${CHECKED}
    WHERE e = (SELECT e FROM executions WHERE id = $2) AND seq < $3 AND seq + count <= $3`,
  // Only the owner of a partition changes heads in it, and the function checks the owner.
  forget: `
    SELECT forget_executions_1($2, $1, $3, (
      SELECT string_agg(id, E'\\x1f') FROM executions
      WHERE id = ANY (string_to_array($4, E'\\x1f')) AND want = 'nothing'
    ), $5)`,
  // If a number in `purged` belongs to an existing execution, that entry is damaged data, and the rows of the execution stay.
  "keep-living": `DELETE FROM purged p USING ${CHECKED}
    WHERE p.e > 0 AND (SELECT true FROM executions x WHERE x.e = p.e)`,
  sweep: `SELECT sweep_purged_1($2) FROM ${CHECKED}`,
} as const;

/** The most executions that one transaction of a purge removes. `ROWS_AT_ONCE` is the most rows that one sweep deletes. */
const FORGOTTEN_AT_ONCE = 100;
const ROWS_AT_ONCE = 1_000;

export class SideWriter {
  readonly #links: Links;
  readonly #generation: string;

  constructor(links: Links, generation: string) {
    this.#links = links;
    this.#generation = generation;
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    const values = [name, hash, encodeText(body)] as const;
    const put = await orUnreadable(this.#run("put-definition", values));
    if (!(put instanceof UnreadableValue)) return;
    await this.#run("replace-definition", values.slice(1));
    await this.#run("put-definition", values);
  }

  async addDefinitions(definitions: readonly NamedDefinition[]): Promise<FoundDefinition[]> {
    if (definitions.length === 0) return [];
    const found = await orUnreadable(
      this.#run<[found: FoundDefinition]>("add-definitions", [
        joinTexts(definitions.map(({ name }) => plainText(name))),
        joinTexts(definitions.map(({ hash }) => plainText(hash))),
        joinTexts(definitions.map(({ body }) => encodeText(body))),
      ]),
    );
    // The database could not read one of the stored definitions, and it is not known which one. So nothing is added.
    return found instanceof UnreadableValue ? definitions.map(() => "other") : found.map(([one]) => one);
  }

  async dropDefinition(name: string, hash: string): Promise<void> {
    await this.#run("drop-definition", [name, hash]);
  }

  async putDocument(kind: string, id: string, body: string | null): Promise<void> {
    assertDocumentKey(kind, id);
    if (body === null) await this.#run("delete-document", [kind, id]);
    else await this.#run("put-document", [kind, id, encodeText(sealDocument(kind, id, body))]);
  }

  async putDocuments(kind: string, documents: readonly NamedDocument[]): Promise<void> {
    if (documents.length === 0) return;
    for (const { id } of documents) assertDocumentKey(kind, id);
    await this.#run("put-documents", [
      kind,
      joinTexts(documents.map(({ id }) => plainText(id))),
      joinTexts(documents.map(({ id, body }) => encodeText(sealDocument(kind, id, body)))),
    ]);
  }

  async deleteDocuments(kind: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const id of ids) assertDocumentKey(kind, id);
    await this.#run("delete-documents", [kind, joinTexts(ids.map(plainText))]);
  }

  async swapDocument(kind: string, id: string, { was, body }: Swap): Promise<boolean> {
    assertDocumentKey(kind, id);
    const stored = encodeText(sealDocument(kind, id, body));
    if (was === null) return (await this.#run("add-document", [kind, id, stored])).length === 1;
    // The stored document may have no checksum, if an older version wrote it. So both forms are compared.
    const before = [encodeText(was), encodeText(sealDocument(kind, id, was))];
    const swapped = await orUnreadable(this.#run("swap-document", [kind, id, stored, ...before]));
    // A document that the database cannot read counts as different from the expected one.
    return !(swapped instanceof UnreadableValue) && swapped.length === 1;
  }

  async dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void> {
    await this.#run("drop-dead-letter", [order, tasks === null ? null : (joinNumbers(tasks) ?? "{}")]);
  }

  async trimJournal(execution: string, before: number): Promise<void> {
    await this.#run("trim-journal", [plainText(execution), before]);
  }

  /** Deletes those of the given executions that have ended and belong to this owner. */
  async forget(
    executions: readonly { readonly id: string; readonly partition: number }[],
    owner: { readonly lock: number; readonly incarnation: string },
  ): Promise<void> {
    const { lock, incarnation } = owner;
    for (let from = 0; from < executions.length; from += FORGOTTEN_AT_ONCE) {
      const some = executions.slice(from, from + FORGOTTEN_AT_ONCE);
      const ids = joinTexts(some.map(({ id }) => plainText(id)));
      const partitions = joinNumbers(some.map(({ partition }) => partition));
      await this.#run("forget", [lock, incarnation, ids, partitions]);
    }
  }

  /** Deletes the remaining rows of forgotten executions, some at a time. */
  async sweep(): Promise<void> {
    await this.#run("keep-living", []);
    for (;;) {
      const [row] = await this.#run<[rows: number]>("sweep", [ROWS_AT_ONCE]);
      if ((row?.[0] ?? 0) < ROWS_AT_ONCE) return;
    }
  }

  async #run<Row extends readonly unknown[]>(
    name: keyof typeof STATEMENTS,
    values: readonly Value[],
  ): Promise<Row[]> {
    const statement = { name, text: STATEMENTS[name] };
    return this.#links.run<Row>(statement, [this.#generation, ...values], {
      writes: true,
      remember: () => ({ kind: "document" }),
    });
  }
}
