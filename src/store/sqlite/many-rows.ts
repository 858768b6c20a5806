/** Collects rows and writes many of them with one statement, because a call of the driver costs as much as writing a small row. */
import type { Connection, Statement, Value } from "./driver.ts";

/** The possible numbers of rows in one statement, largest first. */
const SIZES = [64, 16, 4, 1] as const;

export class ManyRows {
  readonly #connection: Connection;
  /** The number of columns that differ from row to row. */
  readonly #own: number;
  readonly #sql: (rows: string) => string;
  readonly #statements: (Statement | null)[] = SIZES.map(() => null);
  #values: Value[] = [];
  #shared: readonly Value[] = [];
  /** The number of rows that statements have changed since the last `flush`. */
  #changed = 0;

  /**
   * `sql` gets the parameters of the rows, each in the form `(?, ?)`, and returns the statement. The statement may have more
   * parameters after them, for columns that have the same value in all rows (`share`). Such a value is bound only once.
   */
  constructor(connection: Connection, own: number, sql: (rows: string) => string) {
    this.#connection = connection;
    this.#own = own;
    this.#sql = sql;
  }

  add(...row: Value[]): void {
    for (const value of row) this.#values.push(value);
  }

  /** Sets the shared values of the next rows. If they differ from the current ones, the rows collected so far are written first. */
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

  /** Discards the collected rows, because their commit is rolled back. */
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

  /** Returns the statement for a number of rows. It is prepared on first use. */
  #statement(size: number): Statement {
    const known = this.#statements[size] ?? null;
    if (known !== null) return known;
    const row = `(${Array(this.#own).fill("?").join(", ")})`;
    const statement = this.#connection.prepare(this.#sql(Array(SIZES[size]).fill(row).join(", ")));
    this.#statements[size] = statement;
    return statement;
  }
}
