/**
 * Around a whole run. All that tests keep is in one folder, which is gone afterwards: in memory where there is enough of
 * it, since every commit waits for its disk and no test takes the power away. The servers that test files share are
 * started by the first that needs them (shared-server-fixture.ts), and ended here.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endShared, PLACE } from "../fixtures/shared-server-fixture.ts";

const MEMORY = "/dev/shm";
const MEMORY_LEAST_BYTES = 3 * 2 ** 30;

const PREFIX = "rondo-tests-";

let folder = "";

/** Before the first test file. */
export function setup(): void {
  const place = roomyPlace();
  removeOrphans(place);
  folder = mkdtempSync(join(place, `${PREFIX}${process.pid}-`));
  // PostgreSQL does not run as root: its user must get to its folder.
  chmodSync(folder, 0o711);
  process.env["TMPDIR"] = folder;
  process.env[PLACE] = join(folder, "servers");
  mkdirSync(process.env[PLACE], { mode: 0o711 });
}

/** After the last one. */
export function teardown(): void {
  endShared(join(folder, "servers"));
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

/** What runs have left that were killed before their end. */
function removeOrphans(place: string): void {
  for (const name of readdirSync(place)) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length).split("-")[0]) : Number.NaN;
    if (Number.isInteger(pid) && !isAlive(pid)) rmSync(join(place, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** What TMPDIR says, else memory if it has room, else the disk. */
function roomyPlace(): string {
  if (process.env["TMPDIR"] !== undefined || !existsSync(MEMORY)) return tmpdir();
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize < MEMORY_LEAST_BYTES ? tmpdir() : MEMORY;
}
