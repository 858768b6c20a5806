// Rows that belong to no execution, or to many, are garbled under two nodes: no node stops, and work goes on.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import type { FaultProcess } from "../../fixtures/faults/fault-process-fixture.ts";
import { until } from "../../fixtures/until.ts";

const flows = fileURLToPath(new URL("../../fixtures/cluster/damage-flows.mjs", import.meta.url));
const BYTES = "'\\x7b22ff00c328a0a122'::bytea::text";
const IDS = Array.from({ length: 6 }, (_, i) => `e${i}`);

/** Nobody has to do anything about these. */
const HARMLESS: Readonly<Record<string, string>> = {
  "the address of a node": `UPDATE nodes SET url = ${BYTES} WHERE url = (SELECT min(url) FROM nodes)`,
  "the lease of a node": "UPDATE nodes SET lease_until = 5 WHERE url = (SELECT min(url) FROM nodes)",
  "a lease without end": `INSERT INTO nodes (incarnation, url, since, lease_until) VALUES (${BYTES}, ${BYTES}, 1, 9e15)`,
  "owners of partitions": `UPDATE partitions SET owner = ${BYTES} WHERE partition % 3 = 0`,
  "epochs of partitions": "UPDATE partitions SET epoch = epoch + 4096 WHERE partition % 3 = 1",
  "the index of words": `UPDATE search SET term = 'x' || term; UPDATE search_cursor SET e = e + 4096, ended = ended + 4096`,
  "a purged execution that is there": "INSERT INTO purged SELECT e FROM executions",
};

test("rows that nodes share, a definition and counts are garbled: no node stops, and executions go on", {
  timeout: 300_000,
}, async () => {
  const fixture = await openCluster({ flows });
  await fixture.query("CREATE CAST (bytea AS text) WITHOUT FUNCTION");
  const worker = await fixture.worker();
  await garbleSharedRows(fixture);
  await garbleDefinition(fixture, worker);
});

/** All executions go on, and nobody has to repair anything. */
async function garbleSharedRows(fixture: ClusterFixture): Promise<void> {
  const [a, b] = fixture.nodes as [NodePlace, NodePlace];
  const phase = async (id: string, at: NodePlace) =>
    (await fixture.insistAt(at, "GET", `/v1/executions/${id}`)) as { phase: string | null; status: string };
  for (const [what, sql] of Object.entries(HARMLESS)) {
    const ids = IDS.map((id) => `${id} ${what}`.replaceAll(" ", "-"));
    await Promise.all(ids.map((id) => fixture.start("hold", {}, id)));
    await Promise.all(ids.map((id) => until(`${id} waits`, async () => (await phase(id, a)).phase === "go")));
    await fixture.query(`SET search_path TO rondo; ${sql}`);
    const finish = async (id: string, at: NodePlace): Promise<void> => {
      await fixture.insistAt(at, "POST", `/v1/executions/${id}/signals`, { name: "go", data: id });
      expect(await fixture.ended(id)).toMatchObject({ status: "done", output: [4, id] });
      const { findings } = (await fixture.insist("GET", `/v1/executions/${id}/audit`)) as {
        findings: unknown[];
      };
      expect(findings).toEqual([]);
    };
    await Promise.all(ids.map((id, i) => finish(id, i % 2 === 0 ? a : b)));
    for (const { process } of fixture.nodes) expect([what, process?.hasEnded]).toEqual([what, false]);
  }
}

/** Its executions are damaged until it is put again, the others are not; counts are found and derived anew. */
async function garbleDefinition(fixture: ClusterFixture, worker: FaultProcess): Promise<void> {
  for (const id of IDS) {
    await fixture.start("other", {}, `other-${id}`);
    await fixture.start("hold", {}, `hold-${id}`);
  }
  const status = async (id: string) =>
    ((await fixture.insist("GET", `/v1/executions/${id}`)) as { status: string }).status;
  for (const id of IDS)
    await until("all wait", async () => {
      const found = (await fixture.insist("GET", `/v1/executions/hold-${id}`)) as { phase: string };
      return found.phase === "go";
    });
  // Without a worker nobody puts the definition again.
  await worker.kill();
  const hash = "(SELECT hash FROM rondo.newest_definitions WHERE name = 'other')";
  await fixture.query(`UPDATE rondo.definitions SET body = ${BYTES} WHERE hash = ${hash}`);
  // Both nodes start anew: none of them has it in memory.
  await Promise.all(fixture.nodes.map((place) => place.running.kill()));
  await Promise.all(fixture.nodes.map((place) => fixture.startNode(place)));
  await fixture.settled();
  for (const id of IDS)
    expect([await status(`other-${id}`), await status(`hold-${id}`)]).toEqual(["damaged", "running"]);
  for (const { process } of fixture.nodes) expect(process?.hasEnded).toBe(false);

  await fixture.query("UPDATE rondo.head_counts SET n = n + 64 WHERE workflow = 'hold'");
  await fixture.query(`INSERT INTO rondo.head_counts VALUES (0, 'default', 'nobody', ${BYTES}, 7)`);
  await fixture.query("INSERT INTO rondo.waiting_counts VALUES (0, 'default', 'nobody', 7)");
  const tables = async (method: "GET" | "POST") =>
    ((await fixture.insist(method, "/v1/audit/tables")) as { findings: { isRepaired: boolean }[] }).findings;
  expect(await tables("GET")).not.toEqual([]);
  expect((await tables("POST")).every(({ isRepaired }) => isRepaired)).toBe(true);
  expect(await tables("GET")).toEqual([]);

  // Workers put the definitions that they serve.
  await fixture.worker();
  for (const id of IDS) {
    await fixture.insist("POST", `/v1/executions/other-${id}/audit`);
    await fixture.insist("POST", `/v1/executions/other-${id}/signals`, { name: "go", data: id });
    expect(await fixture.ended(`other-${id}`)).toMatchObject({ status: "done", output: id });
  }
}
