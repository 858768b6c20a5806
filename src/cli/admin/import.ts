/** `rondo import FILE|-`: makes a store from a file of `rondo export`. */
import { createWriteStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { importInto, type Restored, restoreDamagedIn } from "../../compose/compose-transfer.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { type Flags, readConfig } from "../server/find-server.ts";
import { showMoved } from "./export.ts";
import { untilInterrupted } from "./until-interrupted.ts";

export type ImportOptions = Flags<"store", "json" | "damaged">;

/** Imports into the store of --store. */
export async function importFromFile(file: string, options: ImportOptions): Promise<void | ExitCode> {
  const { config } = await readConfig({ ...options });
  const { store } = config;
  if (file !== "-" && statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new CliError(EXIT.notFound, `there is no file ${file}`);
  return untilInterrupted((signal) =>
    withFile(file, signal, async (path) => {
      if (options.damaged)
        return replaceDamaged(await restoreDamagedIn({ store, file: path, signal }), options);
      const moved = await importInto({ store, file: path, signal });
      if (options.json) printJson(moved);
      else
        printLine(
          `imported ${showMoved(moved)}; workers that still run attempts from the time of the export have one heartbeat to report them`,
        );
      return EXIT.ok;
    }),
  );
}

function replaceDamaged({ restored, stillDamaged }: Restored, { json }: ImportOptions): ExitCode {
  if (json) printJson({ restored, stillDamaged });
  else {
    printLine(`restored ${restored.length === 1 ? "1 execution" : `${restored.length} executions`}`);
    for (const id of restored) printLine(`  ${id} continues from the state that it has in the export`);
    for (const id of stillDamaged)
      printLine(`  ${id} is still damaged: the export does not have it, or has it damaged too`);
  }
  return stillDamaged.length === 0 ? EXIT.ok : EXIT.damaged;
}

/** Calls `use` with the name of the file. Input from stdin is first copied to a temporary file, because it is read twice. */
async function withFile<T>(file: string, signal: AbortSignal, use: (path: string) => Promise<T>): Promise<T> {
  if (file !== "-") return use(file);
  const folder = mkdtempSync(join(tmpdir(), "rondo-import-"));
  try {
    const path = join(folder, "stdin");
    await pipeline(process.stdin, createWriteStream(path, { mode: 0o600 }), { signal });
    return await use(path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
