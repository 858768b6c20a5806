// Bad answers of nodes, and of whatever is between them and a worker, end a request and never the worker.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { ClusterFixture, type FixtureNode } from "../fixtures/workers/worker-cluster-fixture.ts";

const copy = workflow({ name: "copy" })
  .phase("each", {
    enumerate: () => [1, 2, 3, 4, 5],
    process: async ({ task, step }) => (await step("one", () => task)) * 2,
  })
  .returns(async ({ phases }) => {
    let sum = 0;
    for await (const result of phases.each.results()) sum += result;
    return sum;
  });

const BAD: readonly (readonly [number, string])[] = [
  [400, '{"code":"invalid_json","detail":"the body is not JSON"}'],
  [400, "<html>Bad request</html>"],
  [200, "<html>Welcome</html>"],
  [200, ""],
  [200, "null"],
  [200, "[]"],
  [200, '{"work":[{"attempt":"no attempt"}],"inputs":{},"phases":{},"cancel":[],"lost":[]}'],
  [200, '{"work":[],"inputs":{},"phases":{},"cancel":["x"],"lost":[]}'],
  [200, '{"work":[],"inputs":{},"phases":{},"cancel":[],"lost":[],"nodes":["not a url"]}'],
  [200, '{"stored":{},"verdicts":{}}'],
  [200, '{"worker":7}'],
  [401, '{"code":"unauthorised","detail":"a token is needed"}'],
  [403, "<html>Forbidden</html>"],
  [404, "<html>Not found</html>"],
  [404, '{"code":"not_found","detail":"no such worker"}'],
  [409, '{"code":"conflict","detail":"no"}'],
  [413, "too large"],
  [418, "teapot"],
  [422, '{"code":"invalid_input","detail":"max: no"}'],
  [500, ""],
  [502, "<html>Bad gateway</html>"],
  [503, '{"code":"not_ready","detail":"starting"}'],
];

/** Each route answers badly for its first request of each kind, once the worker was registered. */
function garble(node: FixtureNode): void {
  const counts = new Map<string, number>();
  let isBegun = false;
  node.garble = (path) => {
    const route = path.replace(/^.*\//, "");
    if (!["workers", "claim", "events", "heartbeat"].includes(route)) return null;
    if (!isBegun) {
      isBegun = route === "claim";
      return null;
    }
    const count = counts.get(route) ?? 0;
    counts.set(route, count + 1);
    return count % 3 === 0 ? (BAD[(count / 3) % BAD.length] as (typeof BAD)[number]) : null;
  };
}

test("an execution ends as it should though every third answer is bad", { timeout: 60_000 }, async () => {
  const fixture = await ClusterFixture.open(2);
  for (const node of fixture.nodes) garble(node);
  await fixture.work([copy], { addresses: fixture.nodes.map(({ url }) => url), onDropped: () => {} });
  for (const node of fixture.nodes)
    for (let i = 0; i < 3; i++) {
      const id = await fixture.startAt(node, copy);
      expect(await fixture.ended(id)).toMatchObject({ status: "done", output: 30 });
    }
});

test("a worker that every address refuses at its start says so, and goes on once it is let in", async () => {
  const fixture = await ClusterFixture.open(1);
  const [node] = fixture.nodes as [FixtureNode];
  let isRefused = true;
  node.garble = () => (isRefused ? [403, '{"code":"forbidden","detail":"not a worker\'s token"}'] : null);
  const refusals: string[] = [];
  await fixture.work([copy], { onRefused: ({ status, message }) => refusals.push(`${status} ${message}`) });
  await fixture.passUntil(() => refusals.length > 0);
  expect(refusals[0]).toBe("403 not a worker's token");
  isRefused = false;
  const id = await fixture.startAt(node, copy);
  expect(await fixture.ended(id)).toMatchObject({ output: 30 });
});
