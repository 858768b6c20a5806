/** Finds and repairs journals without heads and workflows without a newest definition (store/lost-heads.ts). */
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import { firstHead, lostDefinition, lostHead } from "../lost-heads.ts";
import type { Head, TableFinding } from "../store.ts";
import {
  type Bytes,
  type Connection,
  integer,
  isText,
  prepareAll,
  type Statement,
  text,
  textOf,
} from "./driver.ts";

/** The only partition of an embedded store. */
const PARTITIONS = 1;
/**
 * The epoch of a restored head. It is older than every unclean epoch, so tasks that may have started before are treated as
 * possibly running.
 */
const OLDEST_EPOCH = 0;

export class LostHeads {
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>;

  constructor(connection: Connection) {
    this.#statements = prepareAll(connection, STATEMENTS);
  }

  audit({ repair }: { readonly repair: boolean }): TableFinding[] {
    return this.#statements.orphans.all<{ e: number }>([]).map(({ e }) => {
      const head = firstHead(this.#first(e), PARTITIONS);
      return lostHead(e, head, repair && typeof head !== "string" && this.#put(e, head));
    });
  }

  auditDefinitions({ repair }: { readonly repair: boolean }): TableFinding[] {
    const { undefinedNames, point } = this.#statements;
    return undefinedNames.all<{ name: Bytes; hash: Bytes; body: Bytes }>([]).flatMap((row) => {
      const lost = { name: textOf(row.name), hash: textOf(row.hash), body: textOf(row.body) };
      const finding = lostDefinition(lost, repair);
      if (repair && finding !== null) point.run([lost.name, lost.hash]);
      return finding ?? [];
    });
  }

  #first(e: number): Entry | null {
    type Row = Omit<Entry, "body"> & { readonly body: Bytes };
    const row = this.#statements.first.get<Row>([e]);
    return row === undefined || !isText(row.body) ? null : { ...row, body: textOf(row.body) };
  }

  /** Writes the head of an execution. Returns false if another execution has the same id by now. */
  #put(e: number, head: Head): boolean {
    const { id, partition, workflow, hash, project, status, phase, want, priority } = head;
    const { createdAt, finishedAt, tags, error } = head;
    const values = [e, id, partition, workflow, hash, project, status, phase, want, priority];
    const rest = [createdAt, finishedAt, JSON.stringify(tags), error, OLDEST_EPOCH];
    return this.#statements.put.run([...values, ...rest]) > 0;
  }
}

const STATEMENTS = {
  // The query needs one index seek for each execution, instead of one for each row.
  orphans: `WITH RECURSIVE journals (e) AS (
        SELECT min(e) FROM journal
        UNION ALL SELECT (SELECT min(j.e) FROM journal j WHERE j.e > journals.e) FROM journals WHERE e IS NOT NULL
      )
      SELECT ${integer("e")} AS e FROM journals WHERE e IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM executions x WHERE x.e = journals.e)
        AND NOT EXISTS (SELECT 1 FROM purged p WHERE p.e = journals.e)`,
  first: `SELECT ${integer("seq")} AS seq, ${integer("count")} AS count, ${integer("at")} AS at, ${text("body")} AS body
      FROM journal WHERE e = ? AND seq = 1`,
  put: "INSERT INTO executions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
  undefinedNames: `SELECT ${text("x.workflow")} AS name, ${text("d.hash")} AS hash, ${text("d.body")} AS body
      FROM (
        SELECT workflow, max(e) AS e FROM executions WHERE hash IN (SELECT hash FROM definitions) GROUP BY workflow
      ) AS w JOIN executions x ON x.e = w.e JOIN definitions d ON d.hash = x.hash
      WHERE NOT EXISTS (
        SELECT 1 FROM newest_definitions n JOIN definitions o ON o.hash = n.hash WHERE n.name = w.workflow
      )`,
  point: "INSERT OR REPLACE INTO newest_definitions VALUES (?, ?)",
} as const;
