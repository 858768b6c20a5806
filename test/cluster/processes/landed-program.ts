/** The CLI of a version of Rondo that has landed, from its archive in test/fixtures/programs. */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { unpackArchive } from "../../tools/unpack-archive.ts";

const ARCHIVES = fileURLToPath(new URL("../../fixtures/programs/", import.meta.url));
/** Inside node_modules, so that the old program finds the packages that it imports. */
const PLACE = fileURLToPath(new URL("../../../node_modules/.cache/rondo-programs/", import.meta.url));

/** The path of `bin/rondo.js` of that version; the archive is unpacked once. */
export function landedProgram(version: string): string {
  const name = `rondo-${version}`;
  const target = join(PLACE, name);
  if (!existsSync(target)) {
    mkdirSync(PLACE, { recursive: true });
    const folder = mkdtempSync(join(PLACE, "unpack-"));
    unpackArchive(join(ARCHIVES, `${name}.tar.gz`), folder);
    renameSync(join(folder, name), target);
    rmSync(folder, { recursive: true });
  }
  return join(target, "bin", "rondo.js");
}
