// Talk with an execution in a cluster over PostgreSQL, whose owner is killed twice: updates, published values, a stream and a token for the
// execution go on at the other node, each exactly once.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { connect } from "../../../src/client.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { until } from "../../fixtures/until.ts";

const flows = join(import.meta.dirname, "../../fixtures/cluster/talk-flows.mjs");
const chunks = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `${letter}${n}`);

async function ownerOf(fixture: ClusterFixture, id: string): Promise<NodePlace> {
  const rows = await fixture.partitions();
  const { url } = rows[partitionOf(id, rows.length)] ?? {};
  return fixture.nodes.find((node) => node.url === url) as NodePlace;
}

test("updates, values, a stream and a token survive the ends of their owners", {
  timeout: 240_000,
}, async () => {
  const fixture = await openCluster({ flows });
  await fixture.worker();
  const [id = ""] = await fixture.idsByNode("talk");
  await fixture.start("agent", null, id);
  await fixture.start("agent", null, "other");
  const maker = connect({ urls: fixture.urls });
  const { token } = await maker.tokenFor(id, { scopes: ["read", "signal", "update"], expires: "1h" });
  await using page = connect({ urls: fixture.urls, token });
  await maker.close();
  const talk = page.execution(id);
  const followed: unknown[] = [];
  const following = (async () => {
    for await (const piece of talk.stream("answer")) followed.push(...piece.chunks);
  })();
  expect(await talk.update("add", 1, { id: "u1" })).toBe(1);

  // The owner dies while an update is on its way. The client sends it again by its id.
  const second = talk.update("add", 10, { id: "u2", timeout: "120s" });
  await fixture.nodes[0]?.running.kill();
  expect(await second).toBe(11);
  expect(await talk.update("add", 1, { id: "u1" })).toBe(1);
  expect(await talk.update("add", 10, { id: "u2" })).toBe(11);
  await until("the value of the answer is published", async () => (await talk.published())["sum"] === 11);
  expect(await talk.update("add", 100, { id: "u3" })).toBe(111);

  // The owner dies while a step writes.
  await fixture.startNode(fixture.nodes[0] as NodePlace);
  await fixture.settled();
  await until("the step writes", () => followed.includes("b4"));
  await (await ownerOf(fixture, id)).running.kill();
  writeFileSync(join(fixture.folder, "gates", "talk"), "");
  await until("the step is done", () => followed.includes("b9"));
  await talk.signal("end", null, { id: "s" });
  expect(await talk.result()).toBe(111);
  await following;
  const all = [...chunks("a", 5), ...chunks("b", 10)];
  expect(await talk.stream("answer").chunks()).toEqual(all);
  expect(new Set(followed)).toEqual(new Set(all));
  expect(await talk.published()).toEqual({ sum: 111 });
  // Each update was answered once.
  const steps = (await fixture.eventsOf(id, "task.step")).filter((event) => event["answers"] !== undefined);
  expect(steps.map((event) => event["answers"])).toEqual(["u1", "u2", "u3"]);
  // The token opens this execution alone, at every node.
  await expect(page.execution("other").status()).rejects.toMatchObject({ code: "forbidden" });
  await expect(talk.cancel()).rejects.toMatchObject({ code: "forbidden" });
});
