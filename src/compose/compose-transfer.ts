/**
 * Moves whole stores: out of any store into a file, and from a file into a store that is made for it. Apart from
 * compose.ts, so that only the commands that need it load it. An import goes into a place of its own beside the store's,
 * and becomes the store in one step when it is complete; what is left of one that was killed is dropped by the next.
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../std/clock.ts";
import { makeDirectory } from "../std/make-directory.ts";
import { systemRandom } from "../std/random.ts";
import { RondoError, reject } from "../std/rejection.ts";
import { PostgresStore } from "../store/postgres/postgres-store.ts";
import {
  type DatabaseFacts,
  declareDatabaseRestored,
  dropSchema,
  moveSchema,
  readDatabase,
  readSchema,
  refuseUsed,
  SCHEMA_DEFAULT,
  type SchemaPlace,
} from "../store/postgres/schema-place.ts";
import { hasLiveOwner, readOpened } from "../store/sqlite/directory-lock.ts";
import { restoreBackup } from "../store/sqlite/restore-backup.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { lostInWal } from "../store/sqlite/wal-losses.ts";
import type { Store } from "../store/store.ts";
import { exportStore, importStore, isEmpty } from "../transfer/move-store.ts";
import { type OwnedStore, openOwned } from "../transfer/owned-store.ts";
import { type Restored, restoreDamaged } from "../transfer/restore-damaged.ts";
import { checkSeal, readLines } from "../transfer/sealed-text.ts";
import type { Moved } from "../transfer/tally.ts";

export type { Restored } from "../transfer/restore-damaged.ts";
export type { Moved } from "../transfer/tally.ts";

/** Which store is meant. */
export interface TransferPlace {
  /** `file:<directory>` or `postgres://...`. */
  readonly store: string;
  /** Of a database: the schema that holds the store. */
  readonly schema?: string;
  readonly signal?: AbortSignal;
}

const DATABASE = "rondo.db";
const STAGING = "import.new";

/** Writes a store that nothing works on to wherever `write` puts it. */
export async function exportFrom(
  place: TransferPlace & { readonly rondo: string; readonly write: (chunk: Buffer) => Promise<void> },
): Promise<Moved> {
  const { rondo, write, signal } = place;
  const clock = systemClock({ hold: true });
  return exportStore({ store: await existing(place), clock, rondo, write, ...(signal && { signal }) });
}

/** Makes a store of an export. The file is read twice: nothing is made of one that is not whole. */
export async function importInto(place: TransferPlace & { readonly file: string }): Promise<Moved> {
  const { file, signal } = place;
  const target = await targetOf(place);
  const wrong = await checkSeal(file);
  if (wrong !== null) throw new RondoError(wrong);
  const owned = await openStaging(target);
  try {
    const moved = await importStore({ owned, lines: readLines(file), ...(signal && { signal }) });
    await target.publish();
    return moved;
  } finally {
    await target.drop();
  }
}

/** Puts executions of an export in the place of damaged ones in a store that nothing works on. The file is read twice. */
export async function restoreDamagedIn(place: TransferPlace & { readonly file: string }): Promise<Restored> {
  const { file, signal } = place;
  const store = await existing(place);
  const wrong = await checkSeal(file);
  if (wrong !== null) throw new RondoError(wrong);
  const clock = systemClock({ hold: true });
  return restoreDamaged({ store, clock, lines: readLines(file), ...(signal && { signal }) });
}

/**
 * Brings a database's schema to this version; answers the versions before and after. `restored` declares that it was
 * restored from a backup: leases and attempt tokens of before are void, and a new generation begins.
 */
export async function migrateDatabase(
  place: Pick<TransferPlace, "store" | "schema"> & { readonly restored?: boolean },
): Promise<{ readonly from: number; readonly to: number }> {
  const at = schemaPlace(place);
  const { version: from } = await readSchema(at);
  if (place.restored === true) await declareDatabaseRestored(at);
  const store = databaseStore(at, "migrate");
  await store.open();
  await store.close({ clean: true });
  const { version: to } = await readSchema(at);
  return { from, to };
}

