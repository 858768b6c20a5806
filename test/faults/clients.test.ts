// Clients that send too much, too deep, too slowly, that read nothing, or that only sit there, all at the same time, at a
// real server with a real worker: they are refused or cut off, others are served meanwhile, and memory stays flat.
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { expectWell } from "../fixtures/faults/open-fault-fixture.ts";
import { RawClient } from "../fixtures/server/raw-client-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

/** What the server may have, in MB: a fraction of what these clients send or leave unread. */
const RSS_MB_MAX = 400;
const HEAD = "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

let fixture: FaultFixture;

beforeAll(async () => {
  const limits = { headerMs: 1_000, requestMs: 3_000, streamStallMs: 500, connections: 2_500 };
  fixture = await FaultFixture.open({ config: { limits } });
  await fixture.worker();
});

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    await fixture.close();
  }
});

/** Others are served: a start is taken, done, and shown. */
async function expectServed(): Promise<void> {
  const id = await fixture.startTasks({ tasks: 3 });
  expect(await fixture.ended(id)).toMatchObject({ status: "done" });
}

function expectFlat(): void {
  fixture.measure();
  expect(fixture.rssMbMax).toBeLessThan(RSS_MB_MAX);
}

describe("bodies", () => {
  test("of 10 MB, many at a time, are refused, those whose length is not told too", async () => {
    const chunk = Buffer.alloc(1_048_576, "x");
    const upload = async (isChunked: boolean): Promise<string> => {
      const client = await RawClient.connect(fixture.url);
      client.send(`${HEAD}${isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 10485760"}\r\n\r\n`);
      for (let i = 0; i < 10 && !client.isClosed; i++) {
        if (isChunked) client.send("100000\r\n");
        const isTaken = client.send(chunk);
        if (isChunked) client.send("\r\n");
        if (!isTaken) await client.drain();
      }
      const answer = await client.until((text) => text.includes("\r\n\r\n{"));
      client.destroy();
      return answer;
    };
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => upload(i % 2 === 0)));
    // On a slow machine some are too slow before they are too large.
    for (const answer of answers) expect(answer).toMatch(/"code":"(too_large|request_timeout)"/);
    expect(answers.filter((answer) => answer.startsWith("HTTP/1.1 413 ")).length).toBeGreaterThan(10);
    await expectServed();
    expectFlat();
  });

  test("that nest a million deep, or hold a million keys, are refused, and nothing of them is stored", async () => {
    const bombs = [
      `{"workflow":"tasks","input":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`,
      `{"workflow":"tasks","input":${'{"a":'.repeat(500_000)}1${"}".repeat(500_000)}}`,
      `{"workflow":"tasks","input":{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":1`).join()}}}`,
      `{"workflow":"tasks","input":${"[".repeat(1_000_000)}`,
    ];
    const served = expectServed();
    for (const body of bombs) {
      const headers = { "content-type": "application/json" };
      const { status } = await fetch(`${fixture.url}/v1/executions`, { method: "POST", headers, body });
      expect([400, 413, 422]).toContain(status);
    }
    await served;
    expectFlat();
  });

  test("and headers that come slowly are cut off, however many they are", async () => {
    const slow = await Promise.all(Array.from({ length: 200 }, () => RawClient.connect(fixture.url)));
    slow.forEach((client, i) => {
      client.send(i % 2 === 0 ? "GET /healthz HTTP/1.1\r\nX: " : `${HEAD}Content-Length: 1000\r\n\r\n{"work`);
    });
    await expectServed();
    for (const client of slow) expect(await client.closed()).toMatch(/^HTTP\/1\.1 408 /);
    expectFlat();
  });
});

test("streams that nobody reads are cut off; those who read get all of it", async () => {
  const id = await fixture.startTasks({ tasks: 400, pad: 50_000 });
  const { revision } = await fixture.ended(id);
  const ask = `GET /v1/executions/${id}/events?detail=full HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n`;
  const deaf = await Promise.all(Array.from({ length: 200 }, () => RawClient.connect(fixture.url)));
  for (const client of deaf) client.stopReading();
  for (const client of deaf) client.send(ask);
  await expectServed();
  const cutOff = async (): Promise<boolean> =>
    (await (await fetch(`${fixture.url}/metrics`)).text()).includes("rondo_sse_cut_off_total 200");
  await until("all of them are cut off", cutOff, { state: () => metric("rondo_sse") });
  for (const client of deaf) client.destroy();
  const read = await fetch(`${fixture.url}/v1/executions/${id}/events?detail=full`, {
    headers: { accept: "text/event-stream" },
  });
  const ids = [...(await read.text()).matchAll(/^id: ?(\d+)$/gm)].map(([, seq]) => Number(seq));
  expect(ids.at(-1)).toBe(revision);
  expectFlat();
});

test("2,000 connections that do nothing: others are served, and those that never say a word are cut off", async () => {
  const { hostname: host, port } = new URL(fixture.url);
  const idle = await Promise.all(
    Array.from(
      { length: 2_000 },
      () =>
        new Promise<Socket>((resolve, fail) => {
          const socket = connect({ host, port: Number(port) }, () => resolve(socket));
          socket.once("error", fail);
        }),
    ),
  );
  for (const socket of idle) socket.on("error", () => socket.destroy()).resume();
  await expectServed();
  expectFlat();
  await until("they are cut off", () => idle.every(({ closed }) => closed));
  await expectServed();
});

/** Lines of the metrics that begin so. */
async function metric(name: string): Promise<string[]> {
  const text = await (await fetch(`${fixture.url}/metrics`)).text();
  return text.split("\n").filter((line) => line.startsWith(name));
}
