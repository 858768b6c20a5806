/**
 * Reads of what is not an execution: letters, logs, dead letters, documents, definitions; and which executions have
 * ended. As in read-statements.ts, no statement walks over more rows than it answers with. Dead letters of an
 * execution that is being purged are there for a while and are passed over.
 */
import { unpackLog } from "../packed-log.ts";
import { readTasks } from "../read-tags.ts";
import { listedDocument, openDocument } from "../sealed-documents.ts";
import type {
  HeadFilter,
  Partitions,
  StoredDeadLetter,
  StoredDocument,
  StoredLetter,
  StoredLogRow,
} from "../store.ts";
import type { Links } from "./links.ts";
import { LAST, limit, partitionsValue } from "./reader.ts";
import { decodeText } from "./text.ts";

const DEAD = "d.n, x.id, d.seq, x.project, x.workflow, d.tasks";

/** The distinct (project, workflow) groups that have dead letters, of all projects or of $1. */
function deadOfGroups(ofProject: boolean): string {
  const first = ofProject ? "WHERE project = $1" : "";
  const next = ofProject
    ? "project = $1 AND workflow > g.workflow"
    : "(project, workflow) > (g.project, g.workflow)";
  return `WITH RECURSIVE groups AS (
      (SELECT project, workflow FROM dead_letters ${first} ORDER BY project, workflow LIMIT 1)
      UNION ALL
      SELECT n.project, n.workflow FROM groups g CROSS JOIN LATERAL (
        SELECT project, workflow FROM dead_letters WHERE ${next} ORDER BY project, workflow LIMIT 1
      ) n
    )
    SELECT d.n, d.id, d.seq, d.project, d.workflow, d.tasks FROM groups g CROSS JOIN LATERAL (
      SELECT ${DEAD} FROM dead_letters d JOIN executions x ON x.e = d.e
      WHERE d.project = g.project AND d.workflow = g.workflow AND d.n < $3 ORDER BY d.n DESC LIMIT $4
    ) d
    WHERE ($1::text IS NULL OR g.project = $1) AND ($2::text IS NULL OR g.workflow = $2)
    ORDER BY d.n DESC LIMIT $4`;
}

export const RECORD_READS = {
  letters: `
    SELECT n, id, recipient, body FROM letters WHERE n > $1 AND ($2::int[] IS NULL OR partition = ANY ($2))
    ORDER BY n LIMIT $3`,
  logs: `
    SELECT l.n, l.attempt, l.body FROM executions x JOIN logs l ON l.e = x.e
    WHERE x.id = $1 AND l.n > $2 ORDER BY l.n LIMIT $3`,
  dead: `
    SELECT ${DEAD} FROM dead_letters d JOIN executions x ON x.e = d.e WHERE d.n < $1 ORDER BY d.n DESC LIMIT $2`,
  "dead-of-execution": `
    SELECT ${DEAD} FROM executions x JOIN dead_letters d ON d.e = x.e
    WHERE x.id = $3 AND ($1::text IS NULL OR x.project = $1) AND ($2::text IS NULL OR x.workflow = $2) AND d.n < $4
    ORDER BY d.n DESC LIMIT $5`,
  "dead-of-groups": deadOfGroups(false),
  "dead-of-project": deadOfGroups(true),
  counts: `
    SELECT status, sum(n)::bigint FROM head_counts
    WHERE ($1::text IS NULL OR project = $1) AND ($2::text IS NULL OR workflow = $2) GROUP BY status`,
  ended: `
    SELECT id FROM executions WHERE finished_at IS NOT NULL AND finished_at < $1 AND want = 'nothing'
    ORDER BY finished_at, e LIMIT $2`,
  document: "SELECT body FROM documents WHERE kind = $1 AND id = $2",
  documents: "SELECT id, body FROM documents WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3",
  "documents-until":
    "SELECT id, body FROM documents WHERE kind = $1 AND id > $2 AND id < $4 ORDER BY id LIMIT $3",
  "documents-down": "SELECT id, body FROM documents WHERE kind = $1 AND id > $2 ORDER BY id DESC LIMIT $3",
  "documents-down-from":
    "SELECT id, body FROM documents WHERE kind = $1 AND id > $2 AND id < $4 ORDER BY id DESC LIMIT $3",
  definition: "SELECT hash, body FROM definitions WHERE hash = $1",
  "newest-definition": `
    SELECT d.hash, d.body FROM newest_definitions n JOIN definitions d ON d.hash = n.hash WHERE n.name = $1`,
  clock: "SELECT now_ms_1()",
  definitions: "SELECT name, hash FROM newest_definitions WHERE name > $1 ORDER BY name LIMIT $2",
} as const;

