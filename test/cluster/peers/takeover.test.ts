// Nodes that take and hand over partitions by themselves, while somebody uses them.
import { describe, expect, test } from "vitest";
import {
  go,
  PARTITIONS,
  type PeerNode,
  PeerWorld,
  start,
} from "../../fixtures/cluster/peer-world-fixture.ts";

async function three() {
  const world = new PeerWorld();
  const nodes = [await world.node("a"), await world.node("b"), await world.node("c")] as const;
  for (const node of nodes) node.drive();
  const owned = (node: PeerNode) => partitions().filter((at) => node.owners.ownerAt(at).kind === "me");
  await world.passUntil(() => nodes.reduce((sum, node) => sum + owned(node).length, 0) === PARTITIONS);
  return { world, nodes, owned };
}

function partitions(): number[] {
  return Array.from({ length: PARTITIONS }, (_, at) => at);
}

/** Executions in many partitions, started at a node that watches each to its end. */
async function startAll(world: PeerWorld, node: PeerNode) {
  const ids = partitions()
    .filter((at) => at % 3 === 0)
    .map((at) => world.idIn(at));
  const ended = new Set<string>();
  for (const id of ids) {
    node.cluster.watch(id, (_, end) => {
      if (end !== null) ended.add(id);
    });
    expect(await world.passing(start(node, id))).toMatchObject({ answer: { kind: "applied" } });
  }
  return { ids, ended };
}

describe("every execution is reached from every node", () => {
  test("when a node is killed: its executions answer again once its lease is over", async () => {
    const { world, nodes, owned } = await three();
    const [a, b, c] = nodes;
    const { ids, ended } = await startAll(world, a);
    expect(owned(b).length).toBeGreaterThan(0);
    b.kill();
    const replies = Promise.all(ids.map((id, i) => (i % 2 === 0 ? a : c).cluster.send(id, go("m1"))));
    for (const { answer } of await world.passing(replies)) expect(answer).toMatchObject({ kind: "applied" });
    await world.passUntil(() => ended.size === ids.length);
    expect(owned(a).length + owned(c).length).toBe(PARTITIONS);
  });

  test("when a node leaves: nobody waits for a lease", async () => {
    const { world, nodes, owned } = await three();
    const [a, b] = nodes;
    const { ids, ended } = await startAll(world, a);
    const before = world.clock.now();
    const left = b.leave();
    const replies = Promise.all(ids.map((id) => a.cluster.send(id, go("m1"))));
    for (const { answer } of await world.passing(replies)) expect(answer).toMatchObject({ kind: "applied" });
    expect(world.clock.now() - before).toBeLessThan(5_000);
    await world.passing(left);
    await world.passUntil(() => ended.size === ids.length);
    expect(owned(b)).toEqual([]);
  });

  test("when a node joins and gets its share: messages and watches go along", async () => {
    const { world, nodes, owned } = await three();
    const [a] = nodes;
    const { ids, ended } = await startAll(world, a);
    const d = await world.node("d");
    d.drive();
    await world.passUntil(() => owned(d).length > 0);
    const replies = Promise.all(ids.map((id) => d.cluster.send(id, go("m1"))));
    for (const { answer } of await world.passing(replies)) expect(answer).toMatchObject({ kind: "applied" });
    await world.passUntil(() => ended.size === ids.length);
  });
});
