/**
 * Servers that all test files of a run share: the first file that needs one starts it, the others find it by what that
 * one wrote down, and the end of the run stops it (global-setup.ts). Starting one costs seconds.
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { until } from "../faults/until.ts";

/** The variable that names the folder of the run. */
export const PLACE = "RONDO_TEST_SERVERS";
const NOTE = "note.json";

/** How a server is reached and ended. */
export interface SharedServer {
  readonly url: string;
  /** Where it is administered, if that is elsewhere. */
  readonly management?: string;
  readonly pids: readonly number[];
  /** What ends it at once: it keeps nothing that anybody wants. */
  readonly end: "SIGKILL" | "SIGQUIT";
}

/** The server of this name. `start` gets an empty folder; what it starts must outlive this process. */
export async function shareServer(
  name: string,
  start: (place: string) => Promise<SharedServer>,
): Promise<SharedServer> {
  const all = process.env[PLACE];
  if (all === undefined) throw new Error(`${PLACE} is not set: test/tools/global-setup.ts did not run`);
  const home = join(all, name);
  mkdirSync(home, { recursive: true });
  const note = join(home, NOTE);
  if (!isFirst(join(home, "asked"))) {
    await until(`another test file has started ${name}`, () => existsSync(note), { limitMs: 120_000 });
    const found = JSON.parse(readFileSync(note, "utf8")) as SharedServer | { readonly error: string };
    if ("error" in found) throw new Error(found.error);
    return found;
  }
  const write = (what: SharedServer | { readonly error: string }): void => {
    writeFileSync(`${note}.new`, JSON.stringify(what));
    renameSync(`${note}.new`, note);
  };
  try {
    const place = join(home, "place");
    mkdirSync(place);
    const server = await start(place);
    write(server);
    return server;
  } catch (error) {
    write({ error: error instanceof Error ? error.message : String(error) });
    throw error;
  }
}

/** Ends all that were started in the folder of a run. */
export function endShared(all: string): void {
  for (const name of readdirSync(all)) {
    const note = join(all, name, NOTE);
    if (!existsSync(note)) continue;
    const { pids = [], end = "SIGKILL" } = JSON.parse(readFileSync(note, "utf8")) as Partial<SharedServer>;
    for (const pid of pids) endProcess(pid, end);
  }
}

function endProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}

function isFirst(mark: string): boolean {
  try {
    closeSync(openSync(mark, "wx"));
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
