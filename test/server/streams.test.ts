// Journals and logs as they come: in order, without a gap or a repeat, shared by many, and cut off where nobody reads.
import { workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/std/clock.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { type Api, ended, STORES, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles } from "../fixtures/server/api-workflows.ts";
import { EventClient } from "../fixtures/server/event-client-fixture.ts";
import { RawClient } from "../fixtures/server/raw-client-fixture.ts";

/** Tasks that each take a turn of the loop or two, so that commits are many. */
const steady = workflow({ name: "steady" }).phase("work", {
  async *enumerate({ input }) {
    for (let n = 0; n < (input as { count: number }).count; n++) {
      if (n % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      yield n;
    }
  },
  process: ({ task, log }) => {
    log.info(`line ${task}`);
    return task;
  },
  concurrency: 3,
});

const large = workflow({ name: "large" }).phase("work", {
  enumerate: ({ input }) => Array.from({ length: (input as { count: number }).count }, (_, n) => n),
  process: () => "x".repeat(100_000),
});

async function opened(store = STORES[0]?.[1] as () => string | MemoryStore): Promise<Api> {
  const api = await serve({ store: store() });
  api.rondo.serve(steady, large, doubles, approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (4 as never));
  return api;
}

const follow = (api: Api, id: string, query = "", lastEventId?: string): EventClient =>
  new EventClient({ url: api.url, path: `/v1/executions/${id}/events${query}`, lastEventId });

const seqs = (clients: readonly EventClient[]): number[] =>
  clients.flatMap(({ events }) => events.map(({ id }) => Number(id)));

const upTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);

describe.each(STORES)("over a %s store", (_, store) => {
  test("a stream gives the whole journal in order, as it comes, and ends with it", async () => {
    const api = await opened(store);
    await api.post("/v1/executions", { workflow: "steady", input: { count: 50 }, id: "one" });
    const client = follow(api, "one");
    await client.ended();
    expect(client.isBroken).toBe(false);
    const { revision } = (await ended(api, "one")) as unknown as { revision: number };
    expect(seqs([client])).toEqual(upTo(revision));
    expect(client.events.at(-1)?.data).toMatchObject({ kind: "workflow.finished", seq: revision });
    const page = await api.get("/v1/executions/one/events?limit=1000");
    expect(client.events.map(({ data }) => data)).toEqual(page.body["data"]);
    const full = follow(api, "one", "?detail=full");
    await full.ended();
    const settled = full.events.flatMap(({ data }) =>
      data["kind"] === "workflow.tasks.settled" ? (data["tasks"] as unknown[]) : [],
    );
    expect(settled).toContainEqual(expect.objectContaining({ n: 0, status: "done", result: 0 }));
  });

  test("clients that come and go at any time miss nothing and get nothing twice", async () => {
    const api = await opened(store);
    await api.post("/v1/executions", { workflow: "steady", input: { count: 400 }, id: "one" });
    const random = new SeededRandom("come and go");
    const chase = async (): Promise<EventClient[]> => {
      const clients: EventClient[] = [];
      for (;;) {
        const client = follow(api, "one", "", clients.at(-1)?.lastId ?? clients.at(-2)?.lastId);
        clients.push(client);
        const patience = random.below(4) === 0 ? Number.POSITIVE_INFINITY : 1 + random.below(12);
        await client.until(() => client.events.length >= patience);
        if (client.isEnded && !client.isBroken) return clients;
        client.close();
        // What was taken before it let go of counts; an empty client changes nothing.
        if (client.events.length === 0) clients.pop();
      }
    };
    const all = await Promise.all(Array.from({ length: 12 }, chase));
    const { revision } = (await ended(api, "one")) as unknown as { revision: number };
    for (const clients of all) expect(seqs(clients)).toEqual(upTo(revision));
  });

  test("logs come in order, also to those who connect again", async () => {
    const api = await opened(store);
    await api.post("/v1/executions", { workflow: "steady", input: { count: 60 }, id: "one" });
    const path = "/v1/executions/one/logs";
    const first = new EventClient({ url: api.url, path });
    await first.until(() => first.events.length >= 20);
    first.close();
    const second = new EventClient({ url: api.url, path, lastEventId: first.lastId });
    await second.ended();
    expect(second.isBroken).toBe(false);
    const lines = [...first.events, ...second.events];
    const stored: unknown[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await api.get(`/v1/executions/one/logs?limit=7${cursor}`);
      stored.push(...(body["data"] as unknown as unknown[]));
      if ((body["next"] as unknown) === null) break;
      cursor = `&cursor=${textOf(body["next"])}`;
    }
    expect(stored).toHaveLength(60);
    expect(lines.map(({ data }) => data)).toEqual(stored);
    const one = new EventClient({ url: api.url, path: `${path}?task=7` });
    await one.ended();
    expect(one.events.map(({ data }) => data["text"])).toEqual(["line 7"]);
  });
});

describe("a stream", () => {
  test("of an execution that is over ends at once, also after its last event", async () => {
    const api = await opened();
    await api.post("/v1/executions", { workflow: "doubles", input: {}, id: "one" });
    const { revision } = (await ended(api, "one")) as unknown as { revision: number };
    const after = follow(api, "one", "", String(revision));
    await after.ended();
    expect([after.status, after.events]).toEqual([200, []]);
    const beyond = follow(api, "one", `?from=${revision + 50}`);
    await beyond.ended();
    expect(beyond.events).toEqual([]);
    const last = follow(api, "one", `?from=${revision}`);
    await last.ended();
    expect(seqs([last])).toEqual([revision]);
  });

  test("goes on after the end if asked to, and tells of a retry", async () => {
    const api = await opened();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const client = follow(api, "a", "?follow=true");
    await api.post("/v1/executions/a/cancel");
    await client.until(() => client.events.at(-1)?.data["kind"] === "workflow.finished");
    await api.post("/v1/executions/a/retry");
    await client.until(() => client.events.some(({ data }) => data["kind"] === "workflow.retried"));
    expect(client.isEnded).toBe(false);
    expect(seqs([client])).toEqual(upTo(client.events.length));
    // One that does not follow ends at the first end.
    const plain = follow(api, "a");
    await plain.ended();
    expect(plain.events.at(-1)?.data["kind"]).toBe("workflow.finished");
    client.close();
  });

  test("is kept open by comments", async () => {
    const base = systemClock();
    const hurried = {
      ...base,
      after: (ms: number, run: () => void) => base.after(ms === 15_000 ? 20 : ms, run),
    };
    const api = await serve({ clock: hurried });
    api.rondo.serve(approval);
    await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const client = follow(api, "a");
    await client.until(() => client.comments >= 4);
    expect(client.isEnded).toBe(false);
    client.close();
  });

  test("there are only so many at a time", async () => {
    const api = await serve({ limits: { streams: 2 } });
    api.rondo.serve(approval);
    await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const clients = [follow(api, "a"), follow(api, "a")];
    await Promise.all(clients.map((client) => client.until(() => client.events.length > 0)));
    const third = await api.get("/v1/executions/a/events", { headers: { accept: "text/event-stream" } });
    expect(third.body).toMatchObject({ code: "rate_limited" });
    clients[0]?.close();
    await until(async () => (await api.get("/metrics")).text.includes("rondo_sse_clients 1\n"));
    const again = follow(api, "a");
    await again.until(() => again.events.length > 0);
    for (const client of [...clients, again]) client.close();
  });

  test("many followers of a busy execution cost about one reader", async () => {
    const store = new MemoryStore();
    let reads = 0;
    const readJournal = store.readJournal.bind(store);
    store.readJournal = (range) => {
      reads++;
      return readJournal(range);
    };
    const api = await opened(() => store);
    await api.post("/v1/executions", { workflow: "steady", input: { count: 600 }, id: "one" });
    const clients = Array.from({ length: 100 }, () => follow(api, "one"));
    await Promise.all(clients.map((client) => client.ended()));
    const { revision } = (await ended(api, "one")) as unknown as { revision: number };
    for (const client of clients) expect(seqs([client])).toEqual(upTo(revision));
    expect(revision).toBeGreaterThan(100);
    expect(reads).toBeLessThan(400);
  });

  test("that is not read is cut off, and others are served", async () => {
    const api = await serve({ limits: { streamStallMs: 2_000 } });
    api.rondo.serve(large);
    await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
    await api.post("/v1/executions", { workflow: "large", input: { count: 300 }, id: "one" });
    await ended(api, "one");
    const deaf = await RawClient.connect(api.url);
    deaf.send(
      "GET /v1/executions/one/events?detail=full HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
    );
    await deaf.until((text) => text.includes("200 OK"));
    deaf.stopReading();
    const before = process.memoryUsage().external;
    await until(async () => (await api.get("/metrics")).text.includes("rondo_sse_cut_off_total 1"));
    expect(process.memoryUsage().external - before).toBeLessThan(20_000_000);
    deaf.destroy();
    const client = follow(api, "one", "?detail=full");
    await client.ended();
    expect(client.isBroken).toBe(false);
    expect(client.events.at(-1)?.data["kind"]).toBe("workflow.finished");
    await until(async () => (await api.get("/metrics")).text.includes("rondo_sse_clients 0\n"));
    expect(api.faults).toEqual([]);
  });
});

describe("closing", () => {
  test("ends open streams and waiting requests, finishes what is under way, then the engine", async () => {
    const api = await opened();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const client = follow(api, "a");
    await client.until(() => client.events.length > 0);
    const worker = await api.post("/v1/workers", { name: "w", handlers: [{ use: "x" }], capacity: 1 });
    const claim = api.post(`/v1/workers/${textOf(worker.body["worker"])}/claim`, { max: 1, waitMs: 60_000 });
    await until(async () => (await api.get("/metrics")).text.includes("rondo_workers 2"));
    await api.close();
    await client.ended();
    expect(client.isBroken).toBe(false);
    expect((await claim).status).toBeGreaterThanOrEqual(200);
    await expect(fetch(`${api.url}/healthz`)).rejects.toThrow("fetch failed");
    expect(api.server.engine.hasStopped).toBe(true);
    expect(api.faults).toEqual([]);
  });

  test("a stream that is not read does not hold it up", async () => {
    const api = await opened();
    await api.post("/v1/executions", { workflow: "large", input: { count: 300 }, id: "one" });
    await ended(api, "one");
    const deaf = await RawClient.connect(api.url);
    deaf.send(
      "GET /v1/executions/one/events?detail=full HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
    );
    await deaf.until((text) => text.includes("200 OK"));
    deaf.stopReading();
    await api.close();
    expect(api.server.engine.hasStopped).toBe(true);
    deaf.destroy();
  });

  test("an idle connection does not hold it up", async () => {
    const api = await serve();
    const idle = await RawClient.connect(api.url);
    idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await idle.until((text) => text.includes("ok"));
    await api.close();
    await idle.closed();
    expect(idle.isClosed).toBe(true);
  });

  test("twice is once", async () => {
    const api = await serve();
    await Promise.all([api.close(), api.close()]);
  });
});
