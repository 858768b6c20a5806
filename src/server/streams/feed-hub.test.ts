// A stream whose client disconnects before the stream begins, over a real connection.
import { once } from "node:events";
import { createServer, get, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../std/clock.ts";
import { Metrics } from "../metrics.ts";
import { DEFAULT_API_LIMITS } from "../parts.ts";
import type { FeedSource } from "./feed.ts";
import { FeedHub } from "./feed-hub.ts";

/** A journal that has one event and does not end. */
const SOURCE: FeedSource = {
  read: async (from) => ({
    bytes: Buffer.from(from === "1" ? "data: 1\n\n" : ""),
    next: "2",
    isLast: true,
    endsAt: null,
  }),
  isOver: async () => false,
  watch: () => () => {},
};

/** The response to a client that has left before it is answered. */
async function abandoned(): Promise<ServerResponse> {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const request = get({ host: "127.0.0.1", port: (server.address() as AddressInfo).port });
  // The client leaves on purpose.
  request.on("error", () => {});
  const [, outgoing] = (await once(server, "request")) as [unknown, ServerResponse];
  request.destroy();
  await once(outgoing, "close");
  return outgoing;
}

test("a stream for a client that has left ends at once, and does not keep the hub open", async () => {
  const metrics = new Metrics();
  onTestFinished(() => metrics.close());
  const limits = DEFAULT_API_LIMITS;
  const hub = new FeedHub({ clock: systemClock(), metrics, limits, onFault: () => {}, isKnown: () => true });
  const caller = { name: "local", role: "viewer", project: null, token: null, countedBy: null } as const;
  const outgoing = await abandoned();
  const refusal = hub.open({ outgoing, caller, key: "e1", source: () => SOURCE, from: "1", follow: true });
  expect(refusal).toBe(null);
  await hub.close();
  expect(hub.size).toBe(0);
});
