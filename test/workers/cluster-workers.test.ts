// Remote workers of a cluster: each does tasks of all nodes, and what runs goes on when a node is gone.
import { workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import type { HostedWorkflow } from "../../src/worker/handler-code.ts";
import { type ClusterWorker, serveCluster } from "../../src/worker/http/serve-cluster.ts";
import { Worker } from "../../src/worker/worker.ts";
import { ClusterFixture, FixtureNode } from "../fixtures/workers/worker-cluster-fixture.ts";

type Pair = [FixtureNode, FixtureNode];

/** Code whose tasks wait until they are let go; counts how often each began. */
function gated(): { readonly flow: HostedWorkflow; readonly begun: string[]; open: () => void } {
  const begun: string[] = [];
  const gate = { open: () => {} };
  const opened = new Promise<void>((resolve) => {
    gate.open = resolve;
  });
  const flow = workflow({ name: "gated" }).phase("wait", {
    process: async ({ execution, log }) => {
      begun.push(execution);
      log("begun");
      await opened;
      return "done";
    },
  });
  return { flow, begun, open: () => gate.open() };
}

const quick = (count = 3) =>
  workflow({ name: "quick" })
    .phase("many", {
      enumerate: () => Array.from({ length: count }, (_, i) => i),
      process: ({ task }: { task: number }) => task + 1,
    })
    .phase("sum", {
      process: ({ phases }) =>
        (
          phases as { many: { reduce: (f: (a: number, b: number) => number, n: number) => Promise<number> } }
        ).many.reduce((sum, n) => sum + n, 0),
    })
    .returns(async ({ phases }) => {
      for await (const sum of (phases as { sum: { results(): AsyncIterable<number> } }).sum.results())
        return sum;
      return null;
    });

describe("a worker that was given the address of one node", () => {
  test("does tasks of all of them, under one id", async () => {
    const fixture = await ClusterFixture.open(3);
    const flow = quick();
    const ids: string[] = [];
    await fixture.work([flow], { onRegistered: (id) => ids.push(id) });
    for (const node of fixture.nodes) {
      const id = await fixture.startAt(node, flow);
      expect(await fixture.ended(id)).toMatchObject({ status: "done", output: 6 });
    }
    expect(ids).toHaveLength(1);
    for (const { sessions } of fixture.nodes) expect(sessions.list().map(({ id }) => id)).toEqual(ids);
  });

  test("serves a node that joins later", async () => {
    const fixture = await ClusterFixture.open(1);
    const flow = quick();
    await fixture.work([flow]);
    const node = await fixture.join();
    expect(await fixture.ended(await fixture.startAt(node, flow))).toMatchObject({ status: "done" });
  });

  test("begins with any address that answers", async () => {
    const fixture = await ClusterFixture.open(2);
    const [a, b] = fixture.nodes as Pair;
    const flow = quick();
    await fixture.work([flow], { addresses: ["http://127.0.0.1:1", b.url] });
    expect(await fixture.ended(await fixture.startAt(a, flow))).toMatchObject({ status: "done" });
  });

  test("begins no more than it can take, whatever the nodes give it together", async () => {
    const fixture = await ClusterFixture.open(3);
    const { flow, begun, open } = gated();
    const worker = await fixture.work([flow], { capacity: 2 });
    const ids: string[] = [];
    for (const node of fixture.nodes)
      ids.push(await fixture.startAt(node, flow), await fixture.startAt(node, flow));
    await fixture.passUntil(() => begun.length === 2);
    for (let i = 0; i < 20; i++) await fixture.pass();
    expect(begun).toHaveLength(2);
    // Each node may have given one more, which waits.
    expect(worker.held).toBeLessThanOrEqual(4);
    open();
    for (const id of ids) expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun.toSorted()).toEqual(ids.toSorted());
  });
});

test("an idle worker claims three times a minute at each node, and notices a node that stands still within its heartbeat", async () => {
  const fixture = await ClusterFixture.open(2);
  const [a, b] = fixture.nodes as Pair;
  const { flow, begun, open } = gated();
  open();
  await fixture.work([flow]);
  for (let i = 0; i < 40; i++) await fixture.pass();
  const claims = () => fixture.nodes.map(({ counts }) => counts.get("post /v1/workers/{id}/claim") ?? 0);
  const before = claims();
  for (let i = 0; i < 480; i++) await fixture.pass();
  expect(claims().map((count, i) => count - (before[i] as number))).toEqual([6, 6]);
  a.freeze();
  await fixture.passUntil(() => fixture.isSettled);
  const id = await fixture.startAt(b, flow);
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(begun).toEqual([id]);
});

