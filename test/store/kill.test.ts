import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreChild } from "./child-process.ts";
import { describeKill } from "./kill.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

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
