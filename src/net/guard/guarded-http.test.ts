// The guard against servers on loopback that the list opens, and against resolvers and connections that lie.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, createServer as createTcpServer, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { needCommand } from "../../../test/fixtures/need-command.ts";
import { unwrap } from "../../std/rejection.ts";
import { AllowList } from "./allow-list.ts";
import { type Dial, GuardedHttp, type GuardOptions } from "./guarded-http.ts";

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  onTestFinished(() => server.close().closeAllConnections());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function guardWith(entries: readonly string[], more: Partial<GuardOptions> = {}): GuardedHttp {
  return new GuardedHttp({ allow: unwrap(AllowList.parse(entries)), ...more });
}

const dialled = () => {
  const places: string[] = [];
  const dial: Dial = ({ address, port }) => {
    places.push(`${address} ${port}`);
    return Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
  };
  return { places, dial };
};

const echo: RequestListener = (request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString()));
  request.on("end", () => {
    const { method, url, headers } = request;
    response.setHeader("x-a", "b");
    response.end(JSON.stringify({ method, url, host: headers.host, type: headers["content-type"], body }));
  });
};

describe("an answer", () => {
  test("comes from a target that is listed", async () => {
    const port = await serve(echo);
    const guard = guardWith([`inside.example:${port}`], { lookup: async () => ["127.0.0.1"] });
    const answer = await guard.send({
      method: "POST",
      url: `http://inside.example:${port}/a?b=1`,
      headers: { "content-type": "application/json" },
      body: '{"x":"é"}',
    });
    expect(answer).toMatchObject({ kind: "answer", status: 200, isCut: false, headers: { "x-a": "b" } });
    expect(JSON.parse((answer as { text: string }).text)).toEqual({
      method: "POST",
      url: "/a?b=1",
      host: `inside.example:${port}`,
      type: "application/json",
      body: '{"x":"é"}',
    });
  });

  test("is read up to a limit", async () => {
    const port = await serve((_, response) => void response.end("x".repeat(100_000)));
    const guard = guardWith([`127.0.0.1:${port}`], { limits: { bodyBytes: 10 } });
    expect(await guard.send({ method: "GET", url: `http://127.0.0.1:${port}/` })).toMatchObject({
      status: 200,
      text: "x".repeat(10),
      isCut: true,
    });
  });

  test("that sends elsewhere is not followed", async () => {
    let asked = 0;
    const port = await serve((_, response) => {
      asked++;
      response.writeHead(307, { location: "http://169.254.169.254/" }).end();
    });
    const guard = guardWith([`127.0.0.1:${port}`, "169.254.169.254"]);
    expect(await guard.send({ method: "POST", url: `http://127.0.0.1:${port}/`, body: "{}" })).toMatchObject({
      status: 307,
      headers: { location: "http://169.254.169.254/" },
    });
    expect(asked).toBe(1);
  });
});

