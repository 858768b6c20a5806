/** Sets up every connection and checks the settings of the server: one with `fsync=off` is refused. */
import type pg from "pg";
import { DatabaseUnusable, sqlState } from "./faults.ts";

/** The oldest supported server version: PostgreSQL 14. */
const VERSION_MIN = 140_000;

const STATEMENT_TIMEOUT_MS = 30_000;

export interface ServerState {
  /**
   * The identity of the server and the database, which distinguishes a copy from the original; null if the server does not
   * permit reading it.
   */
  readonly origin: string | null;
  /** The position of the write-ahead log, which never decreases on one timeline. */
  readonly walPosition: number;
}

export async function beginSession(client: pg.Client, schema: string): Promise<ServerState> {
  // All reads must use an index (plans.test.ts), even if a table is small or has no statistics when the plan is made.
  await client.query(`
    SET search_path TO ${quoteName(schema)};
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET statement_timeout = ${STATEMENT_TIMEOUT_MS};
    SET lock_timeout = 0;
    SET client_min_messages = warning;
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off`);
  const { rows } = await client.query<Record<string, string>>(`
    SELECT current_setting('server_version_num') AS version, current_setting('server_version') AS shown,
      current_setting('fsync') AS fsync, current_setting('server_encoding') AS encoding,
      set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false) AS synchronous_commit`);
  checkServer(rows[0] ?? {});
  return { origin: await readOrigin(client), walPosition: await readWalPosition(client) };
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function checkServer(server: Record<string, string>): void {
  if (Number(server["version"]) < VERSION_MIN)
    throw new DatabaseUnusable(
      "version",
      `the database is PostgreSQL ${server["shown"]}; Rondo needs 14 or newer`,
    );
  if (server["fsync"] !== "on")
    throw new DatabaseUnusable(
      "settings",
      "the database runs with fsync=off: a power failure would lose acknowledged commits. Turn it on",
    );
  if (server["encoding"] !== "UTF8")
    throw new DatabaseUnusable(
      "settings",
      `the database is encoded in ${server["encoding"]}; create one in UTF8`,
    );
}

async function readOrigin(client: pg.Client): Promise<string | null> {
  try {
    const { rows } = await client.query<{ origin: string }>(`
      SELECT system_identifier::text || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
        AS origin
      FROM pg_control_system()`);
    return rows[0]?.origin ?? null;
  } catch (error) {
    // Some providers do not permit reading the server's identity.
    if (sqlState(error) === "42501") return null;
    throw error;
  }
}

async function readWalPosition(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ position: string }>(
    "SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS position",
  );
  return Number(rows[0]?.position);
}
