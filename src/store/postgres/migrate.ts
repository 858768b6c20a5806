/**
 * Migrates the schema of the database. Each missing migration runs in its own transaction, under a lock, so that nodes that
 * start together run it only once. After a failure the caller closes the connection, which rolls the migration back.
 */
import type pg from "pg";
import { DatabaseUnusable, sqlState } from "./faults.ts";
import { MIGRATIONS, type Migration } from "./migrations/migrations.ts";
import { quoteName } from "./session.ts";

/**
 * How long a migration waits for its locks while nodes run statements. It is short, because later statements queue behind the
 * waiting migration.
 */
const LOCK_TIMEOUT_MS = 5_000;

export interface MigrateOptions {
  readonly schema: string;
  /** Called in the transaction of the first migration; writes the rows of a new store. */
  readonly fill: (client: pg.Client) => Promise<void>;
  readonly migrations?: readonly Migration[];
}

/** Runs the missing migrations. Throws `DatabaseUnusable` if the schema is too new for this version of Rondo. */
export async function migrate(client: pg.Client, options: MigrateOptions): Promise<void> {
  const { migrations = MIGRATIONS } = options;
  for (;;) {
    const version = await readVersion(client, migrations.length);
    if (version >= migrations.length) return;
    await applyNext(client, options, migrations);
  }
}

/** The version of the schema; 0 if there is no schema. */
async function readVersion(client: pg.Client, known: number): Promise<number> {
  const { rows } = await client
    .query<{ version: number; compatible_from: number }>(
      "SELECT version, compatible_from FROM migrations ORDER BY version DESC LIMIT 1",
    )
    .catch((error: unknown) => {
      if (sqlState(error) === "42P01") return { rows: [] };
      throw error;
    });
  const [newest] = rows;
  if (newest === undefined) return 0;
  if (newest.compatible_from > known)
    throw new DatabaseUnusable(
      "newer",
      `the database was changed by a newer Rondo (schema version ${newest.version}, this one knows up to ` +
        `${known}); use that one`,
    );
  return newest.version;
}

async function applyNext(
  client: pg.Client,
  { schema, fill }: MigrateOptions,
  migrations: readonly Migration[],
): Promise<void> {
  await client.query("BEGIN");
  // The statement timeout is off, because a migration of large tables takes long, on this node or another.
  await client.query("SET LOCAL statement_timeout = 0");
  await client.query("SELECT pg_advisory_xact_lock(hashtext('rondo'), hashtext($1))", [schema]);
  await client.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
  const { rows } = await client.query<{ found: string | null }>(
    "SELECT to_regnamespace(quote_ident($1))::text AS found",
    [schema],
  );
  if (rows[0]?.found === null) await client.query(`CREATE SCHEMA ${quoteName(schema)}`);
  await client.query(`CREATE TABLE IF NOT EXISTS migrations (
    version int PRIMARY KEY, compatible_from int NOT NULL, at timestamptz NOT NULL DEFAULT now())`);
  // Another node may have run the migration meanwhile.
  const version = await readVersion(client, migrations.length);
  const next = migrations[version];
  if (next !== undefined) {
    await client.query(next.sql);
    await client.query("INSERT INTO migrations (version, compatible_from) VALUES ($1, $2)", [
      version + 1,
      next.compatibleFrom,
    ]);
    if (version === 0) await fill(client);
  }
  await client.query("COMMIT");
}
