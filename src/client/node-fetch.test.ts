// The client's requests in Node, against a bare HTTP server.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { defaultFetch } from "./node-fetch.ts";

async function listen(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("sends method, path, headers and body, on one kept connection", async () => {
  const ports = new Set<number | undefined>();
  const url = await listen((incoming, outgoing) => {
    ports.add(incoming.socket.remotePort);
    const { method, url: path, headers } = incoming;
    let body = "";
    incoming.on("data", (part: Buffer) => {
      body += part.toString();
    });
    incoming.on("end", () => {
      outgoing
        .writeHead(201, { "x-told": "yes" })
        .end(JSON.stringify({ method, path, type: headers["content-type"], body }));
    });
  });
  const globally = vi.spyOn(globalThis, "fetch");
  onTestFinished(() => globally.mockRestore());
  const fetch = defaultFetch();
  for (const body of ["{}", '{"ü":1}']) {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${url}/base/v1?a=1`, { method: "POST", headers, body });
    expect([response.status, response.headers.get("X-Told"), response.headers.get("x-other")]).toEqual([
      201,
      "yes",
      null,
    ]);
    expect(JSON.parse(await response.text())).toEqual({
      method: "POST",
      path: "/base/v1?a=1",
      type: headers["content-type"],
      body,
    });
  }
  expect(ports.size).toBe(1);
  expect(globally).not.toHaveBeenCalled();
});

test("gives a body as it arrives, and closes the connection if the reader has enough", async () => {
  let onClosed = (): void => {};
  const closed = new Promise<void>((resolve) => {
    onClosed = resolve;
  });
  const url = await listen((_incoming, outgoing) => {
    outgoing.on("close", onClosed);
    outgoing.write("first");
  });
  const { body } = await defaultFetch()(`${url}/`, { method: "GET", headers: {} });
  const reader = body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  expect(new TextDecoder().decode(value as Uint8Array)).toBe("first");
  await reader?.cancel();
  await closed;
});

test("fails with the reason of its signal, before and after the head of the answer", async () => {
  const url = await listen((incoming, outgoing) => {
    if (incoming.url === "/head") outgoing.write("{");
  });
  const call = new AbortController();
  const silent = defaultFetch()(`${url}/silent`, { method: "GET", headers: {}, signal: call.signal });
  const { text } = await defaultFetch()(`${url}/head`, { method: "GET", headers: {}, signal: call.signal });
  const half = text();
  call.abort(new Error("enough"));
  await expect(silent).rejects.toThrow("enough");
  await expect(half).rejects.toThrow(/enough|aborted/);
  await expect(
    defaultFetch()(`${url}/`, { method: "GET", headers: {}, signal: call.signal }),
  ).rejects.toThrow("enough");
});

test("follows a redirect", async () => {
  const url = await listen((incoming, outgoing) => {
    if (incoming.url === "/old") outgoing.writeHead(307, { location: "/new" }).end();
    else outgoing.end(incoming.url);
  });
  const response = await defaultFetch()(`${url}/old`, { method: "POST", headers: {}, body: "{}" });
  expect([response.status, await response.text()]).toEqual([200, "/new"]);
});