describe("a task that runs", () => {
  test("when its node dies ends once, at the node that has its execution then", async () => {
    const fixture = await ClusterFixture.open(2);
    const [a, b] = fixture.nodes as Pair;
    const { flow, begun, open } = gated();
    const worker = await fixture.work([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => begun.length === 1);
    a.kill();
    await fixture.passUntil(() => fixture.isSettled && worker.held === 1);
    // Beyond the time for which the new owner leaves it alone.
    for (let i = 0; i < 40; i++) await fixture.pass(1_000);
    expect(worker.held).toBe(1);
    open();
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun).toEqual([id]);
    expect(await attemptsOf(b, id)).toEqual([1]);
  });

  test("and ends while nobody has its execution is told to whoever has it next", async () => {
    const fixture = await ClusterFixture.open(2);
    const [a, b] = fixture.nodes as Pair;
    const { flow, begun, open } = gated();
    const worker = await fixture.work([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => begun.length === 1);
    a.kill();
    open();
    await fixture.passUntil(() => worker.held === 0);
    expect(fixture.isSettled).toBe(false);
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun).toEqual([id]);
    expect(await attemptsOf(b, id)).toEqual([1]);
  });

  test("and whose receipt is under way to a node that stands still is told to the next one", async () => {
    const fixture = await ClusterFixture.open(2);
    const [a, b] = fixture.nodes as Pair;
    const { flow, begun, open } = gated();
    await fixture.work([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => begun.length === 1);
    a.freeze();
    open();
    await fixture.passUntil(() => fixture.isSettled);
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun).toEqual([id]);
    expect(await attemptsOf(b, id)).toEqual([1]);
  });

  test("goes on when its node leaves and hands over", async () => {
    const fixture = await ClusterFixture.open(2);
    const [a] = fixture.nodes as Pair;
    const { flow, begun, open } = gated();
    const worker = await fixture.work([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => begun.length === 1);
    await fixture.passing(a.leave());
    for (let i = 0; i < 40; i++) await fixture.pass(1_000);
    expect(worker.held).toBe(1);
    open();
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun).toEqual([id]);
  });

  test("is heard whole and in order, whatever node its words go to", async () => {
    const fixture = await ClusterFixture.open(3);
    const [a, b] = fixture.nodes as Pair;
    const said = { lines: 0, isOver: false };
    const flow = workflow({ name: "talks" }).phase("talk", {
      process: async ({ log, step }) => {
        while (!said.isOver) {
          log(`line ${said.lines++}`);
          if (said.lines % 10 === 0) await step(`step ${said.lines}`, () => said.lines);
          await new Promise<void>((resolve) => fixture.clock.after(500, resolve));
        }
        return said.lines;
      },
    });
    await fixture.work([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => said.lines > 10);
    for (const node of fixture.nodes) node.cut();
    await fixture.passUntil(() => said.lines > 20);
    a.kill();
    await fixture.passUntil(() => fixture.isSettled && said.lines > 80);
    said.isOver = true;
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    const rows = await b.store.readLogs({ execution: id, after: 0, rowsMax: 10_000 });
    const lines = rows.flatMap(({ lines: list }) => list.map(({ text }) => text));
    expect(lines).toEqual(Array.from({ length: said.lines }, (_, i) => `line ${i}`));
    expect(await attemptsOf(b, id)).toEqual([1]);
  });

  test("goes on when its execution moves to a node that joins", async () => {
    const fixture = await ClusterFixture.open(1);
    const [a] = fixture.nodes as [FixtureNode];
    const { flow, begun, open } = gated();
    await fixture.work([flow], { capacity: 40 });
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) ids.push(await fixture.startAt(a, flow));
    await fixture.passUntil(() => begun.length === ids.length);
    const b = await fixture.join();
    expect(ids.some((id) => b.engine.isOwn(id))).toBe(true);
    open();
    for (const id of ids) expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun.toSorted()).toEqual(ids.toSorted());
  });
});

test("the worker inside a node that loses an execution stops, and its word on it changes nothing", async () => {
  const fixture = await ClusterFixture.open(2);
  const [a, b] = fixture.nodes as Pair;
  const stopped: string[] = [];
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const flow = workflow({ name: "inside" }).phase("one", {
    process: async ({ execution, signal, step }) => {
      begun.push(execution);
      signal.addEventListener("abort", () => stopped.push(String(signal.reason)));
      await new Promise<void>((resolve) => ends.push(resolve));
      return step("word", () => begun.length);
    },
  });
  const bugs: unknown[] = [];
  for (const [i, { engine }] of [a, b].entries()) {
    const worker = new Worker({
      ...{ clock: fixture.clock, concurrency: 4, log: () => {}, onBug: (thrown) => bugs.push(thrown) },
      results: { async *settled() {}, checkpoint: () => Promise.reject(new Error("nothing is journaled")) },
      send: (reports) => engine.report(`local~${i}`, reports),
    });
    for (const code of flow.handlers) worker.host(flow.name, code);
    const serves = flow.handlers.map(({ use }) => ({ use }));
    engine.join(`local~${i}`, worker, { serves, capacity: 4, local: true });
  }
  const id = await fixture.startAt(a, flow);
  await fixture.passUntil(() => begun.length === 1);
  a.lapse();
  await fixture.passUntil(() => begun.length === 2);
  expect(stopped).toEqual(["Error: lease lost"]);
  for (const end of ends) end();
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(bugs).toEqual([]);
  expect(await attemptsOf(b, id)).toHaveLength(1);
});

