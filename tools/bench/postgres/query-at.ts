/** Single statements and connection tests at a PostgreSQL, each over a connection of its own. */
import pg from "pg";

/** Runs one statement and returns its rows. If the connection breaks meanwhile, the statement fails. */
export async function queryAt<Row extends pg.QueryResultRow = Record<string, unknown>>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client(url);
  // The failed statement has the same error.
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}

/** Whether a client can connect now. Errors without a code, which come from neither the network nor the server, are thrown. */
export async function canConnect(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  // The failed connection has the same error.
  client.on("error", () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error) return false;
    throw error;
  }
}
