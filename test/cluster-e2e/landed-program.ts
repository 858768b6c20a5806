/** The CLI of a version of Rondo that has landed, from its archive in test/fixtures/programs. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ARCHIVES = fileURLToPath(new URL("../fixtures/programs/", import.meta.url));
/** Inside node_modules, so that the old program finds the packages that it imports. */
const PLACE = fileURLToPath(new URL("../../node_modules/.cache/rondo-programs/", import.meta.url));

/** The path of `bin/rondo.js` of that version; the archive is unpacked once. */
export function landedProgram(version: string): string {
  const name = `rondo-${version}`;
  const target = join(PLACE, name);
  if (!existsSync(target)) {
    mkdirSync(PLACE, { recursive: true });
    const folder = mkdtempSync(join(PLACE, "unpack-"));
    const tar = spawnSync("tar", ["-xzf", join(ARCHIVES, `${name}.tar.gz`), "-C", folder], {
      encoding: "utf8",
    });
    if (tar.status !== 0) throw new Error(`cannot unpack ${name}: ${tar.error?.message ?? tar.stderr}`);
    renameSync(join(folder, name), target);
    rmSync(folder, { recursive: true });
  }
  return join(target, "bin", "rondo.js");
}
