/**
 * A state store in a table of a PostgreSQL database, which the operator configures. The table is created on first use. One SQL statement
 * writes a value if its version is newer than the stored one. Versions are compared as bytes.
 */
import pg from "pg";
import type { PostgresStateSettings } from "./state-settings.ts";
import {
  compareEntries,
  type NewEntry,
  type PutVerdict,
  parseVersion,
  type StateCall,
  type StateEntry,
  type StatePlace,
  type StateStore,
  versionText,
} from "./state-store.ts";

const CONNECTIONS_MAX = 4;
const CONNECT_MS = 5_000;
const IDLE_MS = 30_000;
const NO_TABLE = "42P01";
/** Error codes that mean that another client created the same table at the same time, so the table exists now. */
const MADE_BY_ANOTHER = ["23505", "42P07", "42710"];

interface Row {
  readonly value: string;
  readonly version: string;
  readonly project: string;
}

export class PostgresState implements StateStore {
  readonly #pool: pg.Pool;
  readonly #table: string;
  #made: Promise<void> | null = null;

  constructor({ url, table = "rondo_state" }: PostgresStateSettings, onFault: (fault: Error) => void) {
    this.#table = table
      .split(".")
      .map((part) => pg.escapeIdentifier(part))
      .join(".");
    this.#pool = new pg.Pool({
      connectionString: url,
      max: CONNECTIONS_MAX,
      connectionTimeoutMillis: CONNECT_MS,
      idleTimeoutMillis: IDLE_MS,
      allowExitOnIdle: true,
      application_name: "rondo state",
    });
    // Called when an idle connection of the pool breaks. The next call opens another connection, so there is nothing to do.
    this.#pool.on("error", onFault);
  }

  async put(place: StatePlace, entry: NewEntry, call: StateCall): Promise<PutVerdict> {
    await this.#make();
    const { version, project, value } = entry;
    const { at, execution, seq } = version;
    const written = await this.#query(
      `INSERT INTO ${this.#table} AS t (store, partition, key, value, version, project, execution, seq, at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       ON CONFLICT (store, partition, key) DO UPDATE SET value = excluded.value, version = excluded.version,
         execution = excluded.execution, seq = excluded.seq, at = excluded.at
       WHERE t.project = excluded.project AND t.version < excluded.version
       RETURNING 1`,
      [...keyOf(place), value, versionText(version), project, execution, seq, at],
      call,
    ).catch((thrown: { code?: string }) => {
      // The table was dropped, so the next try creates it again.
      if (thrown.code === NO_TABLE) this.#made = null;
      throw thrown;
    });
    if (written.length === 1) return "stored";
    const verdict = compareEntries(entry, await this.get(place, call));
    // The row was deleted while it was written, so no newer value is stored. The write is tried again.
    if (verdict === "stored") throw new Error(`the state "${place.key}" changed while it was being written`);
    return verdict;
  }

  /** Reads a value; null if there is none. The table does not exist before the first write. */
  async get(place: StatePlace, call: StateCall): Promise<StateEntry | null> {
    const [row] = await this.#query<Row>(
      `SELECT value, version, project FROM ${this.#table} WHERE store = $1 AND partition = $2 AND key = $3`,
      keyOf(place),
      call,
    ).catch((thrown: { code?: string }) => {
      if (thrown.code === NO_TABLE) return [];
      throw thrown;
    });
    if (row === undefined) return null;
    return { value: row.value, version: parseVersion(row.version), project: row.project };
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  #make(): Promise<void> {
    this.#made ??= this.#create().catch((thrown: unknown) => {
      this.#made = null;
      throw thrown;
    });
    return this.#made;
  }

  async #create(): Promise<void> {
    try {
      await this.#query(
        `CREATE TABLE IF NOT EXISTS ${this.#table} (
           store text NOT NULL, partition text NOT NULL, key text NOT NULL,
           value text NOT NULL, version text COLLATE "C" NOT NULL, project text NOT NULL,
           execution text NOT NULL, seq bigint NOT NULL, at bigint NOT NULL,
           PRIMARY KEY (store, partition, key))`,
        [],
        { timeoutMs: CONNECT_MS },
      );
    } catch (thrown) {
      if (!MADE_BY_ANOTHER.includes((thrown as { code?: string }).code ?? "")) throw thrown;
    }
  }

  async #query<R extends pg.QueryResultRow>(
    text: string,
    values: readonly unknown[],
    { timeoutMs }: StateCall,
  ): Promise<R[]> {
    const query = { text, values: [...values], query_timeout: timeoutMs };
    return (await this.#pool.query<R>(query)).rows;
  }
}

function keyOf({ store, partition, key }: StatePlace): string[] {
  return [store, partition ?? "", key];
}
