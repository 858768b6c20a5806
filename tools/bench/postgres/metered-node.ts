/** A node of a cluster of one, in this process, with a meter on its commits. */
import { openRondo, type Rondo } from "../../../src/index.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { Commit } from "../../../src/store/store.ts";
import { Meter } from "../metered-rondo.ts";

export interface MeteredNode {
  readonly rondo: Rondo;
  readonly meter: Meter;
}

/** Opens Rondo over a database as a program would. Hosts no workflow yet. */
export async function openMeteredNode(url: string): Promise<MeteredNode> {
  const meter = new Meter();
  // Programs name a store by its URL, so the store object is out of reach. Its class is metered instead.
  const commit = Reflect.get(PostgresStore.prototype, "commit");
  PostgresStore.prototype.commit = async function (this: PostgresStore, given: Commit) {
    const from = performance.now();
    const verdict = await commit.call(this, given);
    meter.note(given, performance.now() - from);
    return verdict;
  };
  return { rondo: await openRondo({ store: url }), meter };
}
