/** Batches rows into statements with many rows, since a call of the driver costs as much as writing a small row. */
import type { Connection, Statement, Value } from "./driver.ts";

/** The numbers of rows per statement, largest first. */
const SIZES = [32, 8, 1] as const;

export class ManyRows {
  readonly #columns: number;
  readonly #statements: readonly { readonly rows: number; readonly statement: Statement }[];
  #values: Value[] = [];

  /** `sql` returns the statement for rows of parameters, each of the form `(?, ?)`. */
  constructor(connection: Connection, columns: number, sql: (rows: string) => string) {
    this.#columns = columns;
    const row = `(${Array(columns).fill("?").join(", ")})`;
    this.#statements = SIZES.map((rows) => ({
      rows,
      statement: connection.prepare(sql(Array(rows).fill(row).join(", "))),
    }));
  }

  add(...row: Value[]): void {
    for (const value of row) this.#values.push(value);
  }

  /** Runs the statements of the batch; returns how many rows they changed. */
  flush(): number {
    const values = this.#values;
    if (values.length === 0) return 0;
    this.#values = [];
    let from = 0;
    let changed = 0;
    for (const { rows, statement } of this.#statements) {
      const width = rows * this.#columns;
      for (; values.length - from >= width; from += width)
        changed += statement.run(width === values.length ? values : values.slice(from, from + width));
    }
    return changed;
  }

  /** Discards the batch, since its commit is rolled back. */
  clear(): void {
    this.#values = [];
  }
}
