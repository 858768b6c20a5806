/** A cluster that goes with the test, on one PostgreSQL for all tests of a file. */
import { afterAll, onTestFinished } from "vitest";
import { PostgresServer } from "../../store/postgres-server.ts";
import { ClusterBench, type ClusterBenchOptions } from "./cluster-bench.ts";

/** Short, so that nobody waits long for a node that died; not so short that one that lives is late. */
export const LEASE_MS = 3_000;

let server: Promise<PostgresServer> | null = null;

afterAll(async () => {
  await (await server)?.remove();
});

export async function openCluster(options: Partial<ClusterBenchOptions> = {}): Promise<ClusterBench> {
  server ??= PostgresServer.make();
  const bench = await ClusterBench.open({ nodes: 2, leaseMs: LEASE_MS, ...options, server: await server });
  onTestFinished(() => bench.close());
  return bench;
}
