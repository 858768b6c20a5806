import type { Link, RunOptions, Statement, Value } from "./link.ts";

/** A pool of connections for all statements except commits and membership. A statement uses the least busy connection. */
export class Links {
  readonly #links: readonly Link[];

  constructor(links: readonly Link[]) {
    this.#links = links;
  }

  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
    options: Omit<RunOptions<Row>, "session"> = { writes: false },
  ): Promise<Row[]> {
    const link = this.#links.reduce((best, other) => (other.busy < best.busy ? other : best));
    return (await link.run<Row>(statement, values, options)) ?? [];
  }

  async end(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.end()));
  }
}
