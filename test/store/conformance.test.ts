import { MemoryClusterStore } from "../../src/store/memory/memory-cluster-store.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { PARTITIONS } from "../fixtures/store/cluster-node-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";
import { describeStore } from "./suites/conformance.ts";
import { describeCluster } from "./suites/conformance-cluster.ts";

describeStore("memory", () => {
  const tables = new MemoryTables();
  return () => new MemoryStore(tables);
});

describeStore("memory of a cluster", () => {
  const tables = new MemoryTables();
  return () => new MemoryClusterStore(tables, { url: "http://node", clock: { now: () => 1 } });
});

describeStore("sqlite", () => {
  const directory = temporaryDirectory();
  return () => new SqliteStore({ directory });
});

describeCluster("memory", async () => {
  const tables = new MemoryTables({ partitions: PARTITIONS });
  const clock = { now: () => 1_000 };
  return {
    makeStore: (url) => new MemoryClusterStore(tables, { url, clock }),
    // As if it had joined so much earlier.
    lapse: async (incarnation) => void tables.renew({ url: "", incarnation, next: "", leaseMs: 0 }, 1_000),
    hintsCome: async () => {},
  };
});
