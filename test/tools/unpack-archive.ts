/** Unpacks a fixture that is kept as a .tar.gz. */
import { spawnSync } from "node:child_process";

export function unpackArchive(archive: string, folder: string): void {
  const { status, error, stderr } = spawnSync("tar", ["-xzf", archive, "-C", folder], { encoding: "utf8" });
  if (status !== 0) throw new Error(`cannot unpack ${archive}: ${error?.message ?? stderr}`);
}
