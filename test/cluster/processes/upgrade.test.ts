// A rolling upgrade with real processes: nodes and workers of version 0.2 and of this version over one database.
import { expect, test } from "vitest";
import { claimByHand, sayByHand } from "../../fixtures/cluster/by-hand-worker-fixture.ts";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { landedProgram } from "../../fixtures/cluster/landed-program-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";

const timeout = 120_000;
const OLD = landedProgram("0.2.0");

/** A cluster of one old node; the second place is free. */
async function oldCluster(): Promise<{ bench: ClusterFixture; first: NodePlace; second: NodePlace }> {
  const bench = await openCluster({ nodes: 2, startedNodes: 1, program: OLD });
  const [first, second] = bench.nodes as [NodePlace, NodePlace];
  second.program = undefined;
  return { bench, first, second };
}

async function startJourney(bench: ClusterFixture, id: string): Promise<void> {
  await bench.start("journey", { tasks: 4, kids: 2 }, id);
}

/** Sends the signals that a journey waits for, and expects its output and a clean audit. */
async function endJourney(bench: ClusterFixture, id: string): Promise<void> {
  for (const name of ["told", "approved"])
    await bench.insist("POST", `/v1/executions/${id}/signals`, { name, data: 1, id: `${id}-${name}` });
  expect(await bench.ended(id)).toMatchObject({
    status: "done",
    output: { fan: 12, told: 1, kids: 2, approved: 1 },
  });
  expect(await bench.audit(id)).toEqual([]);
}

test("executions begun under 0.2 go on while both versions run, and after the old node has gone", {
  timeout,
}, async () => {
  const { bench, first, second } = await oldCluster();
  await bench.worker([], OLD);
  await startJourney(bench, "begun-alone");
  await bench.start("tasks", { tasks: 3, hold: { 0: ["begin"], 1: ["begin"], 2: ["begin"] } }, "held");
  await bench.ledger.seen({ what: "held", execution: "held" }, 3);

  await bench.startNode(second);
  await bench.settled();
  const newWorker = await bench.worker();
  const ids = await bench.idsByNode("mixed");
  for (const id of ids) await startJourney(bench, id);
  for (const id of ids) await endJourney(bench, id);

  const last = await bench.idsByNode("last");
  for (const id of last) await startJourney(bench, id);
  expect((await first.running.terminate()).code).toBe(0);
  await bench.settled();
  for (const task of [0, 1, 2]) bench.openGate("held", task, "begin");
  expect(await bench.ended("held")).toMatchObject({ status: "done" });
  // The hand-over from the old node to the new one repeats nothing.
  expect(bench.ledger.find({ what: "begins", execution: "held" })).toHaveLength(3);
  for (const id of ["begun-alone", ...last]) await endJourney(bench, id);

  // The old worker alone serves the new node.
  await newWorker.terminate();
  await startJourney(bench, "old-worker");
  await endJourney(bench, "old-worker");
});

test("an old node that joins again after the upgrade works beside the new one, and takes over when that one is killed", {
  timeout,
}, async () => {
  const { bench, first, second } = await oldCluster();
  expect((await first.running.terminate()).code).toBe(0);
  await bench.startNode(second);
  await bench.worker();
  await startJourney(bench, "begun-new");
  await bench.startNode(first);
  await bench.settled();
  for (const id of await bench.idsByNode("both")) {
    await startJourney(bench, id);
    await endJourney(bench, id);
  }
  // A worker in another language says at the new node what the old one has to know.
  const [id = ""] = await bench.idsByNode("by-hand");
  const use = "by-hand.work";
  const work = await claimByHand(bench, first, { id, handler: { use, tasks: [1] }, use });
  const accepted = [200, { attempt: work.attempt, verdict: "accepted" }];
  expect(await sayByHand(second, work, "logs", { lines: [{ text: "one" }] })).toEqual(accepted);
  expect(await sayByHand(second, work, "status", { status: "done", result: 1 })).toEqual(accepted);
  expect(await bench.ended(id)).toMatchObject({ status: "done" });
  await bench.start("brisk", { tasks: 2, hold: { 0: ["begin"] } }, "taken-over");
  await bench.ledger.seen({ what: "held", execution: "taken-over" });
  await second.running.kill();
  bench.openGate("taken-over", 0, "begin");
  expect(await bench.ended("taken-over")).toMatchObject({ status: "done" });
  await endJourney(bench, "begun-new");
});
