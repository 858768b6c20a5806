import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openWhole } from "../open-whole.ts";

/** The store of a schema, which its opener owns as a whole. */
export function wholeDatabase(url: string, schema: string): Store {
  const store = new PostgresStore({ url, nodeUrl: "http://one", schema, leaseMs: 600_000 });
  return new Proxy(store, {
    get(target, name) {
      if (name === "open") return () => openWhole(target);
      // Seen as an embedded one, which is owned by being open.
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
    has: (target, name) => name !== "renew" && name in target,
  });
}
