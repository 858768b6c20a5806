// Workers as processes of their own: killed, stopped, cut off, told to end. Nothing is lost, nothing is counted twice.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { HttpConnection } from "../../src/net/http-connection.ts";
import type { Claimed } from "../../src/protocol/worker-wire.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { effort } from "../fixtures/long.ts";
import { ProcessFixture } from "../fixtures/workers/worker-process-fixture.ts";
import { Proxy } from "../fixtures/workers/worker-proxy-fixture.ts";

// Whole processes, on machines that are busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
/** Short, so that a loss comes soon; not so short that one who lives is silent for as long. */
const HEARTBEAT = "3s";

const EVENTS = /^POST \/v1\/workers\/[^/]+\/events/;

describe("kill -9 of a worker", () => {
  test("C4 after its claim: another gets the work after the lease, as the same attempt", async () => {
    const fixture = await ProcessFixture.open();
    const other = await fixture.worker();
    other.kill("SIGTERM");
    await other.ended;
    // A worker that claims and never starts, like one that was killed there.
    const connection = new HttpConnection({ address: fixture.server.url });
    onTestFinished(() => connection.close());
    const post = async (path: string, body: object) =>
      JSON.parse(
        (await connection.send({ method: "POST", path, body: JSON.stringify(body) })).text,
      ) as unknown;
    const handlers = [{ use: "w.a", enumerates: true }];
    await post("/v1/workers", { name: "dead", worker: "dead", handlers, capacity: 5 });
    const id = await fixture.start({ tasks: 1 });
    const claimed = (await post("/v1/workers/dead/claim", { max: 5, waitMs: 60_000 })) as Claimed;
    expect(claimed.work.map((work) => [work.do, work.n])).toEqual([["enumerate", 1]]);
    await fixture.worker();
    expect(await fixture.end(id)).toBe("done");
    expect(fixture.ran).toMatchObject([{ id: 0, attempt: 1 }]);
    expect(await fixture.events(id, "handler.lost")).toEqual([]);
  });

  test("A7 C5 in the middle of a task: it is lost, runs again elsewhere, and is counted once", async () => {
    const fixture = await ProcessFixture.open();
    const first = await fixture.worker({ heartbeat: HEARTBEAT });
    const id = await fixture.start({ tasks: 1, hold: true });
    await fixture.logged(id, "holds 0");
    first.kill("SIGKILL");
    const second = await fixture.worker({ heartbeat: HEARTBEAT });
    await second.line(/holds 0/);
    fixture.go();
    expect(await fixture.end(id)).toBe("done");
    expect(fixture.ran.map(({ id: task, attempt }) => [task, attempt])).toEqual([
      [0, 1],
      [0, 2],
    ]);
    expect(await fixture.settled(id)).toEqual([1]);
    expect(await fixture.events(id, "tasks.lost")).toHaveLength(1);
  });

  test.each([["without a spool"], ["with a spool"]])(
    "C7 after its receipt was stored and before it heard so, %s: it stays stored, and counts once",
    async (how) => {
      const fixture = await ProcessFixture.open();
      const proxy = await Proxy.start(fixture.server.url);
      const args = how === "with a spool" ? ["--spool", "spool"] : [];
      const worker = await fixture.worker({ url: proxy.url, args });
      const id = await fixture.start({ tasks: 1, hold: true });
      await fixture.logged(id, "holds 0");
      const cut = proxy.cutAnswerTo(EVENTS);
      fixture.go();
      await cut;
      proxy.isDown = true;
      worker.kill("SIGKILL");
      await worker.ended;
      proxy.isDown = false;
      expect(await fixture.end(id)).toBe("done");
      await fixture.worker({ url: proxy.url, args });
      const after = await fixture.start({ tasks: 3 });
      expect(await fixture.end(after)).toBe("done");
      expect(await fixture.settled(id)).toEqual([1]);
      expect(fixture.ran.filter(({ attempt }) => attempt > 1)).toEqual([]);
      if (args.length > 0)
        expect(
          readdirSync(join(fixture.folder, "spool")).filter((name) => name.endsWith(".spool")),
        ).toHaveLength(1);
    },
  );

  test("with a spool, while the server is away: the receipt survives, and the task does not run again", async () => {
    const fixture = await ProcessFixture.open();
    const proxy = await Proxy.start(fixture.server.url);
    const spool = join(fixture.folder, "spool");
    mkdirSync(spool);
    const worker = await fixture.worker({ url: proxy.url, args: ["--spool", "spool"] });
    const id = await fixture.start({ tasks: 1, hold: true });
    await fixture.logged(id, "holds 0");
    proxy.isDown = true;
    proxy.cut();
    fixture.go();
    // Said once the events could not be sent: by then they are on disk.
    await worker.line(/the server does not answer/);
    await worker.line(/goes on/);
    await spooled(spool);
    worker.kill("SIGKILL");
    await worker.ended;
    proxy.isDown = false;
    await fixture.worker({ url: proxy.url, args: ["--spool", "spool"] });
    expect(await fixture.end(id)).toBe("done");
    expect(fixture.ran).toHaveLength(1);
    expect(await fixture.settled(id)).toEqual([1]);
  });
});

