/**
 * Reads everything in PostgreSQL except executions: documents, definitions, logs, dead letters, mail. It also lists executions
 * that have ended.
 */
import { DamagedData } from "../../kernel/journal/damage.ts";
import { damagedLog, unpackLog } from "../packed-log.ts";
import { readTasks } from "../read-tags.ts";
import { listedDocument, openDocument } from "../sealed-documents.ts";
import type {
  DeadLetterFilter,
  DocumentRange,
  EndedRange,
  HeadFilter,
  LogRange,
  MailScan,
  Page,
  StoredDeadLetter,
  StoredDefinition,
  StoredDocument,
  StoredLogRow,
  StoredMailboxMessage,
} from "../store.ts";
import { garbled, UnreadableValue } from "./faults.ts";
import type { Links } from "./links.ts";
import { orUnreadable, type ReadText, textsApart } from "./read-apart.ts";
import { LAST, limit, partitionsValue } from "./reader.ts";
import { decodeText } from "./text.ts";

const DEAD = "d.n, x.id, d.seq, x.project, x.workflow, d.tasks";
const NARROW_DEAD = "d.n, x.id, d.seq, x.project, x.workflow, NULL AS tasks";

/** SQL for the distinct (project, workflow) groups that have dead letters, of all projects or of the project $1. */
function deadOfGroups(ofProject: boolean, columns = DEAD): string {
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
      SELECT ${columns} FROM dead_letters d JOIN executions x ON x.e = d.e
      WHERE d.project = g.project AND d.workflow = g.workflow AND d.n < $3 ORDER BY d.n DESC LIMIT $4
    ) d
    WHERE ($1::text IS NULL OR g.project = $1) AND ($2::text IS NULL OR g.workflow = $2)
    ORDER BY d.n DESC LIMIT $4`;
}

function mail(body: string): string {
  return `
    SELECT n, id, recipient, ${body} FROM letters WHERE n > $1 AND ($2::int[] IS NULL OR partition = ANY ($2))
    ORDER BY n LIMIT $3`;
}

function logs(body: string): string {
  return `
    SELECT l.n, l.attempt, ${body} FROM executions x JOIN logs l ON l.e = x.e
    WHERE x.id = $1 AND l.n > $2 ORDER BY l.n LIMIT $3`;
}

function dead(columns: string): string {
  return `
    SELECT ${columns} FROM dead_letters d JOIN executions x ON x.e = d.e WHERE d.n < $1 ORDER BY d.n DESC LIMIT $2`;
}

function deadOfExecution(columns: string): string {
  return `
    SELECT ${columns} FROM executions x JOIN dead_letters d ON d.e = x.e
    WHERE x.id = $3 AND ($1::text IS NULL OR x.project = $1) AND ($2::text IS NULL OR x.workflow = $2) AND d.n < $4
    ORDER BY d.n DESC LIMIT $5`;
}

/** Returns SQL that reads documents of a kind; `bounds` and `order` are parts of that SQL. */
function documents(body: string, bounds: string, order: "ASC" | "DESC"): string {
  return `SELECT id, ${body} FROM documents WHERE kind = $1 AND id > $2 ${bounds} ORDER BY id ${order} LIMIT $3`;
}

const BEFORE = "AND id < $4";

export const RECORD_READS = {
  mail: mail("body"),
  logs: logs("l.body"),
  dead: dead(DEAD),
  "dead-of-execution": deadOfExecution(DEAD),
  "dead-of-groups": deadOfGroups(false),
  "dead-of-project": deadOfGroups(true),
  counts: `
    SELECT status, sum(n)::bigint FROM head_counts
    WHERE ($1::text IS NULL OR project = $1) AND ($2::text IS NULL OR workflow = $2) GROUP BY status`,
  waiting: `
    SELECT coalesce(sum(n), 0)::bigint FROM waiting_counts
    WHERE ($1::text IS NULL OR project = $1) AND ($2::text IS NULL OR workflow = $2)`,
  ended: `
    SELECT id FROM executions WHERE finished_at IS NOT NULL AND finished_at < $1 AND finished_at >= $3
    AND want = 'nothing' AND ($4::text = '' OR status = $4) ORDER BY finished_at, e LIMIT $2`,
  document: "SELECT body FROM documents WHERE kind = $1 AND id = $2",
  documents: documents("body", "", "ASC"),
  "documents-until": documents("body", BEFORE, "ASC"),
  "documents-down": documents("body", "", "DESC"),
  "documents-down-from": documents("body", BEFORE, "DESC"),
  definition: "SELECT hash, body FROM definitions WHERE hash = $1",
  "newest-definition": `
    SELECT d.hash, d.body FROM newest_definitions n JOIN definitions d ON d.hash = n.hash WHERE n.name = $1`,
  clock: "SELECT now_ms_1()",
  definitions: "SELECT name, hash FROM newest_definitions WHERE name > $1 ORDER BY name LIMIT $2",
} as const;

/** Statements without the large values, used if the database cannot read one of them (read-apart.ts). */
const NARROW_READS = {
  mail: mail("NULL"),
  logs: logs("NULL"),
  dead: dead(NARROW_DEAD),
  "dead-of-execution": deadOfExecution(NARROW_DEAD),
  "dead-of-groups": deadOfGroups(false, NARROW_DEAD),
  "dead-of-project": deadOfGroups(true, NARROW_DEAD),
  documents: documents("NULL", "", "ASC"),
  "documents-until": documents("NULL", BEFORE, "ASC"),
  "documents-down": documents("NULL", "", "DESC"),
  "documents-down-from": documents("NULL", BEFORE, "DESC"),
  definition: "SELECT hash, NULL FROM definitions WHERE hash = $1",
  "newest-definition": "SELECT hash, NULL FROM newest_definitions WHERE name = $1",
} as const;

/** Statements that read the large values by the keys of their rows. */
const TEXTS = {
  mail: "SELECT n, body FROM letters WHERE n = ANY ($1::bigint[])",
  logs: "SELECT l.n, l.body FROM executions x JOIN logs l ON l.e = x.e WHERE x.id = $2 AND l.n = ANY ($1::bigint[])",
  dead: "SELECT n, tasks FROM dead_letters WHERE n = ANY ($1::bigint[])",
  documents: String.raw`SELECT id, body FROM documents WHERE kind = $2 AND id = ANY (string_to_array($1, E'\x1f'))`,
  definitions: String.raw`SELECT hash, body FROM definitions WHERE hash = ANY (string_to_array($1, E'\x1f'))`,
} as const;

/** The statement of `TEXTS` that reads the large values, and its values other than the keys. */
interface Large {
  readonly texts: keyof typeof TEXTS;
  readonly values?: readonly string[];
}

type DeadRow = readonly [n: number, id: string, seq: number, project: string, workflow: string];

export class RecordReader {
  readonly #links: Links;
  readonly #settled: () => Promise<void>;

  /** `settled` resolves when the outcome of every commit of this node is known, as in reader.ts. */
  constructor(links: Links, settled: () => Promise<void>) {
    this.#links = links;
    this.#settled = settled;
  }

  async now(): Promise<number> {
    const [row] = await this.#read<[now: number]>("clock", []);
    // A changed byte in the answer can hide the row.
    if (row === undefined) throw garbled(new Error("the clock has no row"), { sent: true, writes: false });
    return row[0];
  }

  async scanMail(options: MailScan): Promise<StoredMailboxMessage[]> {
    await this.#settled();
    type Row = [n: number, id: string, to: string];
    const values = [options.after, partitionsValue(options.partitions), limit(options.max)];
    const rows = await this.#readTexts<number, Row>("mail", values, { texts: "mail" });
    return rows.map(({ row: [order, id, to], text, damage }) => ({
      ...{ order, id, to, body: decodeText(text) },
      ...(damage === undefined ? {} : { damage }),
    }));
  }

  async readLogs({ execution, after, rowsMax }: LogRange): Promise<StoredLogRow[]> {
    type Row = [n: number, attempt: string];
    const values = [execution, after, limit(rowsMax)];
    const rows = await this.#readTexts<number, Row>("logs", values, { texts: "logs", values: [execution] });
    return rows.map(({ row: [order, attempt], text, damage }) =>
      damage === undefined
        ? unpackLog({ order, attempt, body: decodeText(text) })
        : damagedLog({ order, attempt }, damage),
    );
  }

  async listDeadLetters(filter: DeadLetterFilter, options: Page): Promise<StoredDeadLetter[]> {
    const { project = null, workflow = null, execution } = filter;
    const page = [options.before ?? LAST, limit(options.max)];
    const read = (name: keyof typeof NARROW_READS, values: readonly (string | number | null)[]) =>
      this.#readTexts<number, DeadRow>(name, values, { texts: "dead" });
    const rows = await (() => {
      if (execution !== undefined) return read("dead-of-execution", [project, workflow, execution, ...page]);
      if (project !== null) return read("dead-of-project", [project, workflow, ...page]);
      if (workflow !== null) return read("dead-of-groups", [project, workflow, ...page]);
      return read("dead", page);
    })();
    return rows.map(({ row: [order, id, seq, ofProject, ofWorkflow], text }) => ({
      order,
      execution: id,
      seq,
      project: ofProject,
      workflow: ofWorkflow,
      tasks: readTasks(text) ?? [],
    }));
  }

  async countHeads({ project, workflow }: Omit<HeadFilter, "status">): Promise<Record<string, number>> {
    const rows = await this.#read<[status: string, n: number]>("counts", [project ?? null, workflow ?? null]);
    return Object.fromEntries(
      rows.map(([status, n]) => [status, Number(n)] as const).filter(([, n]) => n > 0),
    );
  }

  async countWaiting({ project, workflow }: Omit<HeadFilter, "status">): Promise<number> {
    const [row] = await this.#read<[n: number]>("waiting", [project ?? null, workflow ?? null]);
    return Number(row?.[0] ?? 0);
  }

  async listEnded({ finishedBefore, finishedFrom = 0, status = "", max }: EndedRange): Promise<string[]> {
    const values = [Math.min(finishedBefore, LAST), limit(max), finishedFrom, status];
    return (await this.#read<[id: string]>("ended", values)).map(([id]) => id);
  }

  async getDocument(kind: string, id: string): Promise<string | null> {
    const rows = await orUnreadable(this.#read<[body: string]>("document", [kind, id]));
    if (rows instanceof UnreadableValue)
      throw new DamagedData({ table: "documents", execution: null, row: `${kind}/${id}`, why: rows.why });
    const [row] = rows;
    return row === undefined ? null : openDocument(kind, id, decodeText(row[0]));
  }

  async listDocuments(kind: string, options: DocumentRange): Promise<StoredDocument[]> {
    const { after = "", before, descending = false, max } = options;
    const values = [kind, after, limit(max)];
    const large = { texts: "documents", values: [kind] } as const;
    const rows = await (before === undefined
      ? this.#readTexts<string, [id: string]>(descending ? "documents-down" : "documents", values, large)
      : this.#readTexts<string, [id: string]>(
          descending ? "documents-down-from" : "documents-until",
          [...values, before],
          large,
        ));
    return rows.map(({ row: [id], text, damage }) =>
      damage === undefined ? listedDocument(kind, { id, body: decodeText(text) }) : { id, body: "", damage },
    );
  }

  /**
   * If the database cannot read the body of a definition, the body is empty. It then does not match the hash, so the definition
   * counts as damaged.
   */
  async getDefinition(by: { hash: string } | { newestOf: string }): Promise<StoredDefinition | null> {
    const large = { texts: "definitions" } as const;
    const [found] = await ("hash" in by
      ? this.#readTexts<string, [hash: string]>("definition", [by.hash], large)
      : this.#readTexts<string, [hash: string]>("newest-definition", [by.newestOf], large));
    return found === undefined ? null : { hash: found.row[0], body: decodeText(found.text) };
  }

  async listDefinitions(options: { after: string; max: number }): Promise<{ name: string; hash: string }[]> {
    const rows = await this.#read<[name: string, hash: string]>("definitions", [
      options.after,
      limit(options.max),
    ]);
    return rows.map(([name, hash]) => ({ name, hash }));
  }

  /**
   * Reads rows whose first column is a key and whose last is a text. A text that the database cannot read is empty, and
   * `damage` says why.
   */
  async #readTexts<Key extends number | string, Row extends readonly [Key, ...unknown[]]>(
    name: keyof typeof NARROW_READS,
    values: readonly (string | number | null)[],
    large: Large,
  ): Promise<(ReadText & { readonly row: Row })[]> {
    const rows = await orUnreadable(this.#read<[...Row, text: string]>(name, values));
    if (!(rows instanceof UnreadableValue))
      return rows.map((row) => ({ row: row as unknown as Row, text: row.at(-1) as string }));
    const narrow = await this.#links.run<Row>({ name: `narrow ${name}`, text: NARROW_READS[name] }, values);
    const statement = { name: `texts of ${large.texts}`, text: TEXTS[large.texts] };
    const keys = narrow.map(([key]) => key);
    const texts = await textsApart(this.#links, statement, keys, large.values);
    // A row whose text is missing was deleted meanwhile.
    return narrow.flatMap((row) => {
      const text = texts.get(row[0]);
      return text === undefined ? [] : [{ row, ...text }];
    });
  }

  #read<Row extends readonly unknown[]>(
    name: keyof typeof RECORD_READS,
    values: readonly (string | number | null)[],
  ): Promise<Row[]> {
    return this.#links.run<Row>({ name: `record ${name}`, text: RECORD_READS[name] }, values);
  }
}