describe("over TLS", () => {
  const folder = mkdtempSync(join(tmpdir(), "rondo-guard-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  needCommand("openssl", "openssl");
  const flags = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  const name = ["-subj", "/CN=inside.example", "-addext", "subjectAltName=DNS:inside.example"];
  const files = ["-keyout", join(folder, "key"), "-out", join(folder, "cert")];
  spawnSync("openssl", ["req", ...flags, ...name, ...files]);
  const [key, cert] = ["key", "cert"].map((file) => readFileSync(join(folder, file), "utf8")) as [
    string,
    string,
  ];

  async function serveTls(): Promise<number> {
    const server = createTlsServer({ key, cert }, echo);
    onTestFinished(() => server.close().closeAllConnections());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  test("an answer comes from a server with the host's certificate", async () => {
    const port = await serveTls();
    const guard = guardWith([`inside.example:${port}`], { lookup: async () => ["127.0.0.1"], ca: cert });
    expect(
      await guard.send({ method: "POST", url: `https://inside.example:${port}/x`, body: "{}" }),
    ).toMatchObject({ status: 200, text: expect.stringContaining('"body":"{}"') });
  });

  test("nothing is sent to one with another's, or with one that nobody vouches for", async () => {
    const port = await serveTls();
    const entries = [`inside.example:${port}`, `127.0.0.1:${port}`];
    const lookup = async () => ["127.0.0.1"];
    await expect(
      guardWith(entries, { ca: cert }).send({ method: "POST", url: `https://127.0.0.1:${port}/` }),
    ).rejects.toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
    await expect(
      guardWith(entries, { lookup }).send({ method: "POST", url: `https://inside.example:${port}/` }),
    ).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
  });
});

describe("a name is refused", () => {
  test.each([
    [["127.0.0.1"], "loopback"],
    [["169.254.169.254"], "link-local"],
    [["93.184.215.14", "10.0.0.1"], "private"],
    [["10.0.0.1", "93.184.215.14"], "private"],
    [["2606:4700:4700::1111", "::ffff:127.0.0.1"], "loopback"],
    [["fe80::1%eth0"], "link-local"],
    [["0.0.0.0"], "unspecified"],
    [["not an address"], "not an address"],
  ])("that resolves to %j", async (addresses, why) => {
    const { places, dial } = dialled();
    const guard = guardWith([], { lookup: async () => addresses, dial });
    const refusal = await guard.send({ method: "GET", url: "http://rebind.example.com/" });
    expect(refusal).toMatchObject({ code: "forbidden", message: expect.stringContaining(why) });
    expect(places).toEqual([]);
  });

  test("also a listed one, where only an address can be listed", async () => {
    const { places, dial } = dialled();
    const guard = guardWith(["inside.example"], { lookup: async () => ["169.254.169.254"], dial });
    const refusal = await guard.send({ method: "GET", url: "http://inside.example/" });
    expect(refusal).toMatchObject({ hint: expect.stringContaining('"169.254.169.254:80"') });
    expect(places).toEqual([]);
  });

  test("at a port that is listed for other addresses", async () => {
    const { places, dial } = dialled();
    const guard = guardWith(["10.0.0.0/8:9000"], { lookup: async () => ["93.184.215.14"], dial });
    const refusal = await guard.send({ method: "GET", url: "http://a.example.com:9000/" });
    expect(refusal).toMatchObject({ message: expect.stringContaining("port 9000") });
    expect(places).toEqual([]);
  });
});

describe("a name that changes its mind", () => {
  test("is resolved once, and what was checked is what is connected to", async () => {
    const answers = [["93.184.215.14"], ["127.0.0.1"]];
    let asked = 0;
    const { places, dial } = dialled();
    const guard = guardWith([], { lookup: async () => answers[asked++] ?? [], dial });
    await expect(guard.send({ method: "GET", url: "http://rebind.example.com/" })).rejects.toMatchObject({
      name: "HttpFault",
      code: "ECONNREFUSED",
    });
    expect(asked).toBe(1);
    expect(places).toEqual(["93.184.215.14 80"]);
    // The next try asks again, and is refused.
    expect(await guard.send({ method: "GET", url: "http://rebind.example.com/" })).toMatchObject({
      code: "forbidden",
    });
    expect(places).toHaveLength(1);
  });

  test.each([
    ["a forbidden address", ["93.184.215.14"], [] as string[], "is loopback"],
    ["another one than was dialled", ["10.0.0.1"], ["10.0.0.1", "127.0.0.1"], "should have reached 10.0.0.1"],
  ])("and is connected to %s gets no byte", async (_, addresses, entries, why) => {
    const received: Buffer[] = [];
    const server = createTcpServer((socket) => void socket.on("data", (chunk) => received.push(chunk)));
    onTestFinished(() => void server.close());
    const closed = new Promise<void>((resolve) => {
      server.on("connection", (socket) => void socket.on("close", () => resolve()).on("error", () => {}));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    // Something between this and the network leads the connection to loopback.
    const dial: Dial = async () => {
      const socket = connect({ host: "127.0.0.1", port });
      await once(socket, "connect");
      return socket;
    };
    const guard = guardWith(entries, { lookup: async () => addresses, dial });
    const refusal = await guard.send({ method: "POST", url: "http://a.example.com/", body: "secret" });
    expect(refusal).toMatchObject({ code: "forbidden", message: expect.stringContaining(why) });
    await closed;
    expect(received).toEqual([]);
  });

  test("and a connection that leads nowhere is refused", async () => {
    const guard = guardWith([], { lookup: async () => ["93.184.215.14"], dial: async () => new Socket() });
    expect(await guard.send({ method: "GET", url: "http://a.example.com/" })).toMatchObject({
      code: "forbidden",
    });
  });
});

describe("a fault", () => {
  test("is a name without an address", async () => {
    const guard = guardWith([], { lookup: async () => [] });
    await expect(guard.send({ method: "GET", url: "http://a.example.com/" })).rejects.toMatchObject({
      code: "ENOTFOUND",
    });
  });

  test("is a server of which no address lets in; a few of them are tried", async () => {
    const { places, dial } = dialled();
    const addresses = ["1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4"];
    const guard = guardWith([], { lookup: async () => addresses, dial });
    await expect(guard.send({ method: "GET", url: "http://a.example.com/" })).rejects.toMatchObject({
      code: "ECONNREFUSED",
    });
    expect(places).toEqual(["1.1.1.1 80", "1.0.0.1 80", "8.8.8.8 80"]);
  });

  test("is a resolver, a connection or an answer that takes too long", async () => {
    const forever = new Promise<never>(() => {});
    const port = await serve(() => {});
    const entries = [`127.0.0.1:${port}`];
    const url = `http://127.0.0.1:${port}/`;
    for (const guard of [
      guardWith(["inside.example"], { lookup: () => forever, limits: { connectMs: 5 } }),
      guardWith(["inside.example"], {
        lookup: async () => ["127.0.0.1"],
        dial: ({ signal }) =>
          new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason as Error))),
        limits: { connectMs: 5 },
      }),
    ])
      await expect(guard.send({ method: "GET", url: "http://inside.example/" })).rejects.toMatchObject({
        code: "timeout",
      });
    await expect(
      guardWith(entries, { limits: { wholeMs: 5 } }).send({ method: "GET", url }),
    ).rejects.toMatchObject({ code: "timeout", message: `127.0.0.1:${port}: took too long` });
    await expect(guardWith(entries).send({ method: "GET", url, timeoutMs: 5 })).rejects.toMatchObject({
      code: "timeout",
    });
    const abort = new AbortController();
    const sent = guardWith(entries).send({ method: "GET", url, signal: abort.signal });
    abort.abort();
    await expect(sent).rejects.toMatchObject({ code: "aborted" });
  });

  test("is not an exchange that takes longer than connecting may", async () => {
    const held: (() => void)[] = [];
    const port = await serve((_, response) => void held.push(() => response.end("late")));
    const guard = guardWith([`127.0.0.1:${port}`], { limits: { connectMs: 1_000 } });
    const sent = guard.send({ method: "GET", url: `http://127.0.0.1:${port}/` });
    await once(AbortSignal.timeout(1_100), "abort");
    for (const answer of held) answer();
    expect(await sent).toMatchObject({ text: "late" });
  });

  test("is an answer that never ends, or that is another protocol's", async () => {
    const trickle = await serve((_, response) => {
      const more = (): void => void (response.destroyed || response.write("x", () => setImmediate(more)));
      more();
    });
    const limits = { wholeMs: 100, bodyBytes: 1e9 };
    await expect(
      guardWith([`127.0.0.1:${trickle}`], { limits }).send({
        method: "GET",
        url: `http://127.0.0.1:${trickle}/`,
      }),
    ).rejects.toMatchObject({ code: "timeout" });
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
    });
    onTestFinished(() => void server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await expect(
      guardWith([`127.0.0.1:${port}`]).send({ method: "GET", url: `http://127.0.0.1:${port}/` }),
    ).rejects.toMatchObject({ name: "HttpFault" });
  });

  test("is an answer with headers without end, or one that is not HTTP", async () => {
    const large = await serve((_, response) => {
      response.setHeader("x-large", "x".repeat(20_000));
      response.end();
    });
    await expect(
      guardWith([`127.0.0.1:${large}`]).send({ method: "GET", url: `http://127.0.0.1:${large}/` }),
    ).rejects.toMatchObject({ code: "HPE_HEADER_OVERFLOW" });
    const server = createTcpServer((socket) => void socket.end("+OK redis\r\n"));
    onTestFinished(() => void server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await expect(
      guardWith([`127.0.0.1:${port}`]).send({ method: "GET", url: `http://127.0.0.1:${port}/` }),
    ).rejects.toMatchObject({ name: "HttpFault" });
    await expect(
      guardWith([`127.0.0.1:${port}`]).send({ method: "GET", url: `https://127.0.0.1:${port}/` }),
    ).rejects.toMatchObject({ name: "HttpFault" });
  });
});
