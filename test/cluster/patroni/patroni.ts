/** Fails a database over that Patroni manages, under a real cluster with load: all that was accepted must be done, once. */
import { ClusterFixture } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { StartLoad } from "../../fixtures/cluster/start-load-fixture.ts";
import { until } from "../../fixtures/until.ts";
import { PatroniPair } from "./patroni-pair.ts";

const LOAD = 50;

/** Returns what is wrong; nothing, if all is well. */
export async function failOverWithPatroni(say: (line: string) => void): Promise<readonly string[]> {
  const pair = await PatroniPair.start();
  try {
    say(`Patroni leads with ${pair.leader.name}, its standby is synchronous`);
    const fixture = await ClusterFixture.open({ nodes: 2, server: pair });
    try {
      return await failOver(pair, fixture, say);
    } finally {
      await fixture.close();
    }
  } finally {
    await pair.stop();
  }
}

async function failOver(
  pair: PatroniPair,
  fixture: ClusterFixture,
  say: (line: string) => void,
): Promise<string[]> {
  await fixture.worker();
  const load = new StartLoad(fixture);
  await load.reach(LOAD);
  say(`${load.accepted.length} executions accepted; killing ${pair.leader.name}`);
  await pair.killLeader();
  await until("Patroni has promoted the standby", () => pair.findLeader());
  const promotedAt = performance.now();
  const before = load.accepted.length;
  say(`Patroni leads with ${pair.leader.name}`);
  await load.reach(before + 1);
  say(`work goes on, ${Math.round(performance.now() - promotedAt)} ms later`);
  await load.reach(before + LOAD);
  await load.stop();
  const wrong: string[] = [];
  for (const id of load.accepted) {
    const { status } = await fixture.ended(id);
    if (status !== "done") wrong.push(`${id} is ${status}`);
    wrong.push(...(await fixture.audit(id)));
  }
  say(`${load.accepted.length} executions accepted, ${wrong.length} wrong`);
  return wrong;
}
