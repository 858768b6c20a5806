/** Batches rows into statements with many rows, since a call of the driver costs as much as writing a small row. */
import type { Connection, Statement, Value } from "./driver.ts";

/** The numbers of rows per statement, largest first. */
const SIZES = [64, 16, 4, 1] as const;

export class ManyRows {
  readonly #connection: Connection;
  /** The number of columns that differ from row to row. */
  readonly #own: number;
  readonly #sql: (rows: string) => string;
  readonly #statements: (Statement | null)[] = SIZES.map(() => null);
  #values: Value[] = [];
  #shared: readonly Value[] = [];
  /** How many rows the statements changed that ran since the last `flush`. */
  #changed = 0;

  /**
   * `sql` returns the statement for rows of parameters, each of the form `(?, ?)`. After them it may have parameters for columns
   * whose values the rows share (`share`): such a value is bound once in a statement.
   */
  constructor(connection: Connection, own: number, sql: (rows: string) => string) {
    this.#connection = connection;
    this.#own = own;
    this.#sql = sql;
  }

  add(...row: Value[]): void {
    for (const value of row) this.#values.push(value);
  }

  /** Sets the values of shared columns for the next rows. If they differ from those before, the rows so far are written. */
  share(values: readonly Value[]): void {
    const before = this.#shared;
    if (before.length === values.length && values.every((value, i) => value === before[i])) return;
    this.#run();
    this.#shared = values;
  }

  /** Runs the statements of the batch; returns how many rows they changed. */
  flush(): number {
    this.#run();
    const changed = this.#changed;
    this.#changed = 0;
    return changed;
  }

  /** Discards the batch, since its commit is rolled back. */
  clear(): void {
    this.#values = [];
    this.#changed = 0;
  }

  #run(): void {
    const values = this.#values;
    if (values.length === 0) return;
    this.#values = [];
    const { length } = values;
    let from = 0;
    for (const [i, rows] of SIZES.entries()) {
      const width = rows * this.#own;
      for (; length - from >= width; from += width) {
        const given = width === length ? values : values.slice(from, from + width);
        for (const value of this.#shared) given.push(value);
        this.#changed += this.#statement(i).run(given);
      }
    }
  }

  /** The statement of a size, which is prepared when it is needed first. */
  #statement(size: number): Statement {
    const known = this.#statements[size] ?? null;
    if (known !== null) return known;
    const row = `(${Array(this.#own).fill("?").join(", ")})`;
    const statement = this.#connection.prepare(this.#sql(Array(SIZES[size]).fill(row).join(", ")));
    this.#statements[size] = statement;
    return statement;
  }
}
