// Clients that were given several nodes of a cluster, one of which is killed.

import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";
import { withServer } from "../../../src/cli/server/find-server.ts";
import { RemoteRondo } from "../../../src/client/connect.ts";
import { Requester } from "../../../src/client/requester.ts";
import { CuttingProxy } from "../../fixtures/server/cutting-proxy-fixture.ts";
import { twoNodes } from "../../fixtures/server/two-nodes-fixture.ts";

const WAITING = { name: "approval", phases: [{ name: "wait", handlers: { wait: { waitFor: "go" } } }] };

/** Two nodes, each behind a proxy by which it can be killed, and an execution of the second one's. */
async function cluster() {
  const { world, a, b } = await twoNodes();
  await a.post("/v1/workflows", WAITING);
  const [near, far] = [await CuttingProxy.to(a.url), await CuttingProxy.to(b.url)];
  return { world, a, b, near, far, urls: [near.url, far.url], id: world.idIn(1) };
}

describe("a client of two nodes", () => {
  test("goes on at the other when one is killed: requests, and streams without a gap", async () => {
    const { world, near, urls, id } = await cluster();
    const client = connect({ urls });
    const execution = await world.passing(client.start("approval", { n: 1 }, { id }));
    const seqs: number[] = [];
    const followed = (async () => {
      for await (const { seq } of execution.events()) seqs.push(seq);
    })();
    await world.passUntil(() => seqs.length >= 3);
    near.close();
    // The same start again finds what it started before.
    expect((await world.passing(client.start("approval", { n: 1 }, { id }))).id).toBe(id);
    expect(await world.passing(execution.describe())).toMatchObject({ status: "running" });
    await world.passing(execution.signal("go", 1));
    await world.passing(followed);
    expect(seqs).toEqual(seqs.map((_, i) => i + 1));
    expect(await world.passing(execution.describe())).toMatchObject({ status: "done" });
  });

  test("starts nothing twice when the answer is cut off", async () => {
    const { world, a, near, urls } = await cluster();
    near.bytesMax = 10;
    const execution = await world.passing(connect({ urls }).start("approval", null));
    expect(near.cut).toBe(1);
    const { body } = await a.get("/v1/executions");
    expect((body["data"] as unknown as { id: string }[]).map(({ id }) => id)).toEqual([execution.id]);
  });

  test("asks no other for what must not be done twice, unless it was refused", async () => {
    const { world, near, far, urls } = await cluster();
    near.bytesMax = 10;
    const make = () =>
      world.passing(
        new RemoteRondo({ urls }).requester.json("/v1/tokens", {
          method: "POST",
          body: { name: "x", role: "admin" },
        }),
      );
    await expect(make()).rejects.toMatchObject({ code: "not_ready" });
    expect([near.accepted, far.accepted]).toEqual([1, 0]);
    near.close();
    expect(await make()).toMatchObject({ name: "x" });
  });
});

test("a command that was given several addresses reaches one that answers", async () => {
  const { world, near, far, id } = await cluster();
  near.close();
  const flags = { url: `${near.url}/, ${far.url}` };
  const started = await world.passing(
    withServer(flags, ({ rondo }) => rondo.start("approval", null, { id }), { say: () => {} }),
  );
  expect(started.id).toBe(id);
  far.close();
  await expect(world.passing(withServer(flags, ({ rondo }) => rondo.list()))).rejects.toMatchObject({
    message: `cannot reach ${near.url} or ${far.url}: ECONNREFUSED`,
  });
  await expect(withServer({ url: `${near.url},` }, async () => null)).rejects.toMatchObject({
    code: "invalid_input",
  });
});

test("requests side by side try every address, whichever answered another of them", async () => {
  const asked: string[] = [];
  const answer = (status: number, body: string) => ({ status, text: async () => body });
  const requester = new Requester({
    urls: ["http://bad", "http://good"],
    token: null,
    fetch: async (url) => {
      const turns = 20 * asked.push(url);
      // The bad one is slower each time, so that others have been answered by the good one meanwhile.
      const isBad = url.startsWith("http://bad");
      for (let turn = 0; isBad && turn < turns; turn++) await Promise.resolve();
      return (isBad ? answer(503, '{"code":"not_ready","detail":"closing"}') : answer(200, "1")) as never;
    },
  });
  const all = await Promise.all(Array.from({ length: 20 }, () => requester.json<number>("/x")));
  expect(new Set(all)).toEqual(new Set([1]));
});
