// Real nodes and workers over a primary and a synchronous standby: the primary is killed under load, the standby promoted.
import { expect, onTestFinished, test } from "vitest";
import { ClusterFixture, type NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { LEASE_MS } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { StartLoad } from "../../fixtures/cluster/start-load-fixture.ts";
import { PostgresPair } from "../../fixtures/store/postgres-pair-fixture.ts";
import { until } from "../../fixtures/until.ts";

test("nodes survive the promotion of a standby: all that they accepted is done, once", {
  timeout: 120_000,
}, async () => {
  const pair = await PostgresPair.make({ isSynchronous: true });
  onTestFinished(() => pair.remove());
  const fixture = await ClusterFixture.open({ nodes: 2, leaseMs: LEASE_MS, server: pair });
  onTestFinished(() => fixture.close());
  await fixture.worker();
  const load = new StartLoad(fixture);
  await load.reach(20);
  await pair.killPrimary();
  for (const place of fixture.nodes)
    await until("the node is not ready", () => isFailingOver(fixture, place));
  const before = load.accepted.length;
  await pair.promote();
  await load.reach(before + 20);
  await load.stop();
  for (const id of load.accepted) {
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(await fixture.audit(id)).toEqual([]);
  }
  for (const place of fixture.nodes) {
    await until(
      "the node is ready",
      async () => (await fixture.ask(place, "GET", "/readyz"))?.status === 200,
    );
    await place.running.line(/the database is failing over: this node goes on when a host accepts writes/);
    await place.running.line(
      /the database has moved from 127\.0\.0\.1:\d+ to 127\.0\.0\.1:\d+ \(timeline 2\)/,
    );
    await place.running.line(/the store works again/);
  }
});

async function isFailingOver(fixture: ClusterFixture, place: NodePlace): Promise<boolean> {
  const answer = await fixture.ask(place, "GET", "/readyz");
  return answer?.status === 503 && JSON.stringify(answer.body).includes("the database is failing over");
}
