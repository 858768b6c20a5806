/**
 * Baselines of the database without an engine: plain inserts over one connection of the same library, each statement in its own
 * transaction.
 */
import pg from "pg";
import { type RawRows, SMALL_ROWS } from "../raw-disk.ts";

const ROWS_PER_INSERT = 1_000;

/** One connection with its own table. */
export class RawInserts {
  readonly #client: pg.Client;

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
        await this.#insert(rows);
        rows = [];
      }
    };
    for (let n = 0; n < tasks; n++) await add(task(n));
    for (let n = 0; n < tasks; n++) await add({ task: n, attempt: 1, status: "done", result: result(n) });
    if (rows.length > 0) await this.#insert(rows);
    return (tasks / (performance.now() - from)) * 1_000;
  }

  /** Rows of `chars` characters per second. */
  async rowsPerSecond(rows: number, chars: number, perInsert = ROWS_PER_INSERT): Promise<number> {
    const body = "x".repeat(chars);
    const batch = Array.from({ length: perInsert }, () => body);
    const from = performance.now();
    for (let n = 0; n < rows; n += perInsert) await this.#insert(batch.slice(0, rows - n));
    return (rows / (performance.now() - from)) * 1_000;
  }

  /** The seconds for texts of one row each, `perInsert` rows per insert. */
  async seconds(bodies: readonly string[], perInsert: number): Promise<number> {
    const from = performance.now();
    for (let n = 0; n < bodies.length; n += perInsert) await this.#insert(bodies.slice(n, n + perInsert));
    return (performance.now() - from) / 1_000;
  }

  /** Milliseconds until one row of `chars` characters is durable. */
  async insertMs(chars = 300): Promise<number> {
    const body = "x".repeat(chars);
    const from = performance.now();
    await this.#insert([body]);
    return performance.now() - from;
  }

  async empty(): Promise<void> {
    await this.#client.query("TRUNCATE raw");
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  async #insert(bodies: readonly string[]): Promise<void> {
    await this.#client.query({
      name: "insert",
      text: "INSERT INTO raw (body) SELECT * FROM unnest($1::text[])",
      values: [bodies],
    });
  }
}
