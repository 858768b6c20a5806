import type { Link, Statement, Value } from "./link.ts";

/** The connections beside that of the commits: a statement goes through the one that is least busy. */
export class Links {
  readonly #links: readonly Link[];

  constructor(links: readonly Link[]) {
    this.#links = links;
  }

  async run<Row extends readonly unknown[]>(
    statement: Statement,
    values: readonly Value[],
    options: { readonly writes: boolean } = { writes: false },
  ): Promise<Row[]> {
    const link = this.#links.reduce((best, other) => (other.busy < best.busy ? other : best));
    return (await link.run<Row>(statement, values, options)) ?? [];
  }

  async end(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.end()));
  }
}
