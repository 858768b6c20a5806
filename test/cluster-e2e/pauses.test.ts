// Nodes that are paused one after another, so that each in its turn believes to be alone: workers find their way back.
import { expect, test } from "vitest";
import { until } from "../faults/until.ts";
import { effort } from "../tools/long.ts";
import type { ClusterBench, NodePlace } from "./cluster-bench.ts";
import { openCluster } from "./open-cluster.ts";

/** The URLs of the nodes whose leases run. */
async function members(bench: ClusterBench): Promise<string[]> {
  const rows = await bench.query<{ url: string }>(
    "SELECT url FROM rondo.nodes WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000 ORDER BY url",
  );
  return rows.map(({ url }) => url);
}

async function pause(bench: ClusterBench, places: readonly NodePlace[]): Promise<void> {
  for (const place of places) place.running.signal("SIGSTOP");
  const urls = places.map(({ url }) => url);
  await until(
    "paused nodes are no members",
    async () => !(await members(bench)).some((url) => urls.includes(url)),
  );
}

test("all nodes are paused, each goes on alone for a while, then all: every execution ends", {
  timeout: 300_000,
}, async () => {
  const bench = await openCluster({ nodes: 3, leaseMs: effort({ usual: 1_500, long: 10_000 }) });
  const workers = [await bench.worker(), await bench.worker()];
  const [a, b, c] = bench.nodes as [NodePlace, NodePlace, NodePlace];
  await bench.start("tasks", { tasks: 3 }, "before");
  await bench.ended("before");
  await pause(bench, bench.nodes);
  // The first one is alone, takes everything, and names only itself; its workers work for it.
  a.running.signal("SIGCONT");
  await bench.insistAt(a, "POST", "/v1/executions", { workflow: "tasks", input: { tasks: 3 }, id: "alone" });
  await until("the execution ends at the only node", async () => {
    const answer = await bench.ask(a, "GET", "/v1/executions/alone");
    return (answer?.body as { status?: string } | undefined)?.status === "done";
  });
  await pause(bench, [a]);
  // The second one is alone now, and says the same of itself.
  b.running.signal("SIGCONT");
  const ids = Array.from({ length: 9 }, (_, i) => `after-${i}`);
  for (const id of ids.slice(0, 3))
    await bench.insistAt(b, "POST", "/v1/executions", { workflow: "tasks", input: { tasks: 3 }, id });
  for (const place of [a, c]) place.running.signal("SIGCONT");
  for (const id of ids.slice(3)) await bench.start("tasks", { tasks: 3 }, id);
  for (const id of ids) {
    expect(await bench.ended(id)).toMatchObject({ status: "done" });
    expect(await bench.audit(id)).toEqual([]);
  }
  expect(workers.map(({ hasEnded }) => hasEnded)).toEqual([false, false]);
});
