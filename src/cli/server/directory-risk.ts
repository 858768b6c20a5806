/** Checks whether other users could tamper with a data directory. */
import { existsSync, type Stats, statSync } from "node:fs";
import { commandLine } from "../run/run-options.ts";
import { directoryOf } from "./find-server.ts";

const EVERYBODY_WRITES = 0o002;

/** Returns why a store's directory is at risk, and what to do. Returns null if it is not at risk or does not exist. */
export function directoryRisk(store: string): { readonly what: string; readonly mend: string } | null {
  const path = directoryOf(store);
  if (path === null || !existsSync(path) || process.getuid === undefined) return null;
  const what = riskOf(statSync(path), process.getuid());
  const mend = `a user who can replace the files of the directory can act as the server; to fix it: ${commandLine(["chmod", "700", path])}`;
  return what === null ? null : { what: `${path} ${what}`, mend };
}

function riskOf({ mode, uid }: Stats, own: number): string | null {
  if ((mode & EVERYBODY_WRITES) !== 0)
    return `can be written to by every user (mode ${(mode & 0o7777).toString(8)})`;
  return uid === own || uid === 0 ? null : `belongs to another user (uid ${uid})`;
}
