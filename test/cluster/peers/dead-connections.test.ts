// The network between two nodes swallows everything for a while: pooled connections are dead, and nobody says so.
import { expect, onTestFinished, test } from "vitest";
import { PeerClient } from "../../../src/cluster/peers/peer-client.ts";
import { PeerKey } from "../../../src/cluster/peers/peer-key.ts";
import { PeerWorld } from "../../fixtures/cluster/peer-world-fixture.ts";
import { ByteProxy } from "../../fixtures/faults/byte-proxy-fixture.ts";

const CONNECTIONS = 8;

test("of all pooled connections that died silently only one costs a time-out", async () => {
  const world = new PeerWorld();
  const node = await world.node("a");
  await node.take(3);
  const proxy = await ByteProxy.start(node.url);
  onTestFinished(() => proxy.close());
  const client = new PeerClient({ url: "http://127.0.0.1:1", key: new PeerKey(null, node.engine.info) });
  onTestFinished(() => client.close());
  const body = { v: 1, execution: world.idIn(3) };
  const ask = async (timeoutMs: number) =>
    (await client.call(proxy.url, "inspect", body, { timeoutMs })).kind;
  // Each of the requests that are under way at the same time has a connection, which is pooled afterwards.
  const before = await Promise.all(Array.from({ length: CONNECTIONS }, () => ask(5_000)));
  expect(before).toEqual(Array.from({ length: CONNECTIONS }, () => "answered"));
  proxy.swallow();
  const after = [await ask(200)];
  while (after.length < CONNECTIONS) after.push(await ask(2_000));
  expect(after).toEqual(["unreached", ...Array.from({ length: CONNECTIONS - 1 }, () => "answered")]);
});
