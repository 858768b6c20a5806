/** A PostgreSQL for pages that speak of one: each gets an empty database. */
import { TestDatabase } from "../store/postgres-server.ts";

export class PageDatabase {
  readonly #server: TestDatabase;
  readonly #made: string[] = [];

  private constructor(server: TestDatabase) {
    this.#server = server;
  }

  static async make(): Promise<PageDatabase> {
    return new PageDatabase(await TestDatabase.make());
  }

  /** The URL of a database with nothing in it. */
  async empty(): Promise<string> {
    const name = `rondo_docs_${process.pid}_${this.#made.length}`;
    await this.#server.query(`CREATE DATABASE ${name}`);
    this.#made.push(name);
    const url = new URL(this.#server.url);
    url.pathname = `/${name}`;
    return url.href;
  }

  async remove(): Promise<void> {
    if (this.#server.server === null)
      for (const name of this.#made) await this.#server.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await this.#server.remove();
  }
}
