// The way to the server: what is waited out, what is final, and what is left out. Over HTTP; time is virtual.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { ServerLink } from "./server-link.ts";

interface Asked {
  readonly path: string;
  readonly token: string | undefined;
  readonly body: string;
}

/** What the server does with a request: cuts it off, or answers. */
type Answer = "cut" | readonly [status: number, body: unknown];

async function bench(answer: (asked: Asked) => Answer | Promise<Answer>) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    const respond = (given: Answer): void => {
      if (given === "cut") request.socket.destroy();
      else response.writeHead(given[0]).end(JSON.stringify(given[1]));
    };
    request.on("end", () => {
      const one = { path: request.url ?? "", token: request.headers.authorization, body };
      asked.push(one);
      const given = answer(one);
      if (given instanceof Promise) void given.then(respond);
      else respond(given);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = new VirtualClock();
  const troubles: (string | null)[] = [];
  const link = new ServerLink({
    addresses: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`],
    token: "own",
    clock,
    random: new SeededRandom("link"),
    registration: () => ({ name: "w", handlers: [], capacity: 1, url: "http://127.0.0.1:1" }),
    onRegistered: () => {},
    onTrouble: (what) => troubles.push(what),
  });
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
  return { asked, link, clock, troubles, pass };
}

test("reading waits out a server that is not there, or not ready", async () => {
  const answers: Answer[] = ["cut", "cut", [503, { code: "not_ready" }], [429, {}], [200, { data: [] }]];
  const { asked, link, troubles, pass } = await bench(() => answers.shift() as Answer);
  expect(await pass(link.read("/v1/x", "t1"))).toBe('{"data":[]}');
  expect(asked.map(({ path, token }) => `${path} ${token}`)).toEqual(Array(5).fill("/v1/x Bearer t1"));
  expect(troubles.map((what) => what !== null)).toEqual([true, false]);
});

test("a refusal is final for what is read", async () => {
  const { asked, link, pass } = await bench(() => [409, { code: "stale_attempt", detail: "it is over" }]);
  await expect(pass(link.read("/v1/x", "t1"))).rejects.toThrow("409 stale_attempt: it is over");
  expect(asked).toHaveLength(1);
});

test("whoever waits for a server is let go when the link is closed", async () => {
  const { link, pass } = await bench(() => "cut");
  const read = link.read("/v1/x", "t1");
  await link.close();
  await expect(pass(read)).rejects.toThrow("the worker ends");
});

test("once the server is there again, nobody waits for the end of a back-off", async () => {
  let isThere = false;
  const { link, clock, asked } = await bench(({ path }) =>
    path === "/v1/workers"
      ? [200, { worker: "w1", heartbeatMs: 1, leaseMs: 1 }]
      : isThere
        ? [200, { path }]
        : [503, { code: "not_ready" }],
  );
  const read = link.read("/v1/x", "t1");
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  while (!link.isInTrouble) await new Promise((resolve) => setImmediate(resolve));
  isThere = true;
  // Time stands still: only the other answer can wake it.
  expect(await link.post("heartbeat", "{}")).toMatchObject({ kind: "answered" });
  expect(await read).toBe('{"path":"/v1/x"}');
  expect(clock.now()).toBe(new VirtualClock().now());
});

test("where the server will not ask at the worker's address, it registers without one, and keeps to that", async () => {
  let isKnown = false;
  const { asked, link, troubles, pass } = await bench(({ path, body }) => {
    if (path !== "/v1/workers") return isKnown ? [200, {}] : [404, { code: "not_found" }];
    if (body.includes('"url"')) return [422, { code: "invalid_input", path: "url", detail: "url: no" }];
    isKnown = true;
    return [200, { worker: "w1", heartbeatMs: 1, leaseMs: 1 }];
  });
  expect(await pass(link.post("heartbeat", "{}"))).toMatchObject({ kind: "answered" });
  isKnown = false;
  expect(await pass(link.post("heartbeat", "{}"))).toMatchObject({ kind: "answered" });
  expect(asked.map(({ path, body }) => `${path}${body.includes('"url"') ? " url" : ""}`)).toEqual([
    "/v1/workers url",
    "/v1/workers",
    "/v1/workers/w1/heartbeat",
    "/v1/workers/w1/heartbeat",
    "/v1/workers",
    "/v1/workers/w1/heartbeat",
  ]);
  expect(troubles).toEqual([]);
});

test("a link that is closed still takes work that is on its way, and waits for nothing else", async () => {
  const held: ((answer: Answer) => void)[] = [];
  const { asked, link, troubles } = await bench(({ path }) =>
    path === "/v1/workers"
      ? [200, { worker: "w1", heartbeatMs: 1, leaseMs: 1 }]
      : new Promise<Answer>((resolve) => held.push(resolve)),
  );
  const claim = link.post("claim", "{}");
  while (held.length < 1) await new Promise((resolve) => setImmediate(resolve));
  const beat = link.post("heartbeat", "{}");
  while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const closed = link.close({ saysGoodbye: false, waitsForClaims: true });
  expect(await beat).toEqual({ kind: "unsent" });
  held[0]?.([200, { work: 1 }]);
  expect(await claim).toEqual({ kind: "answered", value: { work: 1 } });
  await closed;
  expect(await link.post("claim", "{}")).toEqual({ kind: "unsent" });
  expect(asked).toHaveLength(3);
  expect(troubles).toEqual([]);
});

test("a claim that is not answered is given up a while after its link is closed", async () => {
  let isAsked = false;
  const { link, pass } = await bench(({ path }) => {
    if (path === "/v1/workers") return [200, { worker: "w1", heartbeatMs: 1, leaseMs: 1 }];
    isAsked = true;
    return new Promise<Answer>(() => {});
  });
  const claim = link.post("claim", "{}");
  while (!isAsked) await new Promise((resolve) => setImmediate(resolve));
  await pass(link.close({ saysGoodbye: false, waitsForClaims: true }));
  expect(await claim).toEqual({ kind: "unsent" });
});
