// Loads rows of a file into a table, in batches of 200. A few rows are bad: up to 1 % of them are tolerated, and reported.
import { workflow } from "rondo";

interface Row {
  readonly line: number;
  readonly country: string;
  readonly amount: string;
}

const COUNTRIES = ["AT", "BE", "CH", "DE"];

/** Stands for a file that is read line by line. Every 997th row has no number. */
function* rowsOf(count: number): Generator<Row> {
  for (let line = 1; line <= count; line++) {
    const amount = line % 997 === 0 ? "n/a" : `${line % 100}.50`;
    yield { line, country: COUNTRIES[line % COUNTRIES.length] as string, amount };
  }
}

/** Checks and converts a row. */
function transform({ line, country, amount }: Row): { country: string; cents: number } | Error {
  if (!/^\d+\.\d\d$/.test(amount)) return new TypeError(`line ${line}: "${amount}" is not an amount`);
  return { country, cents: Math.round(Number(amount) * 100) };
}

export const etl = workflow<{ rows: number }>({ name: "etl" })
  .phase("load", {
    enumerate: ({ input }) => rowsOf(input.rows),
    batch: 200,
    processBatch: ({ tasks }) => tasks.map((row) => transform(row)),
    // A bad row stays bad, so it is not tried again.
    retry: { attempts: 1 },
    tolerate: "1%",
  })
  .returns(async ({ phases }) => {
    const cents = await phases.load.reduce<Record<string, number>>(
      (sums, row) => ({ ...sums, [row.country]: (sums[row.country] ?? 0) + row.cents }),
      {},
    );
    const bad: string[] = [];
    let failed = 0;
    for await (const { error } of phases.load.failures()) {
      failed++;
      if (bad.length < 3) bad.push(error.message);
    }
    return { loaded: phases.load.count, failed, cents, bad };
  });
