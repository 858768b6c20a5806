// Owners that are not owners any more: what they write is refused, what they believe does no harm.
import { expect, test } from "vitest";
import type {
  ClusterFixture,
  NodePlace,
  PartitionRow,
} from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { until } from "../../fixtures/until.ts";

const timeout = 120_000;

test("F18, F11: a node that is stopped past its lease and goes on writes nothing; the new owner's rows stand", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  await fixture.worker();
  const [id = ""] = await fixture.idsByNode("f18");
  await fixture.start("tasks", { tasks: 3, hold: { 0: ["begin"], 1: ["begin"], 2: ["begin"] } }, id);
  await fixture.ledger.seen({ what: "held", execution: id }, 3);
  // An enumeration that ends while its node is stopped counts as lost only after a minute.
  await until("its enumeration is journaled", async () => {
    return (await fixture.eventsOf(id, "handler.enumerated")).length === 1;
  });
  const [stale, other] = fixture.nodes as [NodePlace, NodePlace];
  stale.running.signal("SIGSTOP");
  const taken = await takenBy(fixture, other);
  // The stopped one finds this request when it goes on: it believes that the execution is still its own.
  const path = `/v1/executions/${id}/signals`;
  const said = { name: "late", data: 1, id: "late" };
  const late = fixture.ask(stale, "POST", path, said);
  await fixture.insistAt(other, "POST", path, { name: "new", data: 2, id: "new" });
  stale.running.signal("SIGCONT");
  await late;
  // Whatever became of it there: said again, it is journaled once, after what the new owner wrote.
  await fixture.insist("POST", path, said);
  for (const task of [0, 1, 2]) fixture.openGate(id, task, "begin");
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(await fixture.audit(id)).toEqual([]);
  expect((await fixture.eventsOf(id, "signalled")).map(({ signal }) => signal)).toEqual(["new", "late"]);
  expect(await staleRows(fixture, taken)).toEqual([]);
});

test("A9, F3: what two nodes find at the same time is done once: the next phase starts once", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  await fixture.worker();
  const ids = await fixture.idsByNode("a9");
  for (const id of ids) await fixture.start("journey", { tasks: 2, kids: 3 }, id);
  // The same words to both nodes at once, each several times.
  const say = (id: string, name: string) =>
    Promise.all(
      [...fixture.nodes, ...fixture.nodes].map((place) =>
        fixture.ask(place, "POST", `/v1/executions/${id}/signals`, { name, data: 7, id: `${id}-${name}` }),
      ),
    );
  await Promise.all(ids.flatMap((id) => [say(id, "told"), say(id, "approved")]));
  for (const id of ids) {
    expect(await fixture.ended(id)).toMatchObject({
      status: "done",
      output: { told: 7, kids: 6, approved: 7 },
    });
    const started = (await fixture.eventsOf(id, "phase.started")).map(({ phase }) => phase);
    expect(started).toEqual(["fan", "kids", "rest", "approved", "last", "returns"]);
    expect(await fixture.eventsOf(id, "signalled")).toHaveLength(2);
    expect(await fixture.audit(id)).toEqual([]);
  }
});

/** Resolves when a node has all partitions, with them. */
async function takenBy(fixture: ClusterFixture, place: NodePlace): Promise<readonly PartitionRow[]> {
  let rows: readonly PartitionRow[] = [];
  await until(
    `${place.url} has everything`,
    async () => {
      rows = await fixture.partitions();
      return rows.every(({ url }) => url === place.url);
    },
    { state: () => rows },
  );
  return rows;
}

/** Executions that were last written in an earlier epoch than their partition was taken in; it may have moved since. */
async function staleRows(fixture: ClusterFixture, taken: readonly PartitionRow[]): Promise<unknown[]> {
  const rows = await fixture.query<{ id: string; partition: number; epoch: number }>(
    "SELECT id, partition, epoch::int AS epoch FROM rondo.executions",
  );
  return rows.filter(({ partition, epoch }) => epoch < (taken[partition]?.epoch ?? 0));
}
