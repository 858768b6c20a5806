import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { Asked, WaitingRequests } from "./app.ts";

const servers: ReturnType<typeof createServer>[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A request over a real connection, as a handler sees it, and its client. */
async function received(waiting = new WaitingRequests()) {
  const server = createServer();
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const client = request({ port: (server.address() as AddressInfo).port, host: "127.0.0.1" });
  client.on("error", () => {});
  client.end();
  const [incoming, outgoing] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  const caller = { token: "t1", project: null } as ConstructorParameters<typeof Asked>[0]["caller"];
  const checked = { params: {}, query: {}, body: undefined, idempotencyKey: null };
  const ask = new Asked({ bindings: { incoming, outgoing, via: "tcp" } as never, caller, checked, waiting });
  return { client, outgoing, ask, waiting };
}

test("a function that was given before the client disconnects is called when it does", async () => {
  const { client, outgoing, ask } = await received();
  const calls: string[] = [];
  ask.whenOver(() => calls.push("a"));
  ask.whenOver(() => calls.push("removed"))();
  const { signal } = ask;
  client.destroy();
  await once(outgoing, "close");
  expect(calls).toEqual(["a"]);
  expect(signal.aborted).toBe(true);
});

test("a function that is given after the client has disconnected is called at once", async () => {
  const { client, outgoing, ask } = await received();
  client.destroy();
  await once(outgoing, "close");
  const calls: string[] = [];
  ask.whenOver(() => calls.push("late"));
  expect(calls).toEqual(["late"]);
  expect(ask.signal.aborted).toBe(true);
});

test("a revoked token ends its own requests, and what is given afterwards is called at once", async () => {
  const { ask, waiting } = await received();
  const other = await received(waiting);
  const calls: string[] = [];
  ask.whenOver(() => calls.push("revoked"));
  waiting.end("t2");
  expect(calls).toEqual([]);
  waiting.end("t1");
  ask.whenOver(() => calls.push("after"));
  expect(calls).toEqual(["revoked", "after"]);
  other.client.destroy();
});
