/** `rondo migrate [--restored]`: migrates a database to this version, or makes a restored database usable. */
import { isDatabase, migrateDatabase } from "../../compose/compose-transfer.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { type Flags, readConfig } from "../server/find-server.ts";

export type MigrateOptions = Flags<"store", "restored" | "json">;

/** Migrates the database of --store and prints the versions. */
export async function migrate(options: MigrateOptions): Promise<void> {
  const { config } = await readConfig({ ...options });
  const { store } = config;
  if (!isDatabase(store))
    throw new CliError(EXIT.usage, `${store} is not a database, so there is nothing to migrate`, [
      "give the URL of a database: --store postgres://..., or RONDO_STORE",
      "a data directory needs no migration by hand: it is migrated when it is opened; `rondo restore` makes one from a backup",
    ]);
  const restored = options.restored === true;
  const { from, to } = await migrateDatabase({ store, restored });
  if (options.json) printJson({ from, to, restored });
  else {
    printLine(
      from === to
        ? `the database has version ${to} already: nothing to do`
        : `the database was migrated from version ${from} to version ${to}`,
    );
    if (restored)
      printLine(
        "the database is marked as restored: earlier leases and attempt tokens are void; start the nodes now",
      );
  }
}
