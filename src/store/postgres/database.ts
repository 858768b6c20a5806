/**
 * Checks the identity of the database (generation and origin) on every new connection, so that a node never uses another
 * database by mistake.
 */
import type pg from "pg";
import type { Clock } from "../../std/clock.ts";
import { randomHex, systemRandom } from "../../std/random.ts";
import { AcknowledgedWrites, SWEEP_MARKS } from "./acknowledged-writes.ts";
import { DatabaseUnusable, LOST_GENERATION, restoredMeanwhile } from "./faults.ts";
import { migrate } from "./migrate.ts";
import { beginSession, type ServerState } from "./session.ts";

/** The identity of a store. It changes only when the store is created or declared restored. */
export interface Meta {
  readonly generation: string;
  readonly key: string;
  readonly partitions: number;
  /** Where the store was created: server, database and table; the first version did not store the table. */
  readonly origin: string | null;
  /** The OID of the table `meta`. A table that was restored from a dump has a different OID. */
  readonly table: string;
  /** The class of this store's advisory locks, which is also the name of its NOTIFY channel. */
  readonly lock: number;
  /** A description of the acknowledged writes that nodes found missing; null if none is missing. Otherwise no node may use the store. */
  readonly lost: string | null;
}

const RESTORED_ADVICE = "If it was restored from a backup or copied, run `rondo migrate --restored`";

export class Database {
  readonly #schema: string;
  readonly #nodeUrl: string;
  #meta: Meta | null = null;
  /** The identity of the server and the database that were opened; null if the server does not permit reading it. */
  #origin: string | null = null;
  /** The greatest position of the write-ahead log that was seen, and its timeline. */
  #wal: WalPosition = { position: 0, timeline: null };
  readonly writes: AcknowledgedWrites;

  constructor(schema: string, node: { readonly nodeUrl: string; readonly clock: Clock }) {
    this.#schema = schema;
    this.#nodeUrl = node.nodeUrl;
    this.writes = new AcknowledgedWrites(node.clock);
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
    if (meta.lost !== null) throw lostWrites(meta.lost);
    if (isElsewhere(meta, state))
      throw new DatabaseUnusable(
        "restored",
        `this store was created in another database, or the database was restored. ${RESTORED_ADVICE}`,
      );
    await client.query("SELECT fold_counts_1(), fold_waiting_1()");
    await client.query(SWEEP_MARKS);
    this.#meta = meta;
    this.#origin = state.origin;
    return meta;
  }

  /** Sets up a further connection. Throws if it leads to another database, or if the database lacks acknowledged writes. */
  async begin(client: pg.Client, timeline: number | null): Promise<void> {
    // The known position is taken before the session begins, because other connections update it meanwhile.
    const seen = this.#wal;
    const state = await beginSession(client, this.#schema);
    const isOtherPlace = this.#origin !== null && state.origin !== null && state.origin !== this.#origin;
    const meta = await readMeta(client).catch((error: unknown) => {
      // If the connection leads to another database, there is no store in it, or one that this node cannot read.
      throw isOtherPlace ? otherDatabase(error) : error;
    });
    const { generation } = meta;
    // A database that was declared restored has a new generation, and missing writes are expected in it.
    const isOther = generation !== this.meta.generation && meta.lost === null;
    if (isOther)
      throw restoredMeanwhile(
        `the database has generation ${generation}, but this node opened generation ${this.meta.generation}`,
      );
    const lost = isOtherPlace || isElsewhere(meta, state) ? null : await this.writes.findLost(client);
    if (lost !== null) await this.#recordLoss(client, lost);
    if (meta.lost !== null) throw lostWrites(meta.lost);
    const isOlder = state.walPosition < seen.position && timeline === seen.timeline;
    if (isOtherPlace || isElsewhere(meta, state) || isOlder) throw otherDatabase();
  }

  /**
   * Records the greatest known position of the write-ahead log. It was read in a durable transaction, so a crash of the
   * database cannot revert it.
   */
  sawWalPosition(position: number, timeline: number | null): void {
    if (timeline !== this.#wal.timeline || position > this.#wal.position) this.#wal = { position, timeline };
  }

  /**
   * Stores which writes are lost, and replaces the generation, so that the next write of every node is refused. Always throws.
   */
  async #recordLoss(client: pg.Client, lost: string): Promise<never> {
    const found = `${this.#nodeUrl} misses ${lost}`;
    const { rows } = await client.query<{ lost: string }>(
      `UPDATE meta SET generation = $1, lost = CASE
          WHEN lost IS NULL THEN $2 WHEN strpos(lost, $2) > 0 THEN lost ELSE lost || '; ' || $2 END
        WHERE generation = $3 OR lost IS NOT NULL RETURNING lost`,
      [LOST_GENERATION + randomHex(systemRandom, 4), found, this.meta.generation],
    );
    const [row] = rows;
    if (row === undefined) throw restoredMeanwhile("it was declared restored");
    throw lostWrites(row.lost);
  }
}

function otherDatabase(cause?: unknown): DatabaseUnusable {
  return new DatabaseUnusable(
    "older",
    `the database is not the one that this node has used, or an older copy of it. ${RESTORED_ADVICE}, then ` +
      "start the nodes again",
    cause,
  );
}

interface WalPosition {
  readonly position: number;
  readonly timeline: number | null;
}

/** Makes the fault for a database that lacks acknowledged writes. */
export function lostWrites(lost: string): DatabaseUnusable {
  return new DatabaseUnusable(
    "older",
    `the database lacks writes that it had acknowledged: ${lost}. A standby without them was promoted, or an older copy ` +
      "was put back. No node writes until you decide. If a server still has these writes, make it the primary again and " +
      "start the nodes. If not, run `rondo migrate --restored`, which begins a new generation without them, then start the " +
      "nodes; tasks that these writes had finished run again, and executions that were started in them do not exist",
  );
}

/** Declares a database restored: it gets a new generation and key, no leases, and all partitions become free and unclean. */
export async function declareRestored(client: pg.Client, schema: string): Promise<void> {
  const state = await beginSession(client, schema);
  await migrate(client, { schema, fill: (filled) => fillNew(filled, PARTITIONS_DEFAULT, state) });
  const { lock, table } = await readMeta(client);
  await client.query("BEGIN");
  await client.query("SELECT pg_advisory_xact_lock($1, partition) FROM partitions ORDER BY partition", [
    lock,
  ]);
  await client.query("UPDATE meta SET generation = $1, key = $2, origin = $3, lost = NULL", [
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
    SELECT generation, key, partitions, origin, lost, 'meta'::regclass::oid::text AS "table",
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

/** Whether the store is known to be in another database than the one it was created in. */
function isElsewhere({ origin, table }: Meta, state: ServerState): boolean {
  if (origin === null || state.origin === null) return false;
  return origin !== originOf(state, table) && origin !== state.origin;
}
