// Before an attempt counts as lost, its worker is asked at its own address: over HTTP, in virtual time.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Claimed, WorkItem } from "../../src/protocol/worker-wire.ts";
import { WorkerInquiry } from "../../src/server/worker-protocol/ask-worker.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { DONE, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const first = ({ work }: Claimed) => work[0] as WorkItem;

/** A worker's own API that has some attempts; gives its address and what was asked. */
async function statusApi(has: (attempt: string) => boolean): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const attempt = decodeURIComponent((request.url ?? "").replace("/attempts/", ""));
    asked.push(attempt);
    response.writeHead(has(attempt) ? 200 : 404).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

async function silent(url: string): Promise<[SessionFixture, WorkItem]> {
  const fixture = await SessionFixture.open();
  const handlers = [{ use: "w.a" }];
  unwrap(fixture.sessions.register({ name: "test", worker: "one", handlers, capacity: 5, url }, "127.0.0.1"));
  await fixture.start("e1", [tasksPhase("a", ["x"], { heartbeat: 10_000 })]);
  const work = first(await fixture.claim("one"));
  await fixture.tell("one", [work, 1, STARTED]);
  return [fixture, work];
}

/** Time goes on in steps, with real turns between them for the questions and answers. */
async function pass(fixture: SessionFixture, ms: number): Promise<void> {
  for (let i = 0; i < ms; i += 500) {
    await fixture.clock.advance(500);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
}

test("one that still has it gets more time, once", async () => {
  const { url, asked } = await statusApi(() => true);
  const [fixture, work] = await silent(url);
  await pass(fixture, 14_000);
  expect(asked).toEqual([work.attempt]);
  expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
  await pass(fixture, 20_000);
  expect(asked).toEqual([work.attempt]);
  expect(await fixture.events("e1", "tasks.lost")).toHaveLength(1);
});

test("one that shows itself meanwhile keeps it", async () => {
  const { url } = await statusApi(() => true);
  const [fixture, work] = await silent(url);
  await pass(fixture, 14_000);
  expect(await fixture.beat("one", work)).toEqual({ [work.attempt]: "continue" });
  await pass(fixture, 8_000);
  await fixture.tell("one", [work, 2, DONE]);
  expect((await fixture.status("e1")).status).toBe("done");
  expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
});

test("one that has it not, or that is not there, has lost it", async () => {
  const { url, asked } = await statusApi(() => false);
  const [fixture] = await silent(url);
  await pass(fixture, 20_000);
  expect(asked).toHaveLength(1);
  expect(await fixture.events("e1", "tasks.lost")).toHaveLength(1);
});

test("a worker that does not answer is not asked thousands of times", async () => {
  let connections = 0;
  const server = createServer();
  server.on("connection", (socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const inquiry = new WorkerInquiry(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => inquiry.close());
  const answers = await Promise.all(
    Array.from({ length: 2_000 }, (_, i) => inquiry.ask(`e1.a.1.a.1.${i}.1.0.1`)),
  );
  expect(new Set(answers)).toEqual(new Set([false]));
  expect(connections).toBeLessThan(20);
});
