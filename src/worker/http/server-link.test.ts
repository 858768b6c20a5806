// Requests to the server: which failures are retried, which are final, and which requests are skipped. Over HTTP; time is virtual.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { ServerLink } from "./server-link.ts";

interface Asked {
  readonly socket: Socket;
  readonly path: string;
  readonly token: string | undefined;
  readonly body: string;
}

/** What the server does with a request: cuts it off, or answers. */
type Answer = "cut" | "hole" | readonly [status: number, body: unknown];

async function setUp(answer: (asked: Asked) => Answer | Promise<Answer>) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    const respond = (given: Answer): void => {
      if (given === "hole") return;
      if (given === "cut") request.socket.destroy();
      else
        response.writeHead(given[0]).end(typeof given[1] === "string" ? given[1] : JSON.stringify(given[1]));
    };
    request.on("end", () => {
      const { socket, url = "", headers } = request;
      const one = { socket, path: url, token: headers.authorization, body };
      asked.push(one);
      const given = answer(one);
      if (given instanceof Promise) void given.then(respond);
      else respond(given);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = new VirtualClock();
  const failures: string[] = [];
  const heard: string[] = [];
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const link: ServerLink = new ServerLink({
    addresses: [address],
    token: "own",
    clock,
    random: new SeededRandom("link"),
    worker: () => "w1",
    registration: () => ({ name: "w", worker: "w1", handlers: [], capacity: 1, url: "http://127.0.0.1:1" }),
    answerMs: () => 100,
    onAnswered: (route) => heard.push(route),
    onFailed: (route, what) => failures.push(`${route}: ${what.replace(address, "server")}`),
    onForgotten: () => link.notReady(),
  });
  link.ready(address);
  onTestFinished(async () => {
    await link.close();
    server.close().closeAllConnections();
  });
  /** Lets time pass until it is over. */
  const pass = async <T>(under: Promise<T>): Promise<T> => {
    const state = { isOver: false };
    const over = () => {
      state.isOver = true;
    };
    under.then(over, over);
    while (!state.isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(1_000);
    }
    return under;
  };
  return { address, asked, link, clock, failures, heard, pass };
}

const value = (body: unknown) => body as Record<string, unknown> | null;

test("reading waits out a server that is not there, or not ready", async () => {
  const answers: Answer[] = ["cut", "cut", [503, { code: "not_ready" }], [429, {}], [200, { data: [] }]];
  const { asked, link, failures, heard, pass } = await setUp(() => answers.shift() as Answer);
  expect(await pass(link.read("/v1/x", "t1"))).toBe('{"data":[]}');
  expect(asked.map(({ path, token }) => `${path} ${token}`)).toEqual(Array(5).fill("/v1/x Bearer t1"));
  expect(failures).toHaveLength(4);
  expect(heard).toEqual(["read"]);
});

test("a refusal is final for what is read", async () => {
  const { asked, link, pass } = await setUp(() => [409, { code: "stale_attempt", detail: "it is over" }]);
  await expect(pass(link.read("/v1/x", "t1"))).rejects.toThrow("409 stale_attempt: it is over");
  expect(asked).toHaveLength(1);
});

test("whoever waits for a server is let go when the link is closed", async () => {
  const { link, pass } = await setUp(() => "cut");
  const read = link.read("/v1/x", "t1");
  await link.close();
  await expect(pass(read)).rejects.toThrow("the worker is stopping");
});

test("once the server is there again, nobody waits for the end of a back-off", async () => {
  let isThere = false;
  const { link, clock, failures } = await setUp(({ path }) =>
    isThere ? [200, { path }] : [503, { code: "not_ready" }],
  );
  const read = link.read("/v1/x", "t1");
  while (failures.length === 0) await new Promise((resolve) => setImmediate(resolve));
  isThere = true;
  // Virtual time does not advance: only the answer to the other request can wake this one.
  expect(await link.post("heartbeat", "{}", { read: value })).toMatchObject({ kind: "answered" });
  expect(await read).toBe('{"path":"/v1/x"}');
  expect(clock.now()).toBe(new VirtualClock().now());
});

test("what is sent once waits for a session that is registered for the first time, not for one that has failed", async () => {
  const { address, link, asked } = await setUp(() => [200, {}]);
  link.notReady();
  const first = link.post("heartbeat", "{}", { read: value, isOnce: true });
  link.ready(address);
  expect(await first).toMatchObject({ kind: "answered" });
  link.notReady();
  const second = link.post("heartbeat", "{}", { read: value, isOnce: true });
  link.failed();
  expect(await second).toEqual({ kind: "unsent" });
  expect(asked).toHaveLength(1);
});

test("an answer that cannot be read ends the request, and is reported as a failure", async () => {
  const answers: Answer[] = [
    [200, "<html>Bad gateway</html>"],
    [200, ""],
    [200, "[1,2"],
    [200, { wrong: "shape" }],
    [502, "<html>Bad gateway</html>"],
    [400, { code: "invalid_json", detail: "the body is not JSON" }],
    [418, "teapot"],
    [404, "nothing here"],
  ];
  const { link, failures, pass } = await setUp(() => answers.shift() as Answer);
  const read = (body: unknown) => ((body as { work?: unknown } | null)?.work === undefined ? null : body);
  for (let left = answers.length; left > 0; left--)
    expect(await pass(link.post("claim", "{}", { read, isOnce: true }))).toEqual({ kind: "unsent" });
  expect(failures).toHaveLength(8);
  expect(failures[0]).toBe("claim: server sent an answer that is not from Rondo: <html>Bad gateway</html>");
  expect(failures[5]).toBe("claim: server answers 400 invalid_json: the body is not JSON");
});

test("only events are refused as such; others are tried again", async () => {
  const { link, pass, failures } = await setUp(() => [422, { code: "invalid_input", detail: "no" }]);
  expect(await pass(link.post("events", "{}", { read: value }))).toMatchObject({
    ...{ kind: "refused", status: 422, code: "invalid_input" },
  });
  expect(failures).toEqual([]);
  expect(await pass(link.post("heartbeat", "{}", { read: value, isOnce: true }))).toEqual({ kind: "unsent" });
  expect(failures).toEqual(["heartbeat: server answers 422 invalid_input: no"]);
});

test("a request that is swallowed is given up in time, and sent again as it was; others are not held up", async () => {
  let holes = 1;
  const { link, asked, pass, failures } = await setUp(({ path }) =>
    path.endsWith("/events") && holes-- > 0 ? "hole" : [200, {}],
  );
  const events = link.post("events", '{"events":[1]}', { read: value });
  expect(await link.post("heartbeat", "{}", { read: value })).toMatchObject({ kind: "answered" });
  expect(await pass(events)).toMatchObject({ kind: "answered" });
  expect(asked.filter(({ path }) => path.endsWith("/events")).map(({ body }) => body)).toEqual(
    Array(2).fill('{"events":[1]}'),
  );
  expect(failures).toEqual(["events: POST /v1/workers/w1/events at server: took too long"]);
});

test("a server that does not know the worker is reported, and the request waits until it is registered again", async () => {
  let isKnown = false;
  const { address, link, asked } = await setUp(() =>
    isKnown ? [200, {}] : [404, { code: "not_found", detail: "no such worker" }],
  );
  const beat = link.post("heartbeat", "{}", { read: value });
  while (link.isConnected) await new Promise((resolve) => setImmediate(resolve));
  isKnown = true;
  link.ready(address);
  expect(await beat).toMatchObject({ kind: "answered" });
  expect(asked).toHaveLength(2);
});

test("a registration says what came of it, whatever the server answers", async () => {
  const registered = { worker: "w1", heartbeatMs: 1, leaseMs: 1 };
  const answers: Answer[] = [
    "cut",
    [200, registered],
    [200, { ...registered, nodes: "no list" }],
    [200, { ...registered, nodes: ["http://a", 7] }],
    [200, { ...registered, heartbeatMs: "soon" }],
    [200, "null"],
    [503, "<html>"],
    [401, { code: "unauthorised", detail: "a token is needed" }],
    [404, "no such page"],
    [422, { code: "invalid_input", detail: "name: no", path: "name" }],
  ];
  const { address, link } = await setUp(() => answers.shift() as Answer);
  const results: string[] = [];
  for (let left = answers.length; left > 0; left--) {
    const result = await link.register(address);
    results.push(result.kind === "failed" ? `${result.refused?.status ?? "failed"}` : result.kind);
  }
  expect(results).toEqual([
    ...["failed", "registered", "failed", "failed", "failed", "failed", "failed"],
    ...["401", "404", "422"],
  ]);
});

test("where the server will not ask at the worker's address, it registers without one, and keeps to that", async () => {
  const { address, asked, link } = await setUp(({ body }) =>
    body.includes('"url"')
      ? [422, { code: "invalid_input", path: "url", detail: "url: no" }]
      : [200, { worker: "w1", heartbeatMs: 1, leaseMs: 1 }],
  );
  expect(await link.register(address)).toMatchObject({ kind: "registered" });
  expect(await link.register(address)).toMatchObject({ kind: "registered" });
  expect(asked.map(({ body }) => body.includes('"url"'))).toEqual([true, false, false]);
});

test("a link that is closed still takes work that is on its way, and waits for nothing else", async () => {
  const held: ((answer: Answer) => void)[] = [];
  const { asked, link, failures } = await setUp(() => new Promise<Answer>((resolve) => held.push(resolve)));
  const claim = link.post("claim", "{}", { read: value, waitMs: 5_000, isOnce: true });
  while (held.length < 1) await new Promise((resolve) => setImmediate(resolve));
  const beat = link.post("heartbeat", "{}", { read: value });
  while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const closed = link.close({ saysGoodbye: false, waitsForClaims: true });
  expect(await beat).toEqual({ kind: "unsent" });
  held[0]?.([200, { work: 1 }]);
  expect(await claim).toEqual({ kind: "answered", value: { work: 1 } });
  await closed;
  expect(await link.post("claim", "{}", { read: value })).toEqual({ kind: "unsent" });
  expect(asked).toHaveLength(2);
  expect(failures).toEqual([]);
});

test("a registration that is under way when the link is closed is undone", async () => {
  let answer = (_: Answer): void => {};
  const answered = new Promise<Answer>((resolve) => {
    answer = resolve;
  });
  const { address, asked, link } = await setUp(({ path }) => (path === "/v1/workers" ? answered : [200, {}]));
  link.notReady();
  const registering = link.register(address);
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const closing = link.close({ worker: null });
  answer([200, { worker: "w1", heartbeatMs: 1_000, leaseMs: 1_000 }]);
  await Promise.all([registering, closing]);
  expect(asked.map(({ path }) => path)).toEqual(["/v1/workers", "/v1/workers/w1"]);
});

test("a registration that is never answered holds up the end of the link for a while only", async () => {
  const { address, asked, link, pass } = await setUp(() => "hole");
  link.notReady();
  const registering = link.register(address);
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await pass(link.close({ worker: null }));
  expect((await registering).kind).toBe("failed");
  expect(asked.map(({ path }) => path)).toEqual(["/v1/workers"]);
});

test("a claim that is not answered is given up a while after its link is closed", async () => {
  let isAsked = false;
  const { link, pass } = await setUp(() => {
    isAsked = true;
    return "hole";
  });
  const claim = link.post("claim", "{}", { read: value, waitMs: 60_000, isOnce: true });
  while (!isAsked) await new Promise((resolve) => setImmediate(resolve));
  await pass(link.close({ saysGoodbye: false, waitsForClaims: true }));
  expect(await claim).toEqual({ kind: "unsent" });
});

test("after a request that was swallowed, connections that idle are not used again: they may be dead too", async () => {
  const dead = new Set<Socket>();
  const sockets = new Set<Socket>();
  const swallowed: string[] = [];
  const waiting: ((answer: Answer) => void)[] = [];
  let isGathering = true;
  const { link } = await setUp(({ socket, path }) => {
    sockets.add(socket);
    if (dead.has(socket)) {
      swallowed.push(path);
      return "hole";
    }
    return isGathering ? new Promise<Answer>((resolve) => waiting.push(resolve)) : [200, {}];
  });
  const beats = Array.from({ length: 5 }, () => link.post("heartbeat", "{}", { read: value }));
  while (waiting.length < 5) await new Promise((resolve) => setImmediate(resolve));
  isGathering = false;
  for (const answer of waiting.splice(0)) answer([200, {}]);
  await Promise.all(beats);
  expect(sockets.size).toBe(5);
  for (const socket of sockets) dead.add(socket);
  const lost = await link.post("heartbeat", "{}", { read: value, isOnce: true });
  expect(lost).toEqual({ kind: "unsent" });
  const again = await link.post("heartbeat", "{}", { read: value, isOnce: true });
  expect(again).toMatchObject({ kind: "answered" });
  expect(swallowed).toEqual(["/v1/workers/w1/heartbeat"]);
});