describe("C17 SIGTERM", () => {
  test("with a running attempt and an open claim: it ends, nothing is claimed any more, exit 0", async () => {
    const fixture = await ProcessFixture.open();
    const worker = await fixture.worker();
    const id = await fixture.start({ tasks: 1, hold: true });
    await fixture.logged(id, "holds 0");
    worker.kill("SIGTERM");
    await worker.line(/^leaving:/);
    fixture.go();
    expect((await worker.ended).code).toBe(0);
    expect(await fixture.end(id)).toBe("done");
    const claims = await fixture.claims();
    const next = await fixture.start({ tasks: 1 });
    expect(await fixture.server.rondo.execution(next).status()).toBe("running");
    expect(await fixture.claims()).toBe(claims);
    expect(fixture.ran).toHaveLength(1);
  });

  test("with a task that does not end within the grace: it is handed back, and another does it", async () => {
    const fixture = await ProcessFixture.open();
    const worker = await fixture.worker({ args: ["--grace", "100ms"] });
    const id = await fixture.start({ tasks: 1, hold: true });
    await fixture.logged(id, "holds 0");
    worker.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
    fixture.go();
    await fixture.worker();
    expect(await fixture.end(id)).toBe("done");
    expect(await fixture.events(id, "tasks.lost")).toEqual([]);
    expect((await fixture.events(id, "tasks.retrying")).flatMap(({ reasons }) => reasons)).toEqual([
      "released",
    ]);
  });

  test("with a server that is away: it ends all the same", async () => {
    const fixture = await ProcessFixture.open();
    const proxy = await Proxy.start(fixture.server.url);
    const worker = await fixture.worker({ url: proxy.url });
    proxy.isDown = true;
    proxy.cut();
    await worker.line(/the server does not answer/);
    worker.kill("SIGTERM");
    expect((await worker.ended).code).toBe(0);
  });
});

test("C8 SIGSTOP for longer than the heartbeat, then SIGCONT: lost, done by another, and its late word is no second outcome", async () => {
  const fixture = await ProcessFixture.open();
  const frozen = await fixture.worker({ heartbeat: HEARTBEAT, args: ["--status-port", "0"] });
  const id = await fixture.start({ tasks: 1, hold: true });
  await fixture.logged(id, "holds 0");
  frozen.kill("SIGSTOP");
  await fixture.event(id, "tasks.lost");
  const second = await fixture.worker({ heartbeat: HEARTBEAT });
  await second.line(/holds 0/);
  fixture.go();
  expect(await fixture.end(id)).toBe("done");
  frozen.kill("SIGCONT");
  // It goes on, hears that the attempt is not its own any more, and does other work.
  second.kill("SIGTERM");
  await second.ended;
  const after = await fixture.start({ tasks: 2 });
  expect(await fixture.end(after)).toBe("done");
  expect(await fixture.settled(id)).toEqual([1]);
  frozen.kill("SIGTERM");
  expect((await frozen.ended).code).toBe(0);
});

test("a drained worker ends what it has and leaves with exit 0", async () => {
  const fixture = await ProcessFixture.open();
  const worker = await fixture.worker({ args: ["--name", "leaver"] });
  const id = await fixture.start({ tasks: 1, hold: true });
  await fixture.logged(id, "holds 0");
  const { data } = (await (await fetch(`${fixture.server.url}/v1/workers`)).json()) as {
    data: { id: string; name: string }[];
  };
  const leaver = data.find(({ name }) => name === "leaver");
  await fetch(`${fixture.server.url}/v1/workers/${leaver?.id}/drain`, { method: "POST" });
  await worker.line(/^leaving:/);
  fixture.go();
  expect((await worker.ended).code).toBe(0);
  expect(await fixture.end(id)).toBe("done");
});

test("connections cut after so many bytes, again and again: every task is done and counted once", async () => {
  const fixture = await ProcessFixture.open();
  const proxy = await Proxy.start(fixture.server.url);
  const random = new SeededRandom("cuts");
  const worker = await fixture.worker({ url: proxy.url, args: ["--capacity", "20"] });
  proxy.cutAfter = () => random.between(1, 6_000);
  proxy.cut();
  const tasks = effort({ usual: 60, long: 150 });
  const ids = await Promise.all([0, 1, 2].map(() => fixture.start({ tasks })));
  // Pages and answers of all sizes are cut; now and then a connection lives long enough.
  for (const id of ids) expect(await fixture.end(id)).toBe("done");
  for (const id of ids) expect(await fixture.settled(id)).toEqual(Array(tasks).fill(1));
  expect(proxy.cuts).toBeGreaterThan(5);
  proxy.cutAfter = () => Number.POSITIVE_INFINITY;
  worker.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

/** Resolves when the spool has a receipt in it. */
async function spooled(directory: string): Promise<void> {
  const { readFileSync, watch } = await import("node:fs");
  const isThere = () =>
    readdirSync(directory)
      .filter((name) => name.endsWith(".spool"))
      .some((name) => readFileSync(join(directory, name), "utf8").includes('"isReceipt":true'));
  await new Promise<void>((resolve) => {
    const watcher = watch(directory, () => {
      if (!isThere()) return;
      watcher.close();
      resolve();
    });
    if (isThere()) {
      watcher.close();
      resolve();
    }
  });
}
