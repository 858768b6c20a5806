// Clients that do not read what they asked for: each is cut off after a while, and what is answered has a bound.

import { Fatal, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { type Api, ended, type Loose, serve, until } from "../fixtures/server/api-fixture.ts";
import { RawClient } from "../fixtures/server/raw-client-fixture.ts";

const large = workflow({ name: "large" }).phase("work", {
  process: ({ task }) => task,
});
const failing = workflow({ name: "failing" }).phase("work", {
  enumerate: () => Array.from({ length: 40 }, (_, n) => n),
  process: ({ task }) => {
    throw new Fatal(`${task}: ${"x".repeat(7_000)}`);
  },
  tolerate: "100%",
  concurrency: 1,
});

async function served(streamStallMs = 10_000): Promise<Api> {
  const api = await serve({ limits: { streamStallMs } });
  api.rondo.serve(large, failing);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (2 as never));
  return api;
}

async function startLarge(api: Api, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await api.post("/v1/executions", { workflow: "large", id: `l${i}`, input: "x".repeat(250_000) });
    await ended(api, `l${i}`);
  }
}

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

describe("an answer that nobody reads", () => {
  test("is cut off, and others are served meanwhile", async () => {
    const api = await served(200);
    await startLarge(api, 10);
    const client = await RawClient.connect(api.url);
    client.stopReading();
    for (let i = 0; i < 10; i++) client.send(GET("/v1/executions?detail=full&limit=100"));
    await until(async () => {
      expect((await api.get("/healthz")).status).toBe(200);
      // A paused socket does not notice that it is closed until it writes.
      client.send(GET("/healthz"));
      return client.isClosed;
    });
    expect(client.bytes).toBe(0);
  });

  test("but slowly is not cut off", async () => {
    const api = await served();
    await startLarge(api, 10);
    const whole = await api.get("/v1/executions?detail=full&limit=100");
    const response = await fetch(`${api.url}/v1/executions?detail=full&limit=100`);
    let bytes = 0;
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(bytes).toBe(Buffer.byteLength(whole.text));
  });
});

describe("a list", () => {
  test("of executions in full ends early where they are large, and its cursor goes on without a gap", async () => {
    const api = await served();
    await startLarge(api, 24);
    const sizes: number[] = [];
    const ids: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const more = cursor === "" ? "" : `&cursor=${cursor}`;
      const { body } = await api.get(`/v1/executions?detail=full&limit=100${more}`);
      const data = body["data"] as unknown as { id: string }[];
      ids.push(...data.map(({ id }) => id));
      sizes.push(data.length);
      cursor = body["next"] as unknown as string | null;
    }
    expect(sizes.length).toBeGreaterThan(1);
    expect(ids).toEqual(Array.from({ length: 24 }, (_, i) => `l${23 - i}`));
  });

  test("of dead letters ends early where errors are large", async () => {
    const api = await served();
    for (let i = 0; i < 20; i++) await api.post("/v1/executions", { workflow: "failing", id: `f${i}` });
    for (let i = 0; i < 20; i++) await ended(api, `f${i}`);
    let count = 0;
    const sizes: number[] = [];
    const seen: number[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const got: { body: Loose; text: string } = await api.get(
        `/v1/dead-letters?limit=1000${cursor === "" ? "" : `&cursor=${cursor}`}`,
      );
      for (const letter of got.body["data"] as unknown as { id: number; count: number }[]) {
        count += letter.count;
        seen.push(letter.id);
      }
      sizes.push(got.text.length);
      cursor = got.body["next"] as unknown as string | null;
    }
    expect(count).toBe(800);
    expect(seen).toEqual([...seen].sort((a, b) => b - a));
    expect(new Set(seen).size).toBe(seen.length);
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThan(6_000_000);
  });
});
