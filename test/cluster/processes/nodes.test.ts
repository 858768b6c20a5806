// Real nodes over one PostgreSQL, and real workers: what a node does for the executions of others, and what becomes of
// its own when it goes.
import { expect, test } from "vitest";
import { claimByHand, sayByHand } from "../../fixtures/cluster/by-hand-worker-fixture.ts";
import type { NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { until } from "../../fixtures/until.ts";

const timeout = 120_000;

test("F2: whoever is asked, an execution runs where it belongs, and its result is known everywhere", {
  timeout,
}, async () => {
  const fixture = await openCluster({ nodes: 3 });
  await fixture.worker();
  const ids = await fixture.idsByNode("any");
  // Each is started at a node that does not have it.
  for (const [i, id] of ids.entries()) {
    const place = fixture.nodes[(i + 1) % 3] as NodePlace;
    const body = { workflow: "journey", input: { tasks: 4, kids: 2 }, id };
    expect(await fixture.insistAt(place, "POST", "/v1/executions", body)).toMatchObject({ id });
    for (const name of ["told", "approved"])
      await fixture.insist("POST", `/v1/executions/${id}/signals`, { name, data: 1, id: `${id}-${name}` });
  }
  for (const id of ids) {
    await fixture.ended(id);
    for (const place of fixture.nodes)
      expect(await fixture.insistAt(place, "GET", `/v1/executions/${id}`)).toMatchObject({
        status: "done",
        output: { fan: 12, told: 1, kids: 2, approved: 1 },
      });
    expect(await fixture.audit(id)).toEqual([]);
  }
});

test("SIGTERM hands a node's executions over at once: nothing that runs is repeated", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  await fixture.worker();
  const [id = ""] = await fixture.idsByNode("term");
  await fixture.start("tasks", { tasks: 2, hold: { 0: ["begin"], 1: ["begin"] } }, id);
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  const { code } = await (fixture.nodes[0]?.running.terminate() ?? { code: null });
  expect(code).toBe(0);
  await fixture.settled();
  // Released, not lapsed: the new owner need not be careful with anything.
  expect(await fixture.query("SELECT partition FROM rondo.partitions WHERE unclean_epoch > 0")).toEqual([]);
  for (const task of [0, 1]) fixture.openGate(id, task, "begin");
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(fixture.ledger.find({ what: "begins", execution: id })).toHaveLength(2);
  expect(await fixture.audit(id)).toEqual([]);
});

test("A6: killed between the enumeration and the last receipt, its phase is completed by another", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  await fixture.worker();
  const [id = ""] = await fixture.idsByNode("a6");
  await fixture.start("tasks", { tasks: 5, hold: { 3: ["begin"] } }, id);
  await fixture.ledger.seen({ what: "held", execution: id });
  await fixture.ledger.seen({ what: "ends", execution: id }, 4);
  // The code that enumerates has ended before; its last word may be on its way.
  await until("it is sealed", async () => (await fixture.eventsOf(id, "handler.enumerated")).length === 1);
  await fixture.nodes[0]?.running.kill();
  fixture.openGate(id, 3, "begin");
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(await fixture.eventsOf(id, "phase.finished")).toHaveLength(1);
  expect(await fixture.audit(id)).toEqual([]);
});

test("A7: killed in the middle of a task, its worker is replaced: completed = enumerated", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  const [first] = [await fixture.worker(), await fixture.worker()];
  const [id = ""] = await fixture.idsByNode("a7");
  await fixture.start("brisk", { tasks: 1, hold: { 0: ["begin"] } }, id);
  const [held] = await fixture.ledger.seen({ what: "held", execution: id });
  const victim = fixture.workers().find(({ pid }) => pid === held?.pid) ?? first;
  await victim.kill();
  fixture.openGate(id, 0, "begin");
  const view = await fixture.ended(id);
  expect(view.phases[0]?.handlers).toMatchObject([{ total: 1, done: 1 }]);
  expect(new Set(fixture.ledger.find({ what: "begins", execution: id }).map(({ pid }) => pid)).size).toBe(2);
  expect(await fixture.audit(id)).toEqual([]);
});

