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
  const bench = await openCluster();
  await bench.worker();
  const [id = ""] = await bench.idsByNode("f18");
  await bench.start("tasks", { tasks: 3, hold: { 0: ["begin"], 1: ["begin"], 2: ["begin"] } }, id);
  await bench.ledger.seen({ what: "held", execution: id }, 3);
  // An enumeration that ends while its node is stopped counts as lost only after a minute.
  await until("its enumeration is journaled", async () => {
    return (await bench.eventsOf(id, "handler.enumerated")).length === 1;
  });
  const [stale, other] = bench.nodes as [NodePlace, NodePlace];
  stale.running.signal("SIGSTOP");
  const taken = await takenBy(bench, other);
  // The stopped one finds this request when it goes on: it believes that the execution is still its own.
  const path = `/v1/executions/${id}/signals`;
  const said = { name: "late", data: 1, id: "late" };
  const late = bench.ask(stale, "POST", path, said);
  await bench.insistAt(other, "POST", path, { name: "new", data: 2, id: "new" });
  stale.running.signal("SIGCONT");
  await late;
  // Whatever became of it there: said again, it is journaled once, after what the new owner wrote.
  await bench.insist("POST", path, said);
  for (const task of [0, 1, 2]) bench.openGate(id, task, "begin");
  expect(await bench.ended(id)).toMatchObject({ status: "done" });
  expect(await bench.audit(id)).toEqual([]);
  expect((await bench.eventsOf(id, "signalled")).map(({ signal }) => signal)).toEqual(["new", "late"]);
  expect(await staleRows(bench, taken)).toEqual([]);
});

test("A9, F3: what two nodes find at the same time is done once: the next phase starts once", {
  timeout,
}, async () => {
  const bench = await openCluster();
  await bench.worker();
  const ids = await bench.idsByNode("a9");
  for (const id of ids) await bench.start("journey", { tasks: 2, kids: 3 }, id);
  // The same words to both nodes at once, each several times.
  const say = (id: string, name: string) =>
    Promise.all(
      [...bench.nodes, ...bench.nodes].map((place) =>
        bench.ask(place, "POST", `/v1/executions/${id}/signals`, { name, data: 7, id: `${id}-${name}` }),
      ),
    );
  await Promise.all(ids.flatMap((id) => [say(id, "told"), say(id, "approved")]));
  for (const id of ids) {
    expect(await bench.ended(id)).toMatchObject({
      status: "done",
      output: { told: 7, kids: 6, approved: 7 },
    });
    const started = (await bench.eventsOf(id, "phase.started")).map(({ phase }) => phase);
    expect(started).toEqual(["fan", "kids", "rest", "approved", "last", "returns"]);
    expect(await bench.eventsOf(id, "signalled")).toHaveLength(2);
    expect(await bench.audit(id)).toEqual([]);
  }
});

/** Resolves when a node has all partitions, with them. */
async function takenBy(bench: ClusterFixture, place: NodePlace): Promise<readonly PartitionRow[]> {
  let rows: readonly PartitionRow[] = [];
  await until(
    `${place.url} has everything`,
    async () => {
      rows = await bench.partitions();
      return rows.every(({ url }) => url === place.url);
    },
    { state: () => rows },
  );
  return rows;
}

/** Executions that were last written in an earlier epoch than their partition was taken in; it may have moved since. */
async function staleRows(bench: ClusterFixture, taken: readonly PartitionRow[]): Promise<unknown[]> {
  const rows = await bench.query<{ id: string; partition: number; epoch: number }>(
    "SELECT id, partition, epoch::int AS epoch FROM rondo.executions",
  );
  return rows.filter(({ partition, epoch }) => epoch < (taken[partition]?.epoch ?? 0));
}
