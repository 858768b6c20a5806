/** Stores on a disk, one of each kind, whose rows a test can change while nobody has them open. */
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { storeOf } from "../../../src/compose/compose.ts";
import type { TransferPlace } from "../../../src/compose/compose-transfer.ts";
import { loadDriver } from "../../../src/store/sqlite/driver.ts";
import type { Store } from "../../../src/store/store.ts";
import { TestDatabase } from "../postgres-server.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { wholeDatabase } from "./whole-database.ts";

export interface StoreKind {
  readonly place: TransferPlace;
  readonly open: () => Store;
  /** Runs one statement in the closed store; `of` is what the name of a table begins with. */
  readonly run: (sql: (of: string) => string) => Promise<void>;
}

/** For the tests of one file. */
export function useStores(): { readonly names: readonly string[]; make(name: string): StoreKind } {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await TestDatabase.make();
  }, 120_000);
  afterAll(() => database.remove());
  const kinds: Readonly<Record<string, () => StoreKind>> = {
    embedded,
    PostgreSQL() {
      const schema = database.newSchema();
      return {
        ...{ place: { store: database.url, schema }, open: () => wholeDatabase(database.url, schema) },
        run: async (sql) => void (await database.query(sql(`${schema}.`))),
      };
    },
  };
  return { names: Object.keys(kinds), make: (name) => (kinds[name] as () => StoreKind)() };
}

function embedded(): StoreKind {
  const directory = join(temporaryDirectory(), "store");
  const place = { store: `file:${directory}` };
  return {
    ...{ place, open: () => storeOf(place.store) },
    async run(sql) {
      const connection = (await loadDriver()).open(join(directory, "rondo.db"));
      connection.exec(sql(""));
      connection.close();
    },
  };
}
