// A rolling upgrade with real processes: nodes and workers of version 0.2 and of this version over one database.
import { expect, test } from "vitest";
import { claimByHand, sayByHand } from "../../fixtures/cluster/by-hand-worker-fixture.ts";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { landedProgram } from "../../fixtures/cluster/landed-program-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";

const timeout = 120_000;
const OLD = landedProgram("0.2.0");

/** A cluster of one old node; the second place is free. */
async function oldCluster(): Promise<{ fixture: ClusterFixture; first: NodePlace; second: NodePlace }> {
  const fixture = await openCluster({ nodes: 2, startedNodes: 1, program: OLD });
  const [first, second] = fixture.nodes as [NodePlace, NodePlace];
  second.program = undefined;
  return { fixture, first, second };
}

async function startJourney(fixture: ClusterFixture, id: string): Promise<void> {
  await fixture.start("journey", { tasks: 4, kids: 2 }, id);
}

/** Sends the signals that a journey waits for, and expects its output and a clean audit. */
async function endJourney(fixture: ClusterFixture, id: string): Promise<void> {
  for (const name of ["told", "approved"])
    await fixture.insist("POST", `/v1/executions/${id}/signals`, { name, data: 1, id: `${id}-${name}` });
  expect(await fixture.ended(id)).toMatchObject({
    status: "done",
    output: { fan: 12, told: 1, kids: 2, approved: 1 },
  });
  expect(await fixture.audit(id)).toEqual([]);
}

test("executions begun under 0.2 go on while both versions run, and after the old node has gone", {
  timeout,
}, async () => {
  const { fixture, first, second } = await oldCluster();
  await fixture.worker([], OLD);
  await startJourney(fixture, "begun-alone");
  await fixture.start("tasks", { tasks: 3, hold: { 0: ["begin"], 1: ["begin"], 2: ["begin"] } }, "held");
  await fixture.ledger.seen({ what: "held", execution: "held" }, 3);

  await fixture.startNode(second);
  await fixture.settled();
  const newWorker = await fixture.worker();
  const ids = await fixture.idsByNode("mixed");
  for (const id of ids) await startJourney(fixture, id);
  for (const id of ids) await endJourney(fixture, id);

  const last = await fixture.idsByNode("last");
  for (const id of last) await startJourney(fixture, id);
  expect((await first.running.terminate()).code).toBe(0);
  await fixture.settled();
  for (const task of [0, 1, 2]) fixture.openGate("held", task, "begin");
  expect(await fixture.ended("held")).toMatchObject({ status: "done" });
  // The hand-over from the old node to the new one repeats nothing.
  expect(fixture.ledger.find({ what: "begins", execution: "held" })).toHaveLength(3);
  for (const id of ["begun-alone", ...last]) await endJourney(fixture, id);

  // The old worker alone serves the new node.
  await newWorker.terminate();
  await startJourney(fixture, "old-worker");
  await endJourney(fixture, "old-worker");
});

test("an old node that joins again after the upgrade works beside the new one, and takes over when that one is killed", {
  timeout,
}, async () => {
  const { fixture, first, second } = await oldCluster();
  expect((await first.running.terminate()).code).toBe(0);
  await fixture.startNode(second);
  await fixture.worker();
  await startJourney(fixture, "begun-new");
  await fixture.startNode(first);
  await fixture.settled();
  for (const id of await fixture.idsByNode("both")) {
    await startJourney(fixture, id);
    await endJourney(fixture, id);
  }
  // A worker in another language says at the new node what the old one has to know.
  const [id = ""] = await fixture.idsByNode("by-hand");
  const use = "by-hand.work";
  const work = await claimByHand(fixture, first, { id, handler: { use, tasks: [1] }, use });
  const accepted = [200, { attempt: work.attempt, verdict: "accepted" }];
  expect(await sayByHand(second, work, "logs", { lines: [{ text: "one" }] })).toEqual(accepted);
  expect(await sayByHand(second, work, "status", { status: "done", result: 1 })).toEqual(accepted);
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  await fixture.start("brisk", { tasks: 2, hold: { 0: ["begin"] } }, "taken-over");
  await fixture.ledger.seen({ what: "held", execution: "taken-over" });
  await second.running.kill();
  fixture.openGate("taken-over", 0, "begin");
  expect(await fixture.ended("taken-over")).toMatchObject({ status: "done" });
  await endJourney(fixture, "begun-new");
});
