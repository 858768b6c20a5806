/** Administers PostgreSQL schemas: inspects, moves and drops the store in a schema. Each call opens its own connection. */
import type pg from "pg";
import { systemClock } from "../../std/clock.ts";
import { RondoError, reject } from "../../std/rejection.ts";
import { declareRestored, lostWrites } from "./database.ts";
import { Hosts } from "./hosts.ts";
import { Link } from "./link.ts";
import { beginSession, quoteName } from "./session.ts";

const TIMEOUT_MS = 40_000;

export const SCHEMA_DEFAULT = "rondo";

export interface SchemaPlace {
  readonly url: string;
  readonly schema: string;
}

/**
 * The state of a schema. `absent`: there is no store; `empty`: a store without content that no node uses; `foreign`: something
 * other than a store. `version` is the version of the store's tables.
 */
export interface SchemaState {
  readonly kind: "absent" | "empty" | "used" | "foreign";
  readonly version: number;
}

export async function readSchema(place: SchemaPlace): Promise<SchemaState> {
  let state: SchemaState = { kind: "absent", version: 0 };
  await once(place, async (client) => {
    state = await look(client, place.schema);
  });
  return state;
}

export interface DatabaseFacts extends SchemaState {
  readonly server: string;
  /** The number of nodes whose leases have not expired. */
  readonly nodes: number;
}

/** Reads the version and the state of a database. Throws if no node may use it, because it lacks acknowledged writes. */
export async function readDatabase(place: SchemaPlace): Promise<DatabaseFacts> {
  let facts: DatabaseFacts = { kind: "absent", version: 0, server: "", nodes: 0 };
  await once(place, async (client) => {
    const state = await look(client, place.schema);
    const { rows } = await client.query<{ server: string }>(
      "SELECT current_setting('server_version') AS server",
    );
    const live = "SELECT count(*)::int AS nodes FROM nodes WHERE lease_until > now_ms_1()";
    const hasNodes = state.kind === "empty" || state.kind === "used";
    if (hasNodes) await refuseLost(client);
    const nodes = hasNodes ? (await client.query<{ nodes: number }>(live)).rows[0]?.nodes : 0;
    facts = { ...state, server: rows[0]?.server ?? "", nodes: nodes ?? 0 };
  });
  return facts;
}

async function refuseLost(client: pg.Client): Promise<void> {
  // The first version of the schema does not have this column yet.
  const { rows } = await client.query<{ lost: string | null }>(
    "SELECT to_jsonb(meta) ->> 'lost' AS lost FROM meta",
  );
  const lost = rows[0]?.lost ?? null;
  if (lost !== null) throw lostWrites(lost);
}

/** Makes a database that was restored from a backup usable: older leases and tokens become invalid. */
export async function declareDatabaseRestored(place: SchemaPlace): Promise<void> {
  await once(place, (client) => declareRestored(client, place.schema));
}

export async function dropSchema(place: SchemaPlace): Promise<void> {
  await once(place, async (client) => {
    await client.query(`DROP SCHEMA IF EXISTS ${quoteName(place.schema)} CASCADE`);
  });
}

/** Renames a schema so that it replaces another one, in one transaction. Throws `conflict` if the other one is in use. */
export async function moveSchema(place: SchemaPlace & { readonly from: string }): Promise<void> {
  const { schema, from } = place;
  await once(place, async (client) => {
    await client.query("BEGIN");
    // Nodes that start at this moment wait for this lock, as they do for a migration.
    await client.query("SELECT pg_advisory_xact_lock(hashtext('rondo'), hashtext($1))", [schema]);
    refuseUsed(schema, await look(client, schema));
    await client.query(`DROP SCHEMA IF EXISTS ${quoteName(schema)} CASCADE`);
    await client.query(`ALTER SCHEMA ${quoteName(from)} RENAME TO ${quoteName(schema)}`);
    await client.query("COMMIT");
  });
}

/** Throws `conflict` if replacing the schema would lose data. */
export function refuseUsed(schema: string, { kind }: SchemaState): void {
  if (kind === "absent" || kind === "empty") return;
  const what = kind === "used" ? "has a store that is not empty" : "contains something other than a store";
  throw new RondoError(
    reject("conflict", `the schema "${schema}" of this database ${what}`, {
      hint: "import into an empty database, or with --damaged to replace damaged executions",
    }),
  );
}

async function look(client: pg.Client, schema: string): Promise<SchemaState> {
  const { rows } = await client.query<{ store: boolean; other: boolean }>(
    `SELECT to_regclass($1) IS NOT NULL AS store, EXISTS (
      SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $2
    ) AS other`,
    [`${quoteName(schema)}.meta`, schema],
  );
  if (rows[0]?.store !== true) return { kind: rows[0]?.other === true ? "foreign" : "absent", version: 0 };
  const found = await client.query<{ used: boolean; version: number }>(`
    SELECT EXISTS (SELECT FROM executions) OR EXISTS (SELECT FROM documents) OR EXISTS (SELECT FROM definitions)
      OR EXISTS (SELECT FROM letters) OR EXISTS (SELECT FROM nodes WHERE lease_until > now_ms_1()) AS used,
      (SELECT max(version) FROM migrations) AS version`);
  const [{ used, version } = { used: true, version: 0 }] = found.rows;
  return { kind: used ? "used" : "empty", version };
}

async function once({ url, schema }: SchemaPlace, run: (client: pg.Client) => Promise<void>): Promise<void> {
  const clock = systemClock();
  const link = new Link({
    hosts: new Hosts(url, clock),
    applicationName: "rondo schema",
    clock,
    timeoutMs: TIMEOUT_MS,
    begin: async (client) => {
      await beginSession(client, schema);
      await run(client);
    },
  });
  try {
    await link.connected();
  } finally {
    await link.end();
  }
}