test("a worker that found no node for a while begins anew with its addresses", async () => {
  const fixture = await ClusterFixture.open(1);
  const [a] = fixture.nodes as [FixtureNode];
  const { flow, begun, open } = gated();
  const troubles: boolean[] = [];
  const addresses = [a.url];
  await fixture.work([flow], { addresses, onTrouble: (what) => troubles.push(what !== null) });
  const id = await fixture.startAt(a, flow);
  await fixture.passUntil(() => begun.length === 1);
  const b = await FixtureNode.open(fixture);
  // Nobody has told the worker of it.
  addresses.push(b.url);
  a.kill();
  await fixture.passUntil(() => troubles.includes(true));
  fixture.nodes.push(b);
  b.start();
  await fixture.passUntil(() => fixture.isSettled);
  open();
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
  expect(begun).toEqual([id]);
  expect(troubles).toEqual([true, false]);
});

test("the worker of a node does what other nodes have of its code", async () => {
  const fixture = await ClusterFixture.open(2);
  const [a, b] = fixture.nodes as Pair;
  const flow = quick();
  const worker = hostAt(fixture, a);
  worker.nodes([b.url]);
  for (let i = 0; i < 5; i++) await fixture.pass();
  expect(b.sessions.list()).toEqual([]);
  worker.host([flow]);
  expect(await fixture.ended(await fixture.startAt(b, flow))).toMatchObject({ status: "done", output: 6 });
  expect(a.counts.size).toBe(0);
  expect(b.sessions.list()).toHaveLength(1);
  const later = workflow({ name: "later" }).phase("one", { process: () => 1 });
  worker.host([later]);
  expect(await fixture.ended(await fixture.startAt(b, later))).toMatchObject({ status: "done" });
  await fixture.passing(worker.stop(0));
  expect(b.sessions.list()).toEqual([]);
});

test("work that no worker has got when its node leaves is given out by the next one at once", async () => {
  const fixture = await ClusterFixture.open(2);
  const [a] = fixture.nodes as Pair;
  const { flow, begun, open } = gated();
  const handlers = flow.handlers.map(({ use }) => ({ use }));
  a.sessions.register({ name: "slow", worker: "slow", handlers, capacity: 1 }, "127.0.0.1");
  const ids = [await fixture.startAt(a, flow), await fixture.startAt(a, flow)];
  // It is answered, and never reads all of it.
  const asked = { max: 1, waitMs: 60_000 };
  const answer = await fixture.passing(
    Promise.resolve(a.sessions.claim("slow", asked, new AbortController().signal)),
  );
  expect(answer).toMatchObject({ text: expect.stringContaining(ids[0] as string) });
  await fixture.work([flow]);
  await fixture.passUntil(() => begun.length === 1);
  await fixture.passing(a.leave());
  for (let i = 0; i < 40; i++) await fixture.pass();
  expect(begun.toSorted()).toEqual(ids.toSorted());
  open();
  for (const id of ids) expect(await fixture.ended(id)).toMatchObject({ status: "done" });
});

test.each<[string, (a: FixtureNode) => Promise<void> | void]>([
  ["leaves", (a) => a.leave()],
  ["dies", (a) => a.kill()],
])(
  "what the worker of a node does for one that %s goes on, if the execution is its own node's then",
  async (_, end) => {
    const fixture = await ClusterFixture.open(2);
    const [a, b] = fixture.nodes as Pair;
    const { flow, begun, open } = gated();
    const worker = hostAt(fixture, b);
    worker.nodes([a.url]);
    worker.host([flow]);
    const id = await fixture.startAt(a, flow);
    await fixture.passUntil(() => begun.length === 1);
    await fixture.passing(Promise.resolve(end(a)));
    await fixture.passUntil(() => b.engine.isOwn(id));
    worker.nodes([]);
    for (let i = 0; i < 60; i++) await fixture.pass(1_000);
    open();
    expect(await fixture.ended(id)).toMatchObject({ status: "done" });
    expect(begun).toEqual([id]);
    expect(await attemptsOf(b, id)).toEqual([1]);
    await fixture.passUntil(() => b.sessions.list().length === 0);
    await fixture.passing(worker.stop(0));
  },
);

/** The worker of a process that is a node itself. */
function hostAt({ clock, random }: ClusterFixture, { url }: FixtureNode): ClusterWorker {
  return serveCluster({
    ...{ name: "node-a", worker: "node-a", own: url, token: "node_test", capacity: 4, version: "0" },
    ...{ clock, random, onLog: () => {}, onTrouble: () => {} },
    onBug: (thrown) => {
      throw thrown;
    },
  });
}

/** The numbers of the attempts by which the tasks of an execution were settled. */
async function attemptsOf({ store }: FixtureNode, execution: string): Promise<number[]> {
  const entries = await store.readJournal({ execution, from: 1 });
  return entries
    .flatMap((entry) => decodeEntry(entry))
    .flatMap(({ event }) => (event.kind === "tasks.settled" ? event.attempts : []));
}
