/**
 * Exports a store to a file, and imports a file into a new store. Loaded only by the commands that need it. An import is written to a
 * staging place beside the store, and becomes the store in one step when it is complete. The next import deletes the staging place of an
 * import that was killed.
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
import { hasLiveOwner, readOpened } from "../store/sqlite/files/directory-lock.ts";
import { restoreBackup } from "../store/sqlite/files/restore-backup.ts";
import { lostInWal } from "../store/sqlite/files/wal-losses.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { Store } from "../store/store.ts";
import { exportStore, importStore, isEmpty } from "../transfer/move-store.ts";
import { type OwnedStore, openOwned } from "../transfer/owned-store.ts";
import { type Restored, restoreDamaged } from "../transfer/restore-damaged.ts";
import { checkSeal, readLines } from "../transfer/sealed-text.ts";
import type { Moved } from "../transfer/tally.ts";

export type { Restored } from "../transfer/restore-damaged.ts";
export type { Moved } from "../transfer/tally.ts";

/** The store to export, or to import into. */
export interface TransferPlace {
  /** The URL of the store: `file:<directory>` or `postgres://...`. */
  readonly store: string;
  /** The schema that holds the store, if the store is a database. */
  readonly schema?: string;
  readonly signal?: AbortSignal;
}

const DATABASE = "rondo.db";
const STAGING = "import.new";

/** Exports a store that no process works on, through `write`. */
export async function exportFrom(
  place: TransferPlace & { readonly rondo: string; readonly write: (chunk: Buffer) => Promise<void> },
): Promise<Moved> {
  const { rondo, write, signal } = place;
  const clock = systemClock({ hold: true });
  return exportStore({ store: await existing(place), clock, rondo, write, ...(signal && { signal }) });
}

/** Imports a file into a new store. The file is read twice: the first read checks it, the second imports it. */
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

/** Replaces damaged executions of a store by those of an export. No process may work on the store. The file is read twice. */
export async function restoreDamagedIn(place: TransferPlace & { readonly file: string }): Promise<Restored> {
  const { file, signal } = place;
  const store = await existing(place);
  const wrong = await checkSeal(file);
  if (wrong !== null) throw new RondoError(wrong);
  const clock = systemClock({ hold: true });
  return restoreDamaged({ store, clock, lines: readLines(file), ...(signal && { signal }) });
}

/** Migrates a database's schema; returns the versions. `restored`: earlier leases and attempt tokens become invalid. */
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

/** Reads the facts that `doctor` shows about a database, without changing it. */
export function readDatabaseFacts(place: Pick<TransferPlace, "store" | "schema">): Promise<DatabaseFacts> {
  return readDatabase(schemaPlace(place));
}

/** Returns how many transactions the write-ahead log of an embedded store has lost at least; 0 if a process works on the store. */
export function lostTransactionsIn(directory: string): number {
  if (hasLiveOwner(directory)) return 0;
  const log = join(directory, `${DATABASE}-wal`);
  // A process that was killed leaves its write-ahead log behind. If the log is missing, at least one transaction may be lost.
  return readOpened(directory) !== null && !existsSync(log) ? 1 : lostInWal(log);
}

/** Whether a store's URL names a database. */
export function isDatabase(store: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(store);
}

/** The store that an import goes to. */
interface Target {
  /** Opens the staging store, which no other process uses. */
  staged(): Store;
  /** Makes the staging store the real store. */
  publish(): Promise<void>;
  /** Deletes the staging store. */
  drop(): Promise<void>;
}

async function targetOf(place: TransferPlace): Promise<Target> {
  return isDatabase(place.store) ? schemaTarget(schemaPlace(place)) : directoryTarget(directoryOf(place));
}

/** Opens an empty staging store. Throws if another import into the same store is running. */
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
    // Restoring gives the store a new key, so that old attempt tokens are invalid, and marks it as uncleanly stopped. All its
    // data is on disk before the store gets its final name.
    publish: () => restoreBackup({ file: join(staging, DATABASE), directory }),
    async drop() {
      rmSync(staging, { recursive: true, force: true });
      if (isNew && !existsSync(join(directory, DATABASE)))
        rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Opens a store that must exist. */
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

/** Opens a database under the URL of a node that does not exist, so that no other node can call this process. */
function databaseStore({ url, schema }: SchemaPlace, what: string): PostgresStore {
  const nodeUrl = `http://${what}-${systemRandom.u32().toString(36)}.invalid`;
  return new PostgresStore({ url, schema, nodeUrl });
}

function directoryOf({ store }: TransferPlace): string {
  if (store.startsWith("file:") && store.length > 5) return store.slice(5).replace(/^\/\/(?=\/)/, "");
  throw new RondoError(
    reject("invalid_input", `"${store}" is not a store that can be exported or imported`, {
      path: "store",
      hint: 'use "file:<directory>" or "postgres://..."',
    }),
  );
}
