/** The identity of the database (generation and origin). Every connection is compared, so a node never changes databases. */
import type pg from "pg";
import { randomHex, systemRandom } from "../../std/random.ts";
import { DatabaseUnusable, restoredMeanwhile } from "./faults.ts";
import { migrate } from "./migrate.ts";
import { beginSession, type ServerState } from "./session.ts";

/** Fixed when a store is created or declared restored. */
export interface Meta {
  readonly generation: string;
  readonly key: string;
  readonly partitions: number;
  /** Where it was created: server, database and table; the first version did not store the table. */
  readonly origin: string | null;
  /** The OID of the table `meta`; a table that was restored from a dump has another one. */
  readonly table: string;
  /** The class of this store's advisory locks, and the name of its channel. */
  readonly lock: number;
}

const RESTORED_ADVICE = "If it was restored from a backup or copied, run `rondo migrate --restored`";

export class Database {
  readonly #schema: string;
  #meta: Meta | null = null;
  #walPosition = 0;

  constructor(schema: string) {
    this.#schema = schema;
  }

  get meta(): Meta {
    if (this.#meta === null) throw new DatabaseUnusable("foreign", "the database is not open");
    return this.#meta;
  }

  /** Migrates the schema and reads the identity. */
  async open(client: pg.Client, partitions: number): Promise<Meta> {
    const state = await beginSession(client, this.#schema);
    const fill = (filled: pg.Client) => fillNew(filled, partitions, state);
    await migrate(client, { schema: this.#schema, fill });
    const meta = await readMeta(client);
    if (isElsewhere(meta, state))
      throw new DatabaseUnusable(
        "restored",
        `this store was created in another database, or the database was restored. ${RESTORED_ADVICE}`,
      );
    await client.query("SELECT fold_counts_1()");
    this.#meta = meta;
    return meta;
  }

  /** Sets up a further connection; throws if its database is another one, or older than before. */
  async begin(client: pg.Client): Promise<void> {
    // Read before the session begins, since other connections update it meanwhile.
    const seen = this.#walPosition;
    const state = await beginSession(client, this.#schema);
    const meta = await readMeta(client);
    const { generation } = meta;
    if (generation !== this.meta.generation)
      throw restoredMeanwhile(`the database has generation ${generation}, this node ${this.meta.generation}`);
    if (isElsewhere(meta, state) || state.walPosition < seen)
      throw new DatabaseUnusable(
        "older",
        `the database is not the one that this node has used, or an older copy of it. ${RESTORED_ADVICE}, then ` +
          "start the nodes again",
      );
  }

  /** Notes a position of the write-ahead log, read by a durable transaction, so that a crash cannot revert it. */
  sawWalPosition(position: number): void {
    this.#walPosition = Math.max(this.#walPosition, position);
  }
}

/** Declares a database restored: new generation and key, no leases, all partitions free and unclean. */
export async function declareRestored(client: pg.Client, schema: string): Promise<void> {
  const state = await beginSession(client, schema);
  await migrate(client, { schema, fill: (filled) => fillNew(filled, PARTITIONS_DEFAULT, state) });
  const { lock, table } = await readMeta(client);
  await client.query("BEGIN");
  await client.query("SELECT pg_advisory_xact_lock($1, partition) FROM partitions ORDER BY partition", [
    lock,
  ]);
  await client.query("UPDATE meta SET generation = $1, key = $2, origin = $3", [
    randomHex(systemRandom, 4),
    randomHex(systemRandom, 8),
    originOf(state, table),
  ]);
  await client.query("DELETE FROM nodes");
  await client.query("UPDATE partitions SET owner = NULL, clean = false WHERE epoch > 0");
  await client.query("COMMIT");
}

export const PARTITIONS_DEFAULT = 256;

async function readMeta(client: pg.Client): Promise<Meta> {
  const { rows } = await client.query<Meta>(`
    SELECT generation, key, partitions, origin, 'meta'::regclass::oid::text AS "table",
      ('partitions'::regclass::oid::bigint & 2147483647)::int AS lock
    FROM meta`);
  const [meta] = rows;
  if (meta === undefined)
    throw new DatabaseUnusable("foreign", "the schema contains no store; choose another schema, or drop it");
  return meta;
}

async function fillNew(client: pg.Client, partitions: number, state: ServerState): Promise<void> {
  const { rows } = await client.query<{ table: string }>(`SELECT 'meta'::regclass::oid::text AS "table"`);
  const origin = originOf(state, rows[0]?.table ?? "");
  await client.query(
    "INSERT INTO meta (generation, key, partitions, origin, created_at) VALUES ($1, $2, $3, $4, now_ms_1())",
    [randomHex(systemRandom, 4), randomHex(systemRandom, 8), partitions, origin],
  );
  await client.query(
    `INSERT INTO partitions (partition, epoch, unclean_epoch, clean)
      SELECT partition, 0, 0, true FROM generate_series(0, $1::int - 1) AS partition`,
    [partitions],
  );
}

function originOf({ origin }: ServerState, table: string): string | null {
  return origin === null ? null : `${origin}/${table}`;
}

/** Whether a store is known to be in another place than it was created in. */
function isElsewhere({ origin, table }: Meta, state: ServerState): boolean {
  if (origin === null || state.origin === null) return false;
  return origin !== originOf(state, table) && origin !== state.origin;
}
