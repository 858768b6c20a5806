import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreChild } from "../fixtures/store/child-process-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";
import { describeKill } from "./suites/kill.ts";

describeKill("sqlite", () => {
  const directory = temporaryDirectory();
  return {
    run: () => StoreChild.run("commit", directory),
    open: async () => {
      const store = new SqliteStore({ directory });
      return { store, info: await store.open() };
    },
  };
});
