// HTTP over TCP and unix sockets, against a real server.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { HttpConnection } from "./http-connection.ts";

async function serve(listener: RequestListener, socket?: string): Promise<string> {
  const server = createServer(listener);
  onTestFinished(() => server.close().closeAllConnections());
  if (socket === undefined) server.listen(0, "127.0.0.1");
  else server.listen(socket);
  await once(server, "listening");
  return socket === undefined
    ? `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    : `unix:${socket}`;
}

function connect(address: string, more: { token?: string; answerBytesMax?: number } = {}): HttpConnection {
  const connection = new HttpConnection({ address, ...more });
  onTestFinished(() => connection.close());
  return connection;
}

const echo: RequestListener = (request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString()));
  request.on("end", () => {
    const { method, url, headers } = request;
    response.statusCode = url === "/missing" ? 404 : 200;
    response.end(
      JSON.stringify({ method, url, type: headers["content-type"], auth: headers.authorization, body }),
    );
  });
};

describe("an answer", () => {
  test("has status and text, whatever the status; the token and the type go along", async () => {
    const connection = connect(await serve(echo), { token: "t1" });
    const answer = await connection.send({ method: "POST", path: "/a?b=1", body: '{"x":"é"}' });
    expect(JSON.parse(answer.text)).toEqual({
      method: "POST",
      url: "/a?b=1",
      type: "application/json",
      auth: "Bearer t1",
      body: '{"x":"é"}',
    });
    expect((await connection.send({ method: "GET", path: "/missing" })).status).toBe(404);
    expect(connection.localAddress).toBe("127.0.0.1");
  });

  test("comes over a unix socket too", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rondo-http-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const connection = connect(await serve(echo, join(folder, "s")));
    expect((await connection.send({ method: "GET", path: "/x" })).status).toBe(200);
    expect(connection.localAddress).toBeNull();
  });

  test("of several requests comes over one connection", async () => {
    const ports = new Set<number | undefined>();
    const connection = connect(
      await serve((request, response) => {
        ports.add(request.socket.remotePort);
        response.end("ok");
      }),
    );
    for (let i = 0; i < 3; i++) await connection.send({ method: "GET", path: "/" });
    expect(ports.size).toBe(1);
  });

  test("under a path of the server's address goes there", async () => {
    const connection = connect(`${await serve(echo)}/under/`);
    expect(JSON.parse((await connection.send({ method: "GET", path: "/v1" })).text)).toMatchObject({
      url: "/under/v1",
    });
  });

  test("can be read as it comes, and given up", async () => {
    const address = await serve((_, response) => void response.write("first\n"));
    const answer = await connect(address).open({ method: "GET", path: "/" });
    for await (const text of answer.body) {
      expect(text).toBe("first\n");
      answer.cancel();
      break;
    }
  });
});

describe("a fault", () => {
  test("is a server that is not there", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    await expect(
      connect(`http://127.0.0.1:${port}`).send({ method: "GET", path: "/" }),
    ).rejects.toMatchObject({ name: "HttpFault", code: "ECONNREFUSED" });
  });

  test("is one that cuts the connection in the middle of its answer", async () => {
    const address = await serve((_, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("half", () => response.destroy());
    });
    await expect(connect(address).send({ method: "GET", path: "/" })).rejects.toMatchObject({
      name: "HttpFault",
      code: "ECONNRESET",
    });
  });

  test("is one that takes too long, or that is given up", async () => {
    const address = await serve(() => {});
    await expect(connect(address).send({ method: "GET", path: "/", timeoutMs: 10 })).rejects.toMatchObject({
      code: "timeout",
    });
    const abort = new AbortController();
    const sent = connect(address).send({ method: "GET", path: "/", signal: abort.signal });
    abort.abort();
    await expect(sent).rejects.toMatchObject({ code: "aborted" });
  });

  test("is one from which nothing is heard for too long, before its answer or within it", async () => {
    const address = await serve((request, response) => {
      if (request.url === "/half") response.writeHead(200).write(" ");
    });
    for (const path of ["/none", "/half"])
      await expect(
        connect(address).send({ method: "GET", path, silenceMs: 20, timeoutMs: 60_000 }),
      ).rejects.toMatchObject({ code: "timeout" });
  });

  test("is none while parts of an answer come, each of which is told", async () => {
    let write = (): void => {};
    const address = await serve((_, response) => {
      let left = 3;
      write = () => (left-- > 0 ? response.write(" ") : response.end("{}"));
      write();
    });
    const told: number[] = [];
    const onPart = (): void => {
      told.push(told.length);
      write();
    };
    const answer = await connect(address).send({ method: "GET", path: "/", silenceMs: 60_000, onPart });
    expect(answer.text).toBe("   {}");
    expect(told).toEqual([0, 1, 2, 3]);
  });

  test("on an old connection that was closed meanwhile is told apart", async () => {
    let isClosing = false;
    const address = await serve((request, response) => {
      if (isClosing) request.socket.destroy();
      else response.end("ok");
    });
    const connection = connect(address);
    await connection.send({ method: "GET", path: "/" });
    isClosing = true;
    await expect(connection.send({ method: "GET", path: "/" })).rejects.toMatchObject({ isStale: true });
    await expect(connection.send({ method: "GET", path: "/" })).rejects.toMatchObject({ isStale: false });
  });

  test("is an answer without end, or an address that is none", async () => {
    const address = await serve((_, response) => void response.end("x".repeat(2_000)));
    await expect(
      connect(address, { answerBytesMax: 1_000 }).send({ method: "GET", path: "/" }),
    ).rejects.toMatchObject({ code: "too_large" });
    expect(() => new HttpConnection({ address: "ftp://x" })).toThrow("is not http(s)");
  });
});
