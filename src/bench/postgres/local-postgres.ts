/**
 * A PostgreSQL of the bench's own, from the binaries of this machine: in a temporary folder, on a free port, with its
 * settings as they come, so that every commit is on the disk when it is acknowledged.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import pg from "pg";

const START_MS = 60_000;
const ASK_MS = 20;

export class LocalPostgres {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** Makes one in this folder; resolves when it lets clients in. */
  static async start(folder: string): Promise<LocalPostgres> {
    const bin = findBinaries();
    const user = otherUser();
    const place = join(folder, "postgres");
    mkdirSync(place);
    if (user !== null) {
      chmodSync(folder, 0o755);
      chownSync(place, user.uid, user.gid);
    }
    const data = join(place, "data");
    const flags = ["-D", data, "-U", "rondo", "-A", "trust", "-E", "UTF8", "--locale=C"];
    const made = spawnSync(join(bin, "initdb"), flags, { ...user, cwd: place, encoding: "utf8" });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
    const port = await freePort();
    const log = openSync(join(place, "server.log"), "a");
    const settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
    const child = spawn(join(bin, "postgres"), ["-D", data, "-p", String(port), ...settings], {
      ...user,
      cwd: place,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    const server = new LocalPostgres(`postgres://rondo@127.0.0.1:${port}/postgres`, child);
    await server.#ready(join(place, "server.log"));
    return server;
  }

  /** Ends it at once; its folder can be removed then. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.kill();
    await gone;
  }

  /** The same without waiting, for when this process ends. */
  kill(): void {
    this.#child.kill("SIGQUIT");
  }

  async #ready(log: string): Promise<void> {
    const until = performance.now() + START_MS;
    while (!(await letsIn(this.url))) {
      if (this.#child.exitCode !== null || performance.now() > until) {
        this.kill();
        throw new Error(`PostgreSQL did not start: ${readFileSync(log, "utf8")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
  }
}

async function letsIn(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  try {
    await client.connect();
    await client.end();
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}

/** The newest version that Debian's layout has, or else what the path leads to. */
function findBinaries(): string {
  const base = "/usr/lib/postgresql";
  const versions = existsSync(base) ? readdirSync(base).map(Number) : [];
  for (const version of versions.toSorted((a, b) => b - a)) {
    const bin = join(base, String(version), "bin");
    if (existsSync(join(bin, "initdb"))) return bin;
  }
  const which = spawnSync("sh", ["-c", "dirname $(command -v initdb)"], { encoding: "utf8" });
  const bin = which.stdout?.trim() ?? "";
  if (bin !== "" && existsSync(join(bin, "postgres"))) return bin;
  throw new Error(
    "there is no PostgreSQL on this machine: install it (Debian: apt-get install postgresql), or name a server " +
      "by --store postgres://...",
  );
}

/** PostgreSQL refuses to run as root: then it runs as its own user, or as nobody. */
function otherUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) =>
      Number(spawnSync("id", [flag, name], { encoding: "utf8" }).stdout),
    );
    if (uid !== undefined && gid !== undefined && uid > 0) return { uid, gid };
  }
  throw new Error("PostgreSQL does not run as root, and there is no other user to run it as");
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
