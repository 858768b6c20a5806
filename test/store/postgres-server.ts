/**
 * A real PostgreSQL for tests, found in this order: the one that RONDO_TEST_POSTGRES names (a URL; it must let us
 * create schemas); else one of our own, from the binaries of this machine, in a temporary folder on a free port, with
 * its durability on; else the same after installing them with apt-get. Where none of this works the tests fail and
 * say so: nothing is skipped.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { until } from "../faults/until.ts";

const MISSING =
  "there is no PostgreSQL for the tests: set RONDO_TEST_POSTGRES to the URL of one, or install it " +
  "(Debian: apt-get install postgresql)";

/** A server of our own, which can be stopped, killed and put back. */
export class PostgresServer {
  readonly #bin: string;
  readonly #user: { uid: number; gid: number } | null;
  readonly place: string;
  readonly port: number;
  #process: ChildProcess | null = null;

  private constructor(bin: string, place: string, port: number) {
    this.#bin = bin;
    this.#user = otherUser();
    this.place = place;
    this.port = port;
  }

  static async make(): Promise<PostgresServer> {
    const bin = findBinaries();
    const server = new PostgresServer(bin, mkdtempSync(join(tmpdir(), "rondo-postgres-")), await freePort());
    if (server.#user !== null) {
      chmodSync(server.place, 0o755);
      chownSync(server.place, server.#user.uid, server.#user.gid);
    }
    const flags = ["-U", "rondo", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"];
    const made = spawnSync(join(bin, "initdb"), ["-D", server.data, ...flags], {
      ...server.#user,
      cwd: server.place,
      encoding: "utf8",
    });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
    await server.start();
    return server;
  }

  get data(): string {
    return join(this.place, "data");
  }

  get isRunning(): boolean {
    return this.#process !== null && this.#process.exitCode === null;
  }

  get url(): string {
    return `postgres://rondo@127.0.0.1:${this.port}/postgres`;
  }

  /** Resolves when it lets clients in. */
  async start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    const given = { listen_addresses: "127.0.0.1", unix_socket_directories: "", ...settings };
    const args = Object.entries(given).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const log = openSync(join(this.place, "server.log"), "a");
    const child = spawn(join(this.#bin, "postgres"), ["-D", this.data, "-p", String(this.port), ...args], {
      ...this.#user,
      cwd: this.place,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#process = child;
    await until("PostgreSQL lets clients in", () => child.exitCode !== null || letsIn(this.url), {
      limitMs: 60_000,
    });
    if (child.exitCode !== null) throw new Error(`PostgreSQL did not start: ${this.log}`);
  }

  /** What the server has said. */
  get log(): string {
    return readFileSync(join(this.place, "server.log"), "utf8");
  }

  /** fast: connections are cut; immediate: as if the power went; kill: the postmaster is killed, too. */
  async stop(mode: "fast" | "immediate" | "kill"): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    this.#process = null;
    const gone = once(child, "exit");
    child.kill(mode === "fast" ? "SIGINT" : mode === "immediate" ? "SIGQUIT" : "SIGKILL");
    await gone;
  }

  /** Makes a folder the server's own. */
  give(path: string): void {
    if (this.#user === null) return;
    chownSync(path, this.#user.uid, this.#user.gid);
    for (const name of readdirSync(path, { recursive: true, encoding: "utf8" }))
      chownSync(join(path, name), this.#user.uid, this.#user.gid);
  }

  async remove(): Promise<void> {
    await this.stop("immediate");
    rmSync(this.place, { recursive: true, force: true });
  }
}

/** Where tests make their stores: a database, and names for schemas that are not used yet. */
export class TestDatabase {
  readonly server: PostgresServer | null;
  readonly url: string;
  readonly #made: string[] = [];

  private constructor(server: PostgresServer | null, url: string) {
    this.server = server;
    this.url = url;
  }

  static async make(): Promise<TestDatabase> {
    const given = process.env["RONDO_TEST_POSTGRES"];
    if (given !== undefined && given !== "") return new TestDatabase(null, given);
    return TestDatabase.of(await PostgresServer.make());
  }

  /** On a server of our own, for tests that stop it. */
  static of(server: PostgresServer): TestDatabase {
    return new TestDatabase(server, server.url);
  }

  newSchema(): string {
    const name = `rondo_test_${process.pid}_${this.#made.length}`;
    this.#made.push(name);
    return name;
  }

  /** A connection outside of any store. */
  async client(): Promise<pg.Client> {
    const client = new pg.Client(this.url);
    await client.connect();
    return client;
  }

  /** Runs one statement outside of any store. */
  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const client = await this.client();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  async remove(): Promise<void> {
    if (this.server !== null) return this.server.remove();
    for (const schema of this.#made) await this.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
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

function findBinaries(): string {
  const found = binaries();
  if (found !== null) return found;
  const apt = spawnSync("sh", ["-c", "apt-get update -q && apt-get install -qy postgresql"], {
    encoding: "utf8",
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  const installed = apt.status === 0 ? binaries() : null;
  if (installed === null) throw new Error(`${MISSING}\n${apt.stderr ?? ""}`);
  return installed;
}

/** The newest version that Debian's layout has, or else what the path leads to. */
function binaries(): string | null {
  const base = "/usr/lib/postgresql";
  const versions = existsSync(base) ? readdirSync(base).map(Number) : [];
  for (const version of versions.toSorted((a, b) => b - a)) {
    const bin = join(base, String(version), "bin");
    if (existsSync(join(bin, "initdb"))) return bin;
  }
  const which = spawnSync("sh", ["-c", "dirname $(command -v initdb)"], { encoding: "utf8" });
  const bin = which.stdout?.trim() ?? "";
  return bin !== "" && existsSync(join(bin, "postgres")) ? bin : null;
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
  throw new Error(`${MISSING}, and a user other than root to run it as`);
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
