// `GET /v1/attention`: what the overview shows first.
import { Fatal, workflow } from "rondo";
import { expect, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../src/std/clock.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import { PARTITIONS } from "../fixtures/cluster/peer-world-fixture.ts";
import { type Api, serve } from "../fixtures/server/api-fixture.ts";
import { doubles, idle } from "../fixtures/server/api-workflows.ts";
import { twoNodes } from "../fixtures/server/two-nodes-fixture.ts";
import { until } from "../fixtures/until.ts";

interface Item {
  readonly kind: string;
  readonly name: string;
  readonly count: number;
  readonly text: string;
}

async function attention(api: Api): Promise<readonly Item[]> {
  return (await api.get("/v1/attention")).body["data"] as unknown as Item[];
}

/** Fails with an error that no other one has. */
const wrong = workflow({ name: "wrong", input: z.object({ word: z.string() }) }).phase("work", {
  process: ({ input }) => {
    throw new Fatal(input.word);
  },
});

test("of many new errors the largest are listed, and the number of the others", async () => {
  const api = await serve();
  api.rondo.serve(wrong);
  for (const word of ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"])
    await (await api.rondo.start(wrong, { word })).result().catch(() => null);
  await until("all groups are known", async () =>
    (await attention(api)).some(({ kind, count }) => kind === "errors" && count === 2),
  );
  expect((await attention(api)).map(({ kind }) => kind)).toEqual([...Array(5).fill("error"), "errors"]);
});

test("an execution that is open for much longer than usual is listed, one without a usual time is not", async () => {
  const real = systemClock();
  let passed = 0;
  const api = await serve({ clock: { ...real, now: () => real.now() + passed } });
  api.rondo.serve(doubles);
  await api.post("/v1/workflows", idle);
  await api.post("/v1/executions", { workflow: "idle", input: { bucket: "b" }, id: "unknown" });
  for (let i = 0; i < 5; i++) await (await api.rondo.start(doubles, { count: 1 })).result();
  // Nobody takes its tasks: it has open work.
  const paused = await api.post("/v1/queues/doubles.double/pause", {});
  expect(paused.status).toBe(200);
  await api.rondo.start(doubles, { count: 1 }, { id: "stuck" });
  const slow = async () => (await attention(api)).filter(({ kind }) => kind === "slow");
  expect(await slow()).toEqual([]);
  passed = 7_200_000;
  await api.get("/v1/workflow-stats");
  expect(await slow()).toMatchObject([
    { name: "stuck", workflow: "doubles", text: expect.stringMatching(/^Open for 2 h; 99 of 100 runs take/) },
  ]);
});

test("a node that died is listed until it is back", async () => {
  const { b, nodes, world } = await twoNodes();
  const [first, second] = nodes;
  const now = world.clock.now() + 60_000;
  const posted = first.ring.advance(now).find((output) => output.kind === "post-token");
  if (posted?.kind !== "post-token") throw new Error("no token was made");
  const deaths = [
    { url: "http://gone:1", incarnation: "g#1", by: first.node.url },
    // Another incarnation of this one is a member: it is back.
    { url: first.node.url, incarnation: "former", by: second.node.url },
  ];
  const message = {
    ...{ from: first.node.url, incarnation: "i", number: 1, urgent: false, hops: 0, scan: false },
    ...{ hints: [], timers: [], ended: [], watchers: [], deaths },
  };
  const token = { ...posted.token, epoch: posted.token.epoch + 1, parcels: [message] };
  second.ring.input({ kind: "token", from: first.node.url, token }, now);
  expect((await attention(b)).filter(({ kind }) => kind === "node")).toMatchObject([
    { name: "http://gone:1", text: expect.stringContaining("is not back") },
  ]);
});

test("work that no worker serves is listed with the workflows that wait for it, of all nodes", async () => {
  const { a, b } = await twoNodes();
  const owner = (id: string): number => partitionOf(id, PARTITIONS) % 2;
  const ids = Array.from({ length: 20 }, (_, i) => `unserved-${i}`);
  for (const [i, name] of ["idle", "second"].entries()) {
    await a.post("/v1/workflows", { ...idle, name });
    const id = ids.find((one) => owner(one) === i);
    await a.post("/v1/executions", { workflow: name, input: { bucket: "b" }, id });
  }
  const text = "No worker serves it. Executions of idle, second wait for it.";
  await until("both nodes have queued the tasks", async () => (await attention(b))[0]?.count === 4);
  expect(await attention(b)).toEqual([{ kind: "unserved", name: "idle.work", count: 4, text }]);
});
