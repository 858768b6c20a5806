/**
 * A private PostgreSQL for the bench and for tests, from the binaries of this machine. It has its own folder, a free port and
 * default settings, so that every commit is on disk when it is acknowledged.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chownSync, closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { canConnect } from "./query-at.ts";

const START_MS = 60_000;
const ASK_MS = 20;

export class LocalPostgres {
  readonly place: string;
  readonly port: number;
  readonly #bin: string;
  readonly #user = otherUser();
  #process: ChildProcess | null = null;

  /**
   * Prepares a server in this folder, which must be empty and accessible to other users. Does not start it. `isStandby`: it gets
   * its data from a primary (`follow`).
   */
  constructor(place: string, port: number, { isStandby = false }: { readonly isStandby?: boolean } = {}) {
    const bin = findBinaries();
    if (bin === null)
      throw new Error(
        "there is no PostgreSQL on this machine: install it (Debian: apt-get install postgresql), or name a server",
      );
    this.place = place;
    this.port = port;
    this.#bin = bin;
    this.give(place);
    if (isStandby) return;
    const flags = ["-U", "rondo", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"];
    const made = spawnSync(join(bin, "initdb"), ["-D", this.data, ...flags], {
      ...this.#user,
      cwd: place,
      encoding: "utf8",
    });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  }

  get data(): string {
    return join(this.place, "data");
  }

  get url(): string {
    return `postgres://rondo@127.0.0.1:${this.port}/postgres`;
  }

  get isRunning(): boolean {
    return this.#process !== null && !hasEnded(this.#process);
  }

  /** The id of the postmaster, which ends the other processes; null if it does not run. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** The output of the server. */
  get log(): string {
    return readFileSync(join(this.place, "server.log"), "utf8");
  }

  /** Starts the server; resolves when it accepts clients. */
  async start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    const given = { listen_addresses: "127.0.0.1", unix_socket_directories: "", ...settings };
    const args = Object.entries(given).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const until = performance.now() + START_MS;
    let child = this.#spawn(args);
    while (!(await canConnect(this.url))) {
      const isOver = performance.now() > until;
      // After a kill, processes of the former server may still exist for a moment, and prevent the start.
      if (
        hasEnded(child) &&
        !isOver &&
        this.log.trimEnd().split("\n").slice(-3).join().includes("still in use")
      )
        child = this.#spawn(args);
      else if (hasEnded(child) || isOver) {
        this.kill();
        throw new Error(`PostgreSQL did not start: ${this.log}`);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
  }

  #spawn(args: readonly string[]): ChildProcess {
    const log = openSync(join(this.place, "server.log"), "a");
    const child = spawn(join(this.#bin, "postgres"), ["-D", this.data, "-p", String(this.port), ...args], {
      ...this.#user,
      cwd: this.place,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#process = child;
    return child;
  }

  /** Replaces the server's data by a copy of a running server, which it follows as a standby from its next start. */
  async follow(primary: LocalPostgres): Promise<void> {
    rmSync(this.data, { recursive: true, force: true });
    const args = [
      "-D",
      this.data,
      "-d",
      primary.url,
      "--write-recovery-conf",
      "--checkpoint=fast",
      "--no-sync",
    ];
    const child = spawn(join(this.#bin, "pg_basebackup"), args, {
      ...this.#user,
      cwd: this.place,
      stdio: ["ignore", "ignore", "inherit"],
    });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new Error(`pg_basebackup ended with ${code}`);
  }

  /** Stops the server. fast: connections are cut; immediate: like a power failure; kill: the postmaster is killed too. */
  async stop(mode: "fast" | "immediate" | "kill" = "immediate"): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || hasEnded(child)) return;
    const gone = once(child, "exit");
    child.kill(mode === "fast" ? "SIGINT" : mode === "immediate" ? "SIGQUIT" : "SIGKILL");
    await gone;
  }

  /** Kills the server without waiting for its end, so that it can be called when this process exits. */
  kill(): void {
    this.#process?.kill("SIGQUIT");
  }

  /** Lets this process end while the server goes on. */
  unref(): void {
    this.#process?.unref();
  }

  /** Makes the server's user the owner of a folder. */
  give(path: string): void {
    if (this.#user === null) return;
    chownSync(path, this.#user.uid, this.#user.gid);
    for (const name of readdirSync(path, { recursive: true, encoding: "utf8" }))
      chownSync(join(path, name), this.#user.uid, this.#user.gid);
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Finds PostgreSQL: the newest version in Debian's layout, or the one in the PATH; null: there is none. */
export function findBinaries(): string | null {
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

/** PostgreSQL refuses to run as root, so it runs as its own user, or as the user nobody. */
export function otherUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) =>
      Number(spawnSync("id", [flag, name], { encoding: "utf8" }).stdout),
    );
    if (uid !== undefined && gid !== undefined && uid > 0) return { uid, gid };
  }
  throw new Error("PostgreSQL does not run as root, and there is no other user to run it as");
}
