/**
 * A process that owns a store, for tests that kill it. Modes:
 *   hold DIRECTORY           opens, announces an address, says "open", closes cleanly when its input ends;
 *   commit DIRECTORY         says "open N" (N = commits already there), then commits (child-commits.mjs);
 *   postgres URL SCHEMA      the same, as a node of a cluster with a short lease, which it does not renew.
 */
import { PostgresStore } from "../../dist/src/store/postgres/postgres-store.js";
import { SqliteStore } from "../../dist/src/store/sqlite/sqlite-store.js";
import { fenceOf } from "../../dist/src/store/store.js";
import { commitPairs, say } from "./child-commits.mjs";

const [mode, place, schema] = process.argv.slice(2);

if (mode === "postgres") {
  const store = new PostgresStore({
    url: place,
    nodeUrl: "http://child",
    schema,
    partitions: 1,
    leaseMs: 300,
  });
  const { generation } = await store.open();
  let owned = [];
  // The node before may not have lapsed yet.
  while (owned.length === 0) {
    await store.renew();
    owned = await store.take([0]);
  }
  await commitPairs(store, fenceOf({ generation, owned }));
}
const store = new SqliteStore({ directory: place });
const fence = fenceOf(await store.open());
if (mode === "commit") await commitPairs(store, fence);
await store.announce("http://localhost:4321");
say("open");
for await (const _ of process.stdin);
await store.close({ clean: true });
