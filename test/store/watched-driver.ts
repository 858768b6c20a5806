import { type Connection, type Driver, loadDriver } from "../../src/store/sqlite/driver.ts";

/** The runtime's driver, with the newest connection to a store's database within reach, and `exec` to be spoilt. */
export async function watchedDriver() {
  const driver = await loadDriver();
  const watched = {
    connection: null as Connection | null,
    /** Called before each `exec`; may throw in its place. */
    beforeExec: (_sql: string): void => {},
  };
  const open: Driver["open"] = (file, options) => {
    const connection = driver.open(file, options);
    if (!file.endsWith("rondo.db") || options?.readOnly === true) return connection;
    const exec = (sql: string): void => {
      watched.beforeExec(sql);
      connection.exec(sql);
    };
    watched.connection = { ...connection, exec };
    return watched.connection;
  };
  return { driver: { ...driver, open }, watched };
}
