/** `rondo export FILE|-`: writes a whole store as lines of JSON. No server may use the store during the export. */
import { open, rm } from "node:fs/promises";
import { exportFrom, type Moved } from "../../compose/compose-transfer.ts";
import { readManifest } from "../../package-root.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { type Flags, readConfig } from "../server/find-server.ts";
import { untilInterrupted } from "./until-interrupted.ts";

export type ExportOptions = Flags<"store", "json">;

/** Exports the store of --store. */
export async function exportToFile(file: string, options: ExportOptions): Promise<void | ExitCode> {
  const { config } = await readConfig({ ...options });
  const { store } = config;
  return untilInterrupted(async (signal) => {
    const from = { store, rondo: readManifest().version, signal };
    if (file === "-") {
      const moved = await exportFrom({ ...from, write: writeToStdout });
      printLine(options.json ? JSON.stringify(moved) : `exported ${showMoved(moved)}`);
      return printDamage(moved);
    }
    const moved = await writeNewFile(file, (write) => exportFrom({ ...from, write }));
    if (options.json) printJson({ file, ...moved });
    else printLine(`exported ${showMoved(moved)} to ${file}`);
    printDamage(moved);
  });
}

/** Prints the damaged executions and the documents that are left out. */
function printDamage({ damaged = [], leftOut = [] }: Moved): void {
  for (const id of damaged)
    printLine(`execution ${id} is damaged: only the part of it that can be read is exported`);
  for (const what of leftOut) printLine(`the document ${what} cannot be read, so it is not exported`);
}

/** The counts of an export as a sentence. */
export function showMoved({ executions, definitions, documents }: Moved): string {
  const of = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
  return `${of(executions, "execution")}, ${of(definitions, "definition")} and ${of(documents, "document")}`;
}

function writeToStdout(chunk: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** Writes a new file and syncs it to disk. If writing fails, the file is removed. */
async function writeNewFile<T>(
  file: string,
  run: (write: (chunk: Buffer) => Promise<void>) => Promise<T>,
): Promise<T> {
  const handle = await open(file, "wx", 0o600).catch((thrown: NodeJS.ErrnoException) => {
    const why = thrown.code === "EEXIST" ? "exists already" : `cannot be written (${thrown.code})`;
    throw new CliError(EXIT.conflict, `${file} ${why}`, ["choose another file"], { cause: thrown });
  });
  try {
    const done = await run((chunk) => handle.appendFile(chunk));
    await handle.sync();
    await handle.close();
    return done;
  } catch (thrown) {
    await handle.close();
    await rm(file, { force: true });
    throw thrown;
  }
}
