/**
 * Baselines of the database without an engine: plain inserts over one connection of the same library, each statement in its own
 * transaction.
 */
import pg from "pg";
import { SCHEMA_DEFAULT } from "../../../src/store/postgres/schema-place.ts";
import { type RawRows, SMALL_ROWS } from "../raw-disk.ts";

const ROWS_PER_INSERT = 1_000;

/** The sizes of the rows that a start and the steps after it store. */
interface ChainRows {
  readonly newIds: (many: number) => string[];
  readonly startChars: number;
  readonly stepChars: number;
  readonly steps: number;
  /** How many executions share each commit. */
  readonly perCommit: number;
}

/**
 * Tables with the columns and indexes of the store's own, for rows without an engine. As in the connections of the store, plans use the
 * indexes from the beginning. Without that, the plan for the last step reads the whole table, because the table was empty when it was made.
 */
const TABLES = `DROP TABLE IF EXISTS raw_executions, raw_journal;
  CREATE TABLE raw_executions (LIKE ${SCHEMA_DEFAULT}.executions INCLUDING ALL);
  CREATE TABLE raw_journal (LIKE ${SCHEMA_DEFAULT}.journal INCLUDING ALL);
  SET enable_seqscan = off;
  SET enable_bitmapscan = off`;

const START = {
  name: "raw-start",
  text: `WITH heads AS (
      INSERT INTO raw_executions (e, id, partition, epoch, workflow, hash, project, status, phase, want, priority, created_at, tags)
      SELECT e, id, 0, 1, 'raw', $3, 'default', 'running', 'go', 'nothing', 0, 0, '{}'
      FROM unnest($1::bigint[], $2::text[]) AS start (e, id)
    )
    INSERT INTO raw_journal (e, seq, count, at, chain, body)
    SELECT e, 1, 1, 0, $4, body FROM unnest($1::bigint[], $5::text[]) AS entry (e, body)`,
};
const STEP = {
  name: "raw-step",
  text: `INSERT INTO raw_journal (e, seq, count, at, chain, body)
    SELECT e, $2::int, 1, 0, $3, body FROM unnest($1::bigint[], $4::text[]) AS entry (e, body)`,
};
const END = {
  name: "raw-end",
  text: `WITH heads AS (
      UPDATE raw_executions SET status = 'done', phase = NULL, finished_at = 0 WHERE e = ANY ($1::bigint[])
    )
    ${STEP.text}`,
};
const HASH = "0".repeat(64);
const CHAIN = "0".repeat(32);

/** One connection with its own tables. */
export class RawInserts {
  readonly #client: pg.Client;
  /** The number of the last execution in `raw_executions`. */
  #executions = 0;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async open(url: string): Promise<RawInserts> {
    const client = new pg.Client(url);
    await client.connect();
    await client.query("CREATE TABLE IF NOT EXISTS raw (n bigserial PRIMARY KEY, body text NOT NULL)");
    return new RawInserts(client);
  }

  /** Tasks per second, with a row for each task and each receipt, 1,000 rows per insert. */
  async tasksPerSecond(tasks: number, { task, result }: RawRows = SMALL_ROWS): Promise<number> {
    const from = performance.now();
    let rows: string[] = [];
    const add = async (row: unknown): Promise<void> => {
      if (rows.push(JSON.stringify(row)) === ROWS_PER_INSERT) {
        await this.insert(rows);
        rows = [];
      }
    };
    for (let n = 0; n < tasks; n++) await add(task(n));
    for (let n = 0; n < tasks; n++) await add({ task: n, attempt: 1, status: "done", result: result(n) });
    if (rows.length > 0) await this.insert(rows);
    return (tasks / (performance.now() - from)) * 1_000;
  }

  /** Rows of `chars` characters per second. */
  async rowsPerSecond(rows: number, chars: number, perInsert = ROWS_PER_INSERT): Promise<number> {
    const body = "x".repeat(chars);
    const batch = Array.from({ length: perInsert }, () => body);
    const from = performance.now();
    for (let n = 0; n < rows; n += perInsert) await this.insert(batch.slice(0, rows - n));
    return (rows / (performance.now() - from)) * 1_000;
  }

  /** Executions per second, each with the rows of a start and of its steps, and with the change of its head in the last step. */
  async chainsPerSecond(chains: number, rows: ChainRows): Promise<number> {
    if (this.#executions === 0) await this.#client.query(TABLES);
    const { newIds, startChars, stepChars, steps, perCommit } = rows;
    const [start, step] = ["x".repeat(startChars), "x".repeat(stepChars)];
    const from = performance.now();
    for (let n = 0; n < chains; n += perCommit) {
      const ids = newIds(Math.min(perCommit, chains - n));
      const numbers = ids.map(() => ++this.#executions);
      const starts = ids.map(() => start);
      await this.#client.query({ ...START, values: [numbers, ids, HASH, CHAIN, starts] });
      for (let seq = 2; seq <= steps + 1; seq++) {
        const values = [numbers, seq, CHAIN, ids.map(() => step)];
        await this.#client.query({ ...(seq > steps ? END : STEP), values });
      }
    }
    return (chains / (performance.now() - from)) * 1_000;
  }

  /** The seconds for texts of one row each, `perInsert` rows per insert. */
  async seconds(bodies: readonly string[], perInsert: number): Promise<number> {
    const from = performance.now();
    for (let n = 0; n < bodies.length; n += perInsert) await this.insert(bodies.slice(n, n + perInsert));
    return (performance.now() - from) / 1_000;
  }

  /** Milliseconds until one row of `chars` characters is durable. */
  async insertMs(chars = 300): Promise<number> {
    const body = "x".repeat(chars);
    const from = performance.now();
    await this.insert([body]);
    return performance.now() - from;
  }

  async empty(): Promise<void> {
    await this.#client.query("TRUNCATE raw");
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  /** Inserts texts, a row each, in one commit. */
  async insert(bodies: readonly string[]): Promise<void> {
    await this.#client.query({
      name: "insert",
      text: "INSERT INTO raw (body) SELECT * FROM unnest($1::text[])",
      values: [bodies],
    });
  }
}
