import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { describeStore } from "./conformance.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

describeStore("memory", () => {
  const tables = new MemoryTables();
  return () => new MemoryStore(tables);
});

describeStore("sqlite", () => {
  const directory = temporaryDirectory();
  return () => new SqliteStore({ directory });
});
