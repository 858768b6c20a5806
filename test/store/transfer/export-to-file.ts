import { appendFile, writeFile } from "node:fs/promises";
import { exportFrom, type Moved, type TransferPlace } from "../../../src/compose/compose-transfer.ts";

/** Exports into a file, as the command does. */
export async function exportToFile(place: TransferPlace, file: string): Promise<Moved> {
  await writeFile(file, "");
  return exportFrom({ ...place, rondo: "test", write: (chunk) => appendFile(file, chunk) });
}
