/**
 * A real PostgreSQL for tests, found in this order: the one that RONDO_TEST_POSTGRES names (a URL; it must let us
 * create schemas and databases); else one of our own, from the binaries of this machine, in a temporary folder on a
 * free port; else the same after installing them with apt-get. Where none of this works the tests fail and say so:
 * nothing is skipped. All test files of a run share one; those that stop, kill or tune theirs make one for themselves.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "../../tools/bench/free-ports.ts";
import { findBinaries, LocalPostgres } from "../../tools/bench/postgres/local-postgres.ts";
import { shareServer } from "../tools/shared-server.ts";

const MISSING =
  "there is no PostgreSQL for the tests: set RONDO_TEST_POSTGRES to the URL of one, or install it " +
  "(Debian: apt-get install postgresql)";

/** Several test files use it at a time. */
const SHARED = { max_connections: "300" };
let schemas = 0;

/** A server of our own, which can be stopped, killed and put back. */
export class PostgresServer extends LocalPostgres {
  static async make(): Promise<PostgresServer> {
    installIfMissing();
    const server = new PostgresServer(mkdtempSync(join(tmpdir(), "rondo-postgres-")), await freePort());
    await server.start();
    return server;
  }

  async remove(): Promise<void> {
    await this.stop();
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
    const { url } = await shareServer("postgres", async (place) => {
      installIfMissing();
      const server = new LocalPostgres(place, await freePort());
      await server.start(SHARED);
      server.unref();
      return { url: server.url, pids: server.pid === null ? [] : [server.pid], end: "SIGQUIT" };
    });
    return new TestDatabase(null, url);
  }

  /** On a server of our own, for tests that stop it. */
  static of(server: PostgresServer): TestDatabase {
    return new TestDatabase(server, server.url);
  }

  newSchema(): string {
    const name = `rondo_test_${process.pid}_${schemas++}`;
    this.#made.push(name);
    return name;
  }

  /** A connection outside of any store. */
  async client(url = this.url): Promise<pg.Client> {
    const client = new pg.Client(url);
    // The server may be stopped at any moment: the query says so.
    client.on("error", () => {});
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

function installIfMissing(): void {
  if (findBinaries() !== null) return;
  const apt = spawnSync("sh", ["-c", "apt-get update -q && apt-get install -qy postgresql"], {
    encoding: "utf8",
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  if (apt.status !== 0 || findBinaries() === null) throw new Error(`${MISSING}\n${apt.stderr ?? ""}`);
}