/** What `doctor` says about a database. Nothing is changed. */
export function readDatabaseFacts(place: Pick<TransferPlace, "store" | "schema">): Promise<DatabaseFacts> {
  return readDatabase(schemaPlace(place));
}

/** How many transactions at least the log of an embedded store has lost; 0 while a process works on it, which says so itself. */
export function lostTransactionsIn(directory: string): number {
  if (hasLiveOwner(directory)) return 0;
  const log = join(directory, `${DATABASE}-wal`);
  // An owner that was killed has left its WAL.
  return readOpened(directory) !== null && !existsSync(log) ? 1 : lostInWal(log);
}

/** Whether a URL names a database. */
export function isDatabase(store: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(store);
}

/** Where an import goes. */
interface Target {
  /** The store to import into, which nobody else sees. */
  staged(): Store;
  /** Makes it the store. */
  publish(): Promise<void>;
  /** Takes away what is left of it. */
  drop(): Promise<void>;
}

async function targetOf(place: TransferPlace): Promise<Target> {
  return isDatabase(place.store) ? schemaTarget(schemaPlace(place)) : directoryTarget(directoryOf(place));
}

/** An empty store to import into. Whoever imports into the same place at this moment has it open: that is refused. */
async function openStaging(target: Target): Promise<OwnedStore> {
  const clock = systemClock({ hold: true });
  const owned = await openOwned(target.staged(), clock);
  if (await isEmpty(owned.store)) return owned;
  await owned.close({ clean: true });
  await target.drop();
  return openOwned(target.staged(), clock);
}

async function schemaTarget(place: SchemaPlace): Promise<Target> {
  refuseUsed(place.schema, await readSchema(place));
  const staging = { ...place, schema: `${place.schema}_import` };
  return {
    staged: () => databaseStore(staging, "import"),
    publish: () => moveSchema({ ...place, from: staging.schema }),
    drop: () => dropSchema(staging),
  };
}

function directoryTarget(directory: string): Target {
  if (existsSync(join(directory, DATABASE)))
    throw new RondoError(
      reject("conflict", `the directory ${directory} has a store already`, {
        hint: "import into another directory, or with --damaged to replace damaged executions",
      }),
    );
  const isNew = !existsSync(directory);
  const staging = join(directory, STAGING);
  return {
    staged() {
      makeDirectory(directory, 0o700);
      return openSqliteStore({ directory: staging });
    },
    // As a store that ended uncleanly, in a new generation, durable before it has its name.
    publish: () => restoreBackup({ file: join(staging, DATABASE), directory }),
    async drop() {
      rmSync(staging, { recursive: true, force: true });
      if (isNew && !existsSync(join(directory, DATABASE)))
        rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The store that is there; it is not made. */
async function existing(place: TransferPlace): Promise<Store> {
  if (isDatabase(place.store)) {
    const at = schemaPlace(place);
    const { kind } = await readSchema(at);
    if (kind === "absent" || kind === "foreign") throw noStore(place.store.replace(/\/\/.*@/, "//"));
    return databaseStore(at, "export");
  }
  const directory = directoryOf(place);
  if (!existsSync(join(directory, DATABASE))) throw noStore(place.store);
  return openSqliteStore({ directory });
}

function noStore(store: string): RondoError {
  return new RondoError(reject("not_found", `there is no store in ${store}`));
}

function schemaPlace({ store, schema = SCHEMA_DEFAULT }: TransferPlace): SchemaPlace {
  return { url: store, schema };
}

/** Among the nodes of the database under a name that leads nowhere. */
function databaseStore({ url, schema }: SchemaPlace, what: string): PostgresStore {
  const nodeUrl = `http://${what}-${systemRandom.u32().toString(36)}.invalid`;
  return new PostgresStore({ url, schema, nodeUrl });
}

function directoryOf({ store }: TransferPlace): string {
  if (store.startsWith("file:") && store.length > 5) return store.slice(5).replace(/^\/\/(?=\/)/, "");
  throw new RondoError(
    reject("invalid_input", `"${store}" is not a store that can be moved`, {
      path: "store",
      hint: 'use "file:<directory>" or "postgres://..."',
    }),
  );
}