test("F8: a timer fires once: by the new executor when the old one died, and after all of them were down", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  await fixture.worker();
  const ids = await fixture.idsByNode("f8");
  const begin = async (id: string): Promise<void> => {
    await fixture.start("journey", { tasks: 1, kids: 0 }, id);
    await fixture.insist("POST", `/v1/executions/${id}/signals`, { name: "told", data: 1, id: `${id}-told` });
    await until(`${id} rests`, async () => (await fixture.eventsOf(id, "timer.set")).length > 0);
  };
  await Promise.all(ids.map(begin));
  await fixture.nodes[0]?.running.kill();
  await Promise.all(fixture.nodes.slice(1).map(({ running }) => running.kill()));
  for (const place of fixture.nodes) await fixture.startNode(place);
  for (const id of ids)
    await fixture.insist("POST", `/v1/executions/${id}/signals`, {
      name: "approved",
      data: 2,
      id: `${id}-a`,
    });
  for (const id of ids) {
    expect(await fixture.ended(id)).toMatchObject({ status: "done", output: { approved: 2 } });
    const phases = (await fixture.eventsOf(id, "phase.finished")).map(({ phase }) => phase);
    expect(phases).toEqual(["fan", "kids", "rest", "approved", "last", "returns"]);
    expect(await fixture.audit(id)).toEqual([]);
  }
});

const SCRIPT = [
  { name: "r0", expression: "s => s + 1" },
  { name: "r1", expression: "s => s * 2" },
];

test("what is said of an attempt at another node is passed on to the owner, and its answer comes back", {
  timeout,
}, async () => {
  const fixture = await openCluster();
  const [owner, other] = fixture.nodes as [NodePlace, NodePlace];
  const [id = ""] = await fixture.idsByNode("passed");
  const work = await claimByHand(fixture, owner, {
    id,
    handler: { script: SCRIPT, state: 1 },
    use: "~script",
  });
  const { attempt } = work;
  const accepted = [200, { attempt, verdict: "accepted" }];
  const forged = { ...work, token: `${work.token.slice(1)}A` };
  const line = (text: string) => ({ lines: [{ text }] });
  expect(await sayByHand(other, forged, "logs", line("x"))).toMatchObject([403, { code: "forbidden" }]);
  expect(await sayByHand(other, work, "status", { status: "started" })).toEqual(accepted);
  expect(await sayByHand(other, work, "logs", line("one"))).toEqual(accepted);
  expect(await sayByHand(owner, work, "logs", line("two"))).toEqual(accepted);
  expect(await sayByHand(other, work, "logs", line("three"))).toEqual(accepted);
  expect(await sayByHand(other, work, "status", { status: "running" })).toEqual([
    200,
    { attempt, word: "continue" },
  ]);
  const r0 = { status: "done", run: "r0", state: 2 };
  expect(await sayByHand(other, work, "status", r0)).toEqual(accepted);
  expect(await sayByHand(other, work, "status", r0)).toEqual([200, { attempt, verdict: "duplicate" }]);
  // The owner's refusals come back with the owner's reason.
  const unknown = await sayByHand(other, work, "status", { status: "done", run: "typo", state: 0 });
  expect(unknown).toMatchObject([422, { code: "invalid_input", detail: expect.stringContaining("typo") }]);
  expect(await sayByHand(owner, work, "status", { status: "done", run: "r1", state: 4 })).toEqual(accepted);
  expect(await sayByHand(other, work, "status", { status: "done", result: 4 })).toEqual(accepted);
  expect(await sayByHand(other, work, "logs", line("x"))).toMatchObject([409, { code: "stale_attempt" }]);
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  const { data } = (await fixture.insist("GET", `/v1/executions/${id}/logs`)) as { data: { text: string }[] };
  expect(data.map(({ text }) => text)).toEqual(["one", "two", "three"]);
});