type DeadRow = readonly [
  n: number,
  id: string,
  seq: number,
  project: string,
  workflow: string,
  tasks: string,
];

export class RecordReader {
  readonly #links: Links;

  constructor(links: Links) {
    this.#links = links;
  }

  /** The database's clock. */
  async now(): Promise<number> {
    const [row] = await this.#read<[now: number]>("clock", []);
    return (row as [now: number])[0];
  }

  async scanLetters(options: {
    after: number;
    max: number;
    partitions: Partitions;
  }): Promise<StoredLetter[]> {
    const rows = await this.#read<[n: number, id: string, to: string, body: string]>("letters", [
      options.after,
      partitionsValue(options.partitions),
      limit(options.max),
    ]);
    return rows.map(([order, id, to, body]) => ({ order, id, to, body: decodeText(body) }));
  }

  async readLogs(options: { execution: string; after: number; rowsMax: number }): Promise<StoredLogRow[]> {
    const { execution, after, rowsMax } = options;
    const rows = await this.#read<[n: number, attempt: string, body: string]>("logs", [
      execution,
      after,
      limit(rowsMax),
    ]);
    return rows.map(([order, attempt, body]) => unpackLog({ order, attempt, body: decodeText(body) }));
  }

  async listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): Promise<StoredDeadLetter[]> {
    const { project = null, workflow = null, execution } = filter;
    const page = [options.before ?? LAST, limit(options.max)];
    const rows = await (() => {
      if (execution !== undefined)
        return this.#read<DeadRow>("dead-of-execution", [project, workflow, execution, ...page]);
      if (project !== null) return this.#read<DeadRow>("dead-of-project", [project, workflow, ...page]);
      if (workflow !== null) return this.#read<DeadRow>("dead-of-groups", [project, workflow, ...page]);
      return this.#read<DeadRow>("dead", page);
    })();
    return rows.map(([order, id, seq, ofProject, ofWorkflow, tasks]) => ({
      order,
      execution: id,
      seq,
      project: ofProject,
      workflow: ofWorkflow,
      tasks: readTasks(tasks) ?? [],
    }));
  }

  async countHeads({ project, workflow }: Omit<HeadFilter, "status">): Promise<Record<string, number>> {
    const rows = await this.#read<[status: string, n: number]>("counts", [project ?? null, workflow ?? null]);
    return Object.fromEntries(
      rows.map(([status, n]) => [status, Number(n)] as const).filter(([, n]) => n > 0),
    );
  }

  async listEnded(options: { finishedBefore: number; max: number }): Promise<string[]> {
    const before = Math.min(options.finishedBefore, LAST);
    return (await this.#read<[id: string]>("ended", [before, limit(options.max)])).map(([id]) => id);
  }

  async getDocument(kind: string, id: string): Promise<string | null> {
    const [row] = await this.#read<[body: string]>("document", [kind, id]);
    return row === undefined ? null : openDocument(kind, id, decodeText(row[0]));
  }

  async listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): Promise<StoredDocument[]> {
    const { after = "", before, descending = false, max } = options;
    const values = [kind, after, limit(max)];
    const rows = await (before === undefined
      ? this.#read<[id: string, body: string]>(descending ? "documents-down" : "documents", values)
      : this.#read<[id: string, body: string]>(descending ? "documents-down-from" : "documents-until", [
          ...values,
          before,
        ]));
    return rows.map(([id, body]) => listedDocument(kind, { id, body: decodeText(body) }));
  }

  async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<{ hash: string; body: string } | null> {
    const [row] = await ("hash" in by
      ? this.#read<[hash: string, body: string]>("definition", [by.hash])
      : this.#read<[hash: string, body: string]>("newest-definition", [by.newestOf]));
    return row === undefined ? null : { hash: row[0], body: decodeText(row[1]) };
  }

  async listDefinitions(options: { after: string; max: number }): Promise<{ name: string; hash: string }[]> {
    const rows = await this.#read<[name: string, hash: string]>("definitions", [
      options.after,
      limit(options.max),
    ]);
    return rows.map(([name, hash]) => ({ name, hash }));
  }

  #read<Row extends readonly unknown[]>(
    name: keyof typeof RECORD_READS,
    values: readonly (string | number | null)[],
  ): Promise<Row[]> {
    return this.#links.run<Row>({ name: `record ${name}`, text: RECORD_READS[name] }, values);
  }
}
