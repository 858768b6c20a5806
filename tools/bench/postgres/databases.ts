/** The PostgreSQL server of the scenarios, with a database for each scenario that is dropped afterwards. */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../free-ports.ts";
import { LocalPostgres } from "./local-postgres.ts";
import { queryAt } from "./query-at.ts";

export class Databases {
  readonly #url: string;
  /** The private server; null if the server was not started here. */
  readonly #local: LocalPostgres | null;
  /** The server, and the settings that figures depend on, in words. */
  readonly about: string;
  readonly #made = new Set<string>();

  private constructor(url: string, local: LocalPostgres | null, about: string) {
    this.#url = url;
    this.#local = local;
    this.about = about;
  }

  /** Uses this server, or starts a private one in this folder if none is named. */
  static async open(url: string | null, folder: string): Promise<Databases> {
    const local = url === null ? await makeLocal(folder) : null;
    const at = local?.url ?? (url as string);
    try {
      await local?.start();
      return new Databases(at, local, await describe(at));
    } catch (error) {
      await local?.stop();
      throw error;
    }
  }

  /** Creates an empty database; returns its URL. */
  async make(scenario: string): Promise<string> {
    const name = `rondo_bench_${process.pid}_${scenario.replaceAll("-", "_")}`;
    await queryAt(this.#url, `CREATE DATABASE ${name}`);
    this.#made.add(name);
    const url = new URL(this.#url);
    url.pathname = `/${name}`;
    return url.href;
  }

  async drop(url: string): Promise<void> {
    const name = new URL(url).pathname.slice(1);
    await queryAt(this.#url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    this.#made.delete(name);
  }

  /** Drops all databases; with `keep`, leaves the databases of a server that goes on. */
  async close(keep: boolean): Promise<void> {
    if (this.#local !== null) return this.#local.stop();
    if (keep) return;
    for (const name of this.#made) await queryAt(this.#url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  }

  /** Ends a private server at once, for when this process ends. */
  kill(): void {
    this.#local?.kill();
  }
}

async function makeLocal(folder: string): Promise<LocalPostgres> {
  const place = join(folder, "postgres");
  mkdirSync(place);
  // The server may have to run as another user.
  chmodSync(folder, 0o755);
  return new LocalPostgres(place, await freePort());
}

async function describe(url: string): Promise<string> {
  const shown = ["synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "max_wal_size"];
  const [row] = await queryAt(
    url,
    `SELECT current_setting('server_version') AS version${shown.map((name) => `, current_setting('${name}') AS ${name}`).join("")}`,
  );
  return `PostgreSQL ${String(row?.["version"])}: ${shown.map((name) => `${name}=${String(row?.[name])}`).join(", ")}`;
}
