/** `rondo restore FILE`: makes a data directory from a backup. No server may use the directory during the restore. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printAnswer } from "../output/print.ts";
import { directoryOf, type Flags, readConfig } from "../server/find-server.ts";

export type RestoreOptions = Flags<"store", "json">;

/** Restores into the directory of --store. */
export async function restore(file: string, options: RestoreOptions): Promise<void> {
  const { config } = await readConfig({ ...options });
  const directory = directoryOf(config.store);
  if (directory === null)
    throw new CliError(EXIT.usage, `${config.store} is not a directory, so nothing can be restored into it`, [
      "give a directory: --store file:<directory>",
    ]);
  const { restoreBackup } = await import("../../compose/compose.ts");
  const isNew = !existsSync(directory);
  try {
    await restoreBackup({ file, directory });
  } catch (thrown) {
    if (isNew) removeUnused(directory);
    if ((thrown as Error).name !== "StoreUnreadable") throw thrown;
    throw new CliError(EXIT.usage, (thrown as Error).message, [], { cause: thrown });
  }
  const { store } = config;
  printAnswer(
    options,
    { restored: file, store },
    `${store} was restored from ${file}; leases from before the backup are void`,
  );
}

/** Removes the directory that a failed restore has made. */
function removeUnused(directory: string): void {
  if (!existsSync(directory) || readdirSync(directory).some((name) => name.startsWith("rondo.db"))) return;
  rmSync(directory, { recursive: true });
}
