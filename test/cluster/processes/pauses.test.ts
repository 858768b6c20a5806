// Nodes that are paused one after another, so that each in its turn believes to be alone: workers find their way back.
import { expect, test } from "vitest";
import { SeededRandom } from "../../../src/std/random.ts";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import type { FaultProcess } from "../../fixtures/faults/fault-process-fixture.ts";
import { effort } from "../../fixtures/long.ts";
import { until } from "../../fixtures/until.ts";

/** The URLs of the nodes whose leases run. */
async function members(fixture: ClusterFixture): Promise<string[]> {
  const rows = await fixture.query<{ url: string }>(
    "SELECT url FROM rondo.nodes WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000 ORDER BY url",
  );
  return rows.map(({ url }) => url);
}

async function pause(fixture: ClusterFixture, places: readonly NodePlace[]): Promise<void> {
  for (const place of places) place.running.signal("SIGSTOP");
  const urls = places.map(({ url }) => url);
  await until(
    "paused nodes are no members",
    async () => !(await members(fixture)).some((url) => urls.includes(url)),
  );
}

test("all nodes are paused, each goes on alone for a while, then all: every execution ends", {
  timeout: 300_000,
}, async () => {
  const fixture = await openCluster({ nodes: 3, leaseMs: effort({ usual: 1_500, long: 10_000 }) });
  const workers = [await fixture.worker(), await fixture.worker()];
  const [a, b, c] = fixture.nodes as [NodePlace, NodePlace, NodePlace];
  await fixture.start("tasks", { tasks: 3 }, "before");
  await fixture.ended("before");
  await pause(fixture, fixture.nodes);
  // The first one is alone, takes everything, and names only itself; its workers work for it.
  a.running.signal("SIGCONT");
  await fixture.insistAt(a, "POST", "/v1/executions", {
    workflow: "tasks",
    input: { tasks: 3 },
    id: "alone",
  });
  await until("the execution ends at the only node", async () => {
    const answer = await fixture.ask(a, "GET", "/v1/executions/alone");
    return (answer?.body as { status?: string } | undefined)?.status === "done";
  });
  await pause(fixture, [a]);
  // The second one is alone now, and says the same of itself.
  b.running.signal("SIGCONT");
  const ids = Array.from({ length: 9 }, (_, i) => `after-${i}`);
  for (const id of ids.slice(0, 3))
    await fixture.insistAt(b, "POST", "/v1/executions", { workflow: "tasks", input: { tasks: 3 }, id });
  for (const place of [a, c]) place.running.signal("SIGCONT");
  for (const id of ids.slice(3)) await fixture.start("tasks", { tasks: 3 }, id);
  for (const id of ids) {
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(await fixture.audit(id)).toEqual([]);
  }
  expect(workers.map(({ hasEnded }) => hasEnded)).toEqual([false, false]);
});

// Minutes: only with RONDO_TEST_LONG=1.
test.runIf(effort({ usual: 0, long: 1 }) === 1)(
  "nodes and workers are paused in any order, for longer and shorter than a lease: after each round all workers work again",
  { timeout: 900_000 },
  async () => {
    const fixture = await openCluster({ nodes: 3, leaseMs: 10_000 });
    const workers = [await fixture.worker(["--capacity", "1"]), await fixture.worker(["--capacity", "1"])];
    const random = new SeededRandom("pauses");
    for (let round = 0; round < 6; round++) {
      const paused = new Set<FaultProcess>();
      const processes = [...fixture.nodes.map(({ running }) => running), ...workers];
      for (let i = 0; i < 8; i++) {
        const one = random.pick(processes);
        if (paused.delete(one)) one.signal("SIGCONT");
        else {
          one.signal("SIGSTOP");
          paused.add(one);
        }
        await new Promise((resolve) => setTimeout(resolve, random.between(100, 6_000)));
      }
      for (const one of paused) one.signal("SIGCONT");
      // Each holds one task: both workers must be there.
      const id = `round-${round}`;
      await fixture.start("tasks", { tasks: 2, hold: { 0: ["begin"], 1: ["begin"] } }, id);
      for (const { pid } of workers) await fixture.ledger.seen({ what: "held", execution: id, pid });
      for (const task of [0, 1]) fixture.openGate(id, task, "begin");
      expect(await fixture.ended(id)).toMatchObject({ status: "done" });
      expect(await fixture.audit(id)).toEqual([]);
    }
    expect(workers.map(({ hasEnded }) => hasEnded)).toEqual([false, false]);
  },
);
