import type { Connection } from "./driver.ts";
import { DiskFailed } from "./faults.ts";

/** Runs writes in one transaction; rolls it back if they throw. */
export function inTransaction<T>(connection: Connection, write: () => T): T {
  connection.exec("BEGIN IMMEDIATE");
  try {
    const result = write();
    connection.exec("COMMIT");
    return result;
  } catch (error) {
    try {
      connection.rollback();
    } catch (failure) {
      throw new DiskFailed("a write failed, and its rollback failed too", failure);
    }
    throw error;
  }
}
