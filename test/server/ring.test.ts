// `GET /v1/ring`: of a cluster as its node sees it, and of a server that is alone in the same shape.
import { expect, test } from "vitest";
import { serve } from "../fixtures/server/api-fixture.ts";
import { twoNodes } from "../fixtures/server/two-nodes-fixture.ts";
import { until } from "../fixtures/until.ts";

test("a server that is alone is a ring of one, which has everything", async () => {
  const api = await serve();
  const { body } = await api.get("/v1/ring");
  expect(body).toMatchObject({
    url: api.url,
    nodes: [{ url: api.url, partitions: 1, agrees: true, suspect: false, clockworkers: [api.url] }],
    token: null,
    cycle: { count: 0, lastMs: null, averageMs: null },
    queued: { hints: 0, timers: 0 },
    watch: { executors: [], timers: 0 },
    deaths: [],
    ownership: {
      status: "member",
      owned: [{ partition: 0, epoch: expect.any(Number) }],
      yielding: [],
      places: [api.url],
      owners: [api.url],
    },
  });
});

test("a node of a cluster shows the others, who has what, and who watches whom", async () => {
  const { b, nodes } = await twoNodes();
  const urls = nodes.map(({ node }) => node.url).sort();
  const { body } = await b.get("/v1/ring");
  expect(body).toMatchObject({
    url: nodes[1].node.url,
    nodes: urls.map((url) => ({
      url,
      partitions: 32,
      suspect: false,
      leaseUntil: expect.any(Number),
      clockworkers: expect.any(Array),
    })),
    ownership: { owned: expect.any(Array), yielding: [] },
  });
  expect(new Set(body["ownership"]?.["owners"] as unknown as string[])).toEqual(new Set(urls));
  expect(body["ownership"]).not.toHaveProperty("mayActUntil");
});

test("whichever node is asked, the token is where the node says that saw it last", async () => {
  const { a, nodes, world } = await twoNodes();
  const [first, second] = nodes;
  const now = world.clock.now() + 60_000;
  const posted = first.ring.advance(now).find((output) => output.kind === "post-token");
  if (posted?.kind !== "post-token") throw new Error("no token was made");
  // Newer than all that the first node knows of.
  const token = { ...posted.token, epoch: posted.token.epoch + 1 };
  second.ring.input({ kind: "token", from: first.node.url, token }, now);
  let seen: unknown = null;
  await until("the first node has asked the second", async () => {
    seen = (await a.get("/v1/ring")).body["token"];
    return (seen as { epoch: number } | null)?.epoch === token.epoch;
  });
  expect(seen).toMatchObject({ epoch: token.epoch, at: second.node.url });
});
