/**
 * A process that has just begun to work on a data directory listens a moment later: `rondo run FILE` after 300 ms. By
 * `owner.json`, which it leaves in the directory, a command that comes too early knows that it is worth waiting.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";

const LOOK_MS = 25;
/** By then a run has its socket, on a machine with much to do too. */
const PATIENCE_MS = 3_000;

/** Resolves when the directory's owner listens, or there is none: with the owner's process if it works without listening. */
export async function awaitOwner(directory: string): Promise<{ readonly silent: number | null }> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const silent = silentOwner(directory);
    if (silent === null || waitedMs >= PATIENCE_MS) return { silent };
    await sleep(systemClock({ hold: true }), LOOK_MS);
  }
}

function silentOwner(directory: string): number | null {
  try {
    const { pid, listening } = JSON.parse(readFileSync(join(directory, "owner.json"), "utf8"));
    if (!Number.isInteger(pid) || listening !== undefined) return null;
    process.kill(pid, 0);
    return pid;
  } catch {
    // Nobody is there, or somebody who was killed.
    return null;
  }
}
